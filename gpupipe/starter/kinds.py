"""Kinds that the reader cannot know: dates and numbers in text, times in numbers. They go into ``schema:``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from gpupipe.io.file_streams import open_file
from gpupipe.io.formats.csv.header import read_head
from gpupipe.io.settings import WHITESPACE
from gpupipe.starter.facts import ColumnFacts
from gpupipe.starter.source_table import SourceTable
from gpupipe.table.time_formats import time_formats, time_unit
from gpupipe.units import MIB, is_number

TIME_WORDS = re.compile(r"(^|_)(time|date|timestamp|ts|epoch|at|on|created|updated|when)(_|$)|timestamp|datetime")
MAX_BYTES_TWICE = 256 * MIB  # larger files are not read once more to count blanks
BLOCK_BYTES = 16 * MIB  # every row must fit into one


@dataclass(frozen=True)
class ColumnDeclaration:
    """An entry of ``schema:``: what a column is, and why."""

    kind: str
    reason: str
    format: str | None = None


def find_declarations(facts: Mapping[str, ColumnFacts], source_table: SourceTable) -> dict[str, ColumnDeclaration]:
    """Return what has to be said of the kinds of columns, by name."""
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
        reason += f"; no value says whether it is not {formats[1]}"
    return ColumnDeclaration("datetime", reason, formats[0])


def _is_code(text: str) -> bool:
    """Whether a number is written as only a code is: 01234."""
    return len(text) > 1 and text[0] == "0" and text.isdecimal()


def _of_integers(column: ColumnFacts) -> ColumnDeclaration | None:
    if column.holds != "integer" or not TIME_WORDS.search(column.name.lower()):
        return None
    unit = time_unit(*column.range)
    return None if unit is None else ColumnDeclaration("datetime", "counts from 1970", unit)


def count_blank_cells(source_table: SourceTable, names: Iterable[str]) -> dict[str, int]:
    """Return how many cells of some columns of CSV files hold nothing but blanks; those with none are left out.

    A reader that took such a column for text would lose its numbers: it is worth saying that they are some.
    """
    names = list(names)
    files = source_table.files
    if not names or any(f.format != "csv" for f in files) or sum(f.size for f in files) > MAX_BYTES_TWICE:
        return {}
    found = dict.fromkeys(names, 0)
    csv = source_table.source.csv
    for file in files:
        with open_file(file, unpack=True) as stream:
            head = read_head(stream, file, csv)
        if head.delimiter == WHITESPACE:  # no field of such a file is blank
            continue
        header = csv.names or tuple(cell.strip() for cell in head.rows[0][1])
        here = [name for name in names if name in header]
        layout = arrow_csv.ReadOptions(
            column_names=header,
            skip_rows=0 if csv.names else head.rows[0][0],
            encoding=csv.encoding,
            block_size=BLOCK_BYTES,
        )
        parse = arrow_csv.ParseOptions(
            delimiter=head.delimiter, newlines_in_values=True, invalid_row_handler=lambda row: "skip"
        )
        as_text = arrow_csv.ConvertOptions(include_columns=here, column_types=dict.fromkeys(here, pa.string()))
        with open_file(file, unpack=True) as stream:
            table = arrow_csv.read_csv(stream, layout, parse, as_text)
        for name in here:
            found[name] += pc.sum(pc.utf8_is_space(table.column(name))).as_py() or 0
    return {name: n for name, n in found.items() if n}
