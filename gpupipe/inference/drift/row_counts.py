"""Counts of the cells of chunks, in total and by period; they merge in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from gpupipe.inference.drift.periods import NO_PERIOD, PeriodColumn, require_few
from gpupipe.typing import Array

CountCells = Callable[[pa.Table], Array]  # see `gpupipe.inference.drift.cell_counter.CellCounter.count`


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
