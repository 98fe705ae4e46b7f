"""The columns of a table: their facts, their declared kinds, and the ones to drop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from gpupipe.backends import choose
from gpupipe.io.formats.csv.reader import read_texts
from gpupipe.io.settings import TableSource
from gpupipe.starter.facts import ColumnFacts, collect_facts
from gpupipe.starter.source_table import SourceTable, read_source_table
from gpupipe.starter.useless_columns import find_useless_columns
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare
from gpupipe.table.time_formats import digit_format, time_formats, time_unit
from gpupipe.units import MIB, is_number

TIME_WORDS = re.compile(r"(^|_)(time|date|day|timestamp|ts|epoch|at|on|created|updated|when)(_|$)|timestamp|datetime")
MAX_BYTES_TWICE = 256 * MIB  # larger files are not read a second time to count blanks


@dataclass(frozen=True)
class ColumnDeclaration:
    """An entry of ``schema:`` with the reason."""

    kind: str
    reason: str
    format: str | None = None


def find_declarations(facts: Mapping[str, ColumnFacts], source_table: SourceTable) -> dict[str, ColumnDeclaration]:
    """Return the declarations that columns need, by name."""
    found: dict[str, ColumnDeclaration] = {}
    for name, column in facts.items():
        declared = _of_text(column) if column.holds == "text" else _of_integers(column)
        if declared is not None:
            found[name] = declared
    blanks = count_blank_cells(
        source_table, [n for n, c in facts.items() if c.holds in ("integer", "number") and c.n_null]
    )
    for name, n in blanks.items():
        found[name] = ColumnDeclaration("float", f"{n:,} blank{'s become' if n > 1 else ' becomes'} missing")
    return found


def _of_text(column: ColumnFacts) -> ColumnDeclaration | None:
    texts = column.texts
    if texts and all(is_number(text) and not _is_code(text) for text in texts):
        return ColumnDeclaration("float", "numbers written as text")
    formats = time_formats(texts)
    if not formats:
        return None
    reason = f"such as {texts[0]}"
    if len(formats) > 1:
        reason += f"; all values also match {' and '.join(formats[1:])}"
    return ColumnDeclaration("datetime", reason, formats[0] or None)


def _is_code(text: str) -> bool:
    """Return whether a number is written as a code, with a leading zero: 01234."""
    return len(text) > 1 and text[0] == "0" and text.isdecimal()


def _of_integers(column: ColumnFacts) -> ColumnDeclaration | None:
    if column.holds != "integer" or not TIME_WORDS.search(column.name.lower()):
        return None
    if (unit := time_unit(*column.range)) is not None:
        return ColumnDeclaration("datetime", "time since 1970", unit)
    digits = digit_format(*column.range)
    return ColumnDeclaration("datetime", "dates in digits", digits) if digits == "%Y%m%d" else None


def count_blank_cells(source_table: SourceTable, names: Iterable[str]) -> dict[str, int]:
    """Return the number of blank cells in each of the named columns of CSV files, without columns that have none.

    The reader converts them to null. The column is declared to document this, since other readers would infer text.
    """
    names = list(names)
    files = source_table.files
    if not names or any(f.format != "csv" for f in files) or sum(f.size for f in files) > MAX_BYTES_TWICE:
        return {}
    found = dict.fromkeys(names, 0)
    for file in files:
        table = read_texts(file, names, source_table.source)
        if table is not None:
            for name in found.keys() & table.column_names:
                found[name] += pc.sum(pc.utf8_is_space(table[name])).as_py() or 0
    return {name: n for name, n in found.items() if n}


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table.

    Attributes
    ----------
    source_table : SourceTable
    facts : mapping of str to ColumnFacts
    declared : mapping of str to ColumnDeclaration
        The entries of ``schema:``.
    dropped : mapping of str to str
        The entries of ``drop:``, each with the reason.
    """

    source_table: SourceTable
    facts: Mapping[str, ColumnFacts]
    declared: Mapping[str, ColumnDeclaration]
    dropped: Mapping[str, str]

    @property
    def n_rows(self) -> int:
        """Number of rows of the table."""
        return int(self.source_table.table.num_rows)

    @property
    def kept(self) -> list[str]:
        """The columns that are not dropped."""
        return [name for name in self.facts if name not in self.dropped]

    def kind(self, name: str) -> str:
        """Return the kind of a column."""
        if name in self.declared:
            return self.declared[name].kind
        kinds = {"text": "categorical", "integer": "numeric", "number": "numeric", "time": "datetime"}
        return kinds.get(self.facts[name].holds, "boolean")

    def declare(self, found: Mapping[str, ColumnDeclaration]) -> TableColumns:
        """Return the columns with further declarations."""
        return replace(self, declared={**self.declared, **found})

    def drop(self, reasons: Mapping[str, str]) -> TableColumns:
        """Return the columns with further ones dropped."""
        declared = {name: declared for name, declared in self.declared.items() if name not in reasons}
        return replace(self, declared=declared, dropped={**self.dropped, **reasons})

    def encoded(self) -> Table:
        """Return the encoded table of the columns that are not dropped."""
        declared = {name: declare(found.kind, found.format) for name, found in self.declared.items()}
        return encode(self.source_table.table.select(self.kept), choose("cpu"), declared)


def inspect_columns(path: str, source: TableSource | None = None) -> TableColumns:
    """Read a table and inspect its columns; `source` has the format settings given by the user.

    Raises
    ------
    DataError
        If the table cannot be read.
    """
    source_table = read_source_table(path, source)
    facts = collect_facts(source_table.table)
    declared = find_declarations(facts, source_table)
    return TableColumns(source_table, facts, declared, {}).drop(find_useless_columns(facts, set(declared)))
