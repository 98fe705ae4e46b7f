"""Periods of a time column: hours, days, weeks (from Monday) and months, in UTC; and counts by period."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.errors import ConfigError, LimitError, did_you_mean
from gpupipe.table.encode import encode, enforce, plain_values
from gpupipe.table.schema import NAT, Column, DeclaredColumn
from gpupipe.typing import Array
from gpupipe.units import DAY_US

CountCells = Callable[[pa.Table], Array]  # see `gpupipe.inference.drift.cell_counter.CellCounter.count`

PeriodUnit = Literal["hour", "day", "week", "month"]
UNITS: tuple[PeriodUnit, ...] = get_args(PeriodUnit)
MOST_PERIODS = 400  # a year of days
NUMPY_UNITS = {"hour": "h", "day": "D", "month": "M"}
NO_PERIOD = -(2**63)  # of rows without a time


@dataclass(frozen=True)
class PeriodColumn:
    """Time column, and the unit to count its rows by."""

    unit: PeriodUnit
    column: Column

    def times(self, table: pa.Table) -> Array:
        """Return the time of each row, int64 microseconds since 1970; `NAT` for null."""
        values = plain_values(table, self.column.name)
        times = np.empty(len(values), np.int64)
        write = enforce(self.column, values).write
        assert write is not None
        write(times)
        return times

    def keys(self, table: pa.Table) -> Array:
        """Return the number of the period of each row, int64; `NO_PERIOD` for null."""
        times = self.times(table)
        return np.where(times == NAT, NO_PERIOD, period_numbers(times, self.unit))


def period_numbers(times: Array, unit: PeriodUnit) -> Array:
    """Return the number of the period of each time, int64 microseconds since 1970."""
    if unit == "week":  # 1970-01-01 was a Thursday
        weeks: Array = (times // DAY_US + 3) // 7
        return weeks
    found: Array = times.view("datetime64[us]").astype(f"datetime64[{NUMPY_UNITS[unit]}]").astype(np.int64)
    return found


def period_name(number: int, unit: PeriodUnit) -> str:
    """Return the first day or hour of a period: ``2024-06-30``, ``2024-06-30T14``, ``2024-06``."""
    if unit == "week":
        return str(np.datetime64(7 * number - 3, "D"))
    return str(np.array(number).astype(f"datetime64[{NUMPY_UNITS[unit]}]"))


def require_few(n_periods: int, unit: PeriodUnit) -> None:
    """Raise LimitError if there are more than 400 periods."""
    if n_periods > MOST_PERIODS:
        longer = UNITS[min(UNITS.index(unit) + 1, len(UNITS) - 1)]
        raise LimitError(
            f"more than {MOST_PERIODS} periods of one {unit}",
            where="by",
            fix=f"count by {longer}" if longer != unit else "compare fewer rows",
        )


def parse_by(by: str) -> tuple[PeriodUnit, str]:
    """Return the unit and the column of ``"day"`` or ``"day:COLUMN"``; ``""`` if no column is named.

    Raise ConfigError if the unit is unknown.
    """
    unit, _, name = by.partition(":")
    if unit not in UNITS:
        hint = did_you_mean(unit, UNITS) or f"use {', '.join(UNITS)}, or day:COLUMN"
        raise ConfigError(f"expected one of {', '.join(UNITS)}; found {unit!r}", where="by", fix=hint)
    return unit, name


def choose_period_column(by: str, recorded: str, inputs: Sequence[Column], found: Sequence[str]) -> str:
    """Return the name of the time column to count by.

    `by` is as in `parse_by`; `recorded` is the time column of the split of the run, or ``""``; `inputs` are the encoded
    input columns of the model, and `found` the columns of the table. Raise ConfigError if a named column does not
    exist, or none can be chosen; the message lists the choices.
    """
    unit, name = parse_by(by)
    times = [column.name for column in inputs if column.kind == "datetime" and not column.derived]
    chosen = name or (recorded if recorded in found else "") or (times[0] if len(times) == 1 else "")
    if chosen and chosen in found:
        return chosen
    if name:
        hint = did_you_mean(name, found) or f"use one of the columns {', '.join(found[:20])}"
        raise ConfigError(f"no column {name!r} in the table", where="by", fix=hint, names=[name])
    what = (
        f"several time columns: {', '.join(times)}" if times else "no time column of the table is an input of the model"
    )
    raise ConfigError(what, where="by", fix=f"name it: {unit}:{times[0] if times else 'COLUMN'}")


def period_column(unit: PeriodUnit, name: str, known: Column | None, first: pa.Table, backend: Backend) -> PeriodColumn:
    """Return the column with its time format: that of the model, or else inferred from the first rows."""
    if known is not None and known.kind == "datetime":
        return PeriodColumn(unit, known)
    table = encode(first.select([name]), backend.host, {name: DeclaredColumn("datetime")})
    return PeriodColumn(unit, table.schema[name])


@dataclass(frozen=True)
class CountedRows:
    """Rows, and their counts in the cells of a `CellCounter`."""

    n_rows: int
    cells: Array

    def merge(self, other: CountedRows) -> CountedRows:
        """Return the counts of the rows of both."""
        return CountedRows(self.n_rows + other.n_rows, self.cells + other.cells)


@dataclass(frozen=True)
class PeriodCounts:
    """Counts of rows by the number of their period; `NO_PERIOD` for rows without a time, and without periods."""

    periods: Mapping[int, CountedRows] = field(default_factory=dict)

    def merge(self, other: PeriodCounts) -> PeriodCounts:
        """Return the counts of the rows of both."""
        merged = dict(self.periods)
        for number, counted in other.periods.items():
            merged[number] = merged[number].merge(counted) if number in merged else counted
        return PeriodCounts(merged)

    @property
    def total(self) -> CountedRows:
        """The counts of all rows, at least one chunk."""
        first, *others = self.periods.values()
        for counted in others:
            first = first.merge(counted)
        return first


def count_chunk(count: CountCells, table: pa.Table, by: PeriodColumn | None) -> PeriodCounts:
    """Return the counts of the rows of a chunk.

    `count` counts the rows of a table in cells. Raise SchemaError as it does, and LimitError if the chunk has too many
    periods.
    """
    if by is None:
        return PeriodCounts({NO_PERIOD: CountedRows(table.num_rows, count(table))})
    return PeriodCounts(
        {number: CountedRows(rows.num_rows, count(rows)) for number, rows in split_periods(table, by).items()}
    )


def split_periods(table: pa.Table, by: PeriodColumn) -> dict[int, pa.Table]:
    """Return the rows of each period, by its number. Raise LimitError if there are too many periods."""
    keys = by.keys(table)
    numbers, starts = np.unique(keys, return_index=True)
    require_few(len(numbers), by.unit)
    if len(numbers) == 1:
        return {int(numbers[0]): table}
    if (keys[1:] < keys[:-1]).any():
        order = np.argsort(keys, kind="stable")
        table, starts = table.take(pa.array(order)), np.searchsorted(keys[order], numbers)
    ends = [*starts[1:].tolist(), table.num_rows]
    return {
        number: table.slice(start, end - start)
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True)
    }
