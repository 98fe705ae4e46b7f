"""The columns of a table: their facts, their declared kinds, and the ones to drop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.backends import choose
from gpupipe.io.formats.csv.reader import read_texts
from gpupipe.io.settings import TableSource
from gpupipe.starter.facts import ColumnFacts, collect_facts
from gpupipe.starter.sentinels import Sentinel, find_sentinels, with_null_values, without_sentinels
from gpupipe.starter.source_table import SourceTable, read_source_table
from gpupipe.starter.useless_columns import find_useless_columns
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.number_texts import NumberFormat, guess_format
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
    numbers: NumberFormat | None = None
    """Notation of the numbers of a text column, for the op `parse_number`."""


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
        numbers = guess_format(texts)
        is_selector = column.name[:1] in ("!", "@")  # an op cannot name it
        return None if numbers is None or is_selector else _of_numbers(column, numbers)
    reason = f"such as {texts[0]}"
    if len(formats) > 1:
        reason += f"; all values also match {' and '.join(formats[1:])}"
    return ColumnDeclaration("datetime", reason, formats[0] or None)


def _of_numbers(column: ColumnFacts, numbers: NumberFormat) -> ColumnDeclaration:
    """Return the declaration of texts with numbers, with the rows that become missing."""
    values = np.array([numbers.parse(text) for text in column.texts])
    wrong = np.isnan(values)
    read = [text for text, is_wrong in zip(column.texts, wrong, strict=True) if not is_wrong]
    example = next((text for text in read if not is_number(text)), read[0])
    reason = f"numbers such as {example}, read by parse_number"
    if n := int(column.counts[wrong].sum()):
        other = column.texts[int(np.flatnonzero(wrong)[0])]
        reason += f"; {n:,} {'text becomes' if n == 1 else 'texts become'} missing, such as {other}"
    return ColumnDeclaration("text", reason, numbers=numbers)


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
    sentinels : mapping of str to Sentinel
        The values that mark missing values, which are null in `source_table` and `facts`, except for those that
        ``csv.null_values`` has.
    """

    source_table: SourceTable
    facts: Mapping[str, ColumnFacts]
    declared: Mapping[str, ColumnDeclaration]
    dropped: Mapping[str, str]
    sentinels: Mapping[str, Sentinel] = field(default_factory=dict)

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
        table = self.source_table.table.select(self.kept)
        for name in self.written_numbers():
            values = self._parsed(name)
            table = table.set_column(table.column_names.index(name), name, values)
            declared[name] = declare("float")
        return encode(table, choose("cpu"), declared)

    def written_numbers(self) -> dict[str, NumberFormat]:
        """Return the kept columns of numbers in texts, and how they are written."""
        found = {name: self.declared[name].numbers for name in self.kept if name in self.declared}
        return {name: numbers for name, numbers in found.items() if numbers is not None}

    def _parsed(self, name: str) -> pa.Array:
        """Return the numbers of a column of texts."""
        facts, numbers = self.facts[name], self.written_numbers()[name]
        parsed = pa.array([numbers.parse(text) for text in facts.texts], pa.float64(), from_pandas=True)
        texts = facts.values.cast(pa.string()).combine_chunks()
        return parsed.take(pc.index_in(texts, value_set=pa.array(facts.texts, pa.string())))


def inspect_columns(path: str, source: TableSource | None = None) -> TableColumns:
    """Read a table and inspect its columns; `source` has the format settings given by the user.

    Raises
    ------
    DataError
        If the table cannot be read.
    """
    source_table = read_source_table(path, source)
    facts = collect_facts(source_table.table)
    sentinels = find_sentinels(facts)
    source_table = replace(source_table, table=without_sentinels(source_table.table, sentinels))
    facts |= collect_facts(source_table.table.select(list(sentinels)))
    declared = find_declarations(facts, source_table)
    columns = TableColumns(source_table, facts, declared, {}, sentinels)
    columns = columns.drop(find_useless_columns(facts, set(declared)))
    dates = [name for name in sentinels if name in columns.kept and columns.kind(name) == "datetime"]
    source_table, written = with_null_values(source_table, dates, sentinels, facts)
    sentinels = {name: found for name, found in sentinels.items() if name not in written}
    return replace(columns, source_table=source_table, sentinels=sentinels)
