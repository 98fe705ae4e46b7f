"""Sentinels: repeated numbers and dates far outside of all others, which mark missing values: -999, 9999-12-31.

A value at an end of a column is a sentinel if its distance from the others exceeds a multiple of their range, which
outliers of a distribution do not reach together. The multiple depends on the form: nines, limits of integers and dates
such as 1900-01-01 are usual marks. A value that is a sentinel in one column needs less evidence in another one. 0, 1
and -1 are never sentinels: they are counts, flags and codes of "never".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.io.formats.csv.reader import read_texts
from gpupipe.io.missing_values import clean_texts
from gpupipe.starter.facts import ColumnFacts
from gpupipe.starter.source_table import SourceTable
from gpupipe.table.time_formats import time_formats
from gpupipe.table.time_texts import reader_of
from gpupipe.typing import Array
from gpupipe.units import MIB

NINES = re.compile(r"-9|-?99+(\.9+)?")
LIMITS = {-(2**15), 2**15 - 1, 2**16 - 1, -(2**31), 2**31 - 1, 2**32 - 1}
DATES = np.array(
    [
        *("0001-01-01", "1000-01-01", "1601-01-01", "1753-01-01", "1899-12-30", "1899-12-31", "1900-01-01"),
        *("1901-01-01", "1970-01-01", "2038-01-19", "2099-12-31", "2999-12-31", "3000-12-31", "9999-12-31"),
    ],
    "datetime64[D]",
).astype(np.int64)
MAX_BYTES = 256 * MIB  # of files that are read a second time, for the texts of dates
DAY = 86_400e6  # microseconds
MAX_ENDS = 32  # values at each end of a column that may be usual marks
NEVER = (-1.0, 0.0, 1.0)
MIN_OTHER_ROWS = 30
CODES = 3  # distance of further codes: 998 and 997 next to 999
# Least rows, distinct other values, and distance from the others relative to their range.
USUAL, FEW = (3, 10, 1.0), (3, 2, 3.0)  # prices such as 999, 1999, 4999 and 9999 have few values
ALONE = (10, 2, 0.1)  # a usual mark that is the only negative value, or a usual date
OPPOSITE, OTHER = (10, 20, 3.0), (10, 20, 10.0)  # a whole number with, or without, the opposite sign of all others


class Sentinel(NamedTuple):
    """Values of a column that mark missing values: as written, and as stored; and the number of their rows."""

    values: tuple[Any, ...]
    stored: pa.Array
    n_rows: int

    @property
    def text(self) -> str:
        """The values and what they do, for a comment."""
        marks = "marks" if len(self.values) == 1 else "mark"
        return f"{' and '.join(map(str, self.values))} {marks} missing values"


def find_sentinels(facts: Mapping[str, ColumnFacts]) -> dict[str, Sentinel]:
    """Return the sentinels of each column that has some."""
    numbers = {name: x for name, column in facts.items() if (x := _numbers(column)) is not None}
    chosen = {name: _chosen(x, facts[name], set()) for name, x in numbers.items()}
    known: dict[bool, set[float]] = {True: set(), False: set()}  # of dates, and of numbers
    for name, values in chosen.items():
        known[is_date(facts[name])] |= values
    found = {}
    for name, x in numbers.items():
        column = facts[name]
        same = known[is_date(column)]
        mask = np.isin(x, list(_chosen(x, column, same) if same - chosen[name] else chosen[name]))
        if mask.any():
            stored = column.distinct.filter(pa.array(mask))
            found[name] = Sentinel(tuple(map(_plain, stored.to_pylist())), stored, int(column.counts[mask].sum()))
    return found


def without_sentinels(table: pa.Table, found: Mapping[str, Sentinel]) -> pa.Table:
    """Return a table with sentinels as nulls."""
    for name, sentinel in found.items():
        column = table[name]
        if pa.types.is_dictionary(column.type):
            column, _ = clean_texts(column, sentinel.stored.to_pylist())
        else:
            column = pc.if_else(pc.is_in(column, value_set=sentinel.stored), pa.scalar(None, column.type), column)
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def with_null_values(
    source_table: SourceTable, dates: Collection[str], found: Mapping[str, Sentinel], facts: Mapping[str, ColumnFacts]
) -> tuple[SourceTable, list[str]]:
    """Return a table with the texts of sentinel dates in ``csv.null_values``, and the columns for which this was done.

    The setting applies to all columns, so texts that another one has are not added. `facts` are without sentinels.
    """
    files = source_table.files
    written = []
    csv = {**source_table.csv}
    if not dates or any(file.format != "csv" for file in files) or sum(file.size for file in files) > MAX_BYTES:
        return source_table, []
    values = chain.from_iterable(column.distinct.to_pylist() for column in facts.values())
    others = {str(_plain(value)) for value in values}
    comments = [source_table.comments.get("null_values", "")]
    for name in dates:
        texts = {str(value) for value in found[name].values}
        if facts[name].holds == "time":  # how they are written
            tables = [read_texts(file, [name], source_table.source) for file in files]
            columns = [table.columns[0].unique().drop_null() for table in tables if table]
            stored = set(chain.from_iterable(column.to_pylist() for column in columns))
            days = tuple(day[:10] for day in texts)
            texts = {text for text in stored if text.strip().startswith(days)}
        if not texts & others:
            csv["null_values"] = [*csv.get("null_values", ()), *sorted(texts.difference(csv.get("null_values", ())))]
            written.append(name)
            comments.append(f"{found[name].text} in {found[name].n_rows:,} rows of {name}")
    comment = {"null_values": "; ".join(filter(None, comments))} if written else {}
    return replace(source_table, csv=csv, comments={**source_table.comments, **comment}), written


def is_date(column: ColumnFacts) -> bool:
    """Return whether a column that has sentinels has dates, typed or as text."""
    return column.holds in ("time", "text")


def _numbers(column: ColumnFacts) -> Array | None:
    """Return the distinct values as numbers, of dates in days since 1970; None for other columns."""
    if column.holds in ("integer", "number"):
        numbers: Array = column.distinct.to_numpy(zero_copy_only=False).astype(np.float64)
        return numbers
    if column.holds == "time":
        days: Array = column.distinct.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy(zero_copy_only=False) / DAY
        return days
    if column.holds != "text" or not (formats := time_formats(column.texts)):
        return None
    read = reader_of(formats[0])
    return np.array([np.nan if (ticks := read(text)) is None else ticks / DAY for text in column.texts])


def _chosen(x: Array, column: ColumnFacts, known: set[float]) -> set[float]:
    """Return the sentinels among the distinct values `x`; those in `known` are sentinels of another column."""
    if column.n_filled < MIN_OTHER_ROWS or np.isnan(x).any() or (column.counts.max() < USUAL[0] and not known):
        return set()
    order, usual = x.argsort(), np.zeros(len(x), bool)
    for i in {*order[:MAX_ENDS].tolist(), *order[-MAX_ENDS:].tolist()}:
        usual[i] = np.floor(x[i]) in DATES if is_date(column) else _is_usual(x[i])
    center, chosen = np.median(x), np.zeros(len(x), bool)
    candidates = {*x[usual].tolist(), float(x.min()), float(x.max())}.difference(() if is_date(column) else NEVER)
    for value in sorted(candidates, key=lambda value: -abs(value - center)):
        is_usual = bool(usual[x == value].any())
        is_code = is_usual and not is_date(column)
        codes = (x == value) | (is_code & (np.abs(x - value) <= CODES) & (x == np.round(x)))
        # Usual marks at the other end do not acquit this one.
        others = ~codes & ~chosen & ~(usual & ((x - center) * (value - center) < 0))
        if column.counts[others].sum() < MIN_OTHER_ROWS:
            continue
        low, high = float(x[others].min()), float(x[others].max())
        gap, n_rows = max(low - x[codes].max(), x[codes].min() - high), int(column.counts[codes].max())
        is_negative = not is_date(column) and value < 0 <= low
        rules = [USUAL, FEW] if is_usual else []
        rules += [ALONE] if is_usual and (is_negative or is_date(column)) else []
        rules += [(1, 2, 0.0 if is_negative else ALONE[2])] if value in known else []
        if value == round(value):
            rules += [OPPOSITE if is_negative or high <= 0 < value else OTHER]
        if any(
            n_rows >= least and others.sum() >= n and gap > 0 and gap >= far * (high - low) for least, n, far in rules
        ):
            chosen |= codes
    return set(x[chosen].tolist())


def _is_usual(value: float) -> bool:
    return value in LIMITS or bool(NINES.fullmatch(f"{value:.10g}"))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return int(value) if isinstance(value, float) and value.is_integer() else value
