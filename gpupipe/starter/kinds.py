"""Kinds that the reader cannot know: dates and numbers in text, times in numbers. They go into ``schema:``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from gpupipe.io.files import find_files
from gpupipe.io.formats.csv.reader import read_texts
from gpupipe.starter.facts import ColumnFacts
from gpupipe.starter.source_table import SourceTable
from gpupipe.table.time_formats import time_formats, time_unit
from gpupipe.units import MIB, is_number

TIME_WORDS = re.compile(r"(^|_)(time|date|timestamp|ts|epoch|at|on|created|updated|when)(_|$)|timestamp|datetime")
MAX_BYTES_TWICE = 256 * MIB  # larger files are not read once more to count blanks


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
    """Return the number of cells with nothing but blanks in each of some columns of CSV files, where there are any.

    The reader makes them null; the declaration says so, and other readers would take such a column for text.
    """
    names = list(names)
    files = find_files(source_table.source)
    if not names or any(f.format != "csv" for f in files) or sum(f.size for f in files) > MAX_BYTES_TWICE:
        return {}
    found = dict.fromkeys(names, 0)
    for file in files:
        table = read_texts(file, names, source_table.source)
        if table is not None:
            for name in found.keys() & table.column_names:
                found[name] += pc.sum(pc.utf8_is_space(table[name])).as_py() or 0
    return {name: n for name, n in found.items() if n}
