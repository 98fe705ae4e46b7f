"""Numbers reduced partition by partition, each by the reducer of its worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from typing import Any, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.weighted_quantiles import WeightScale
from gpupipe.features.statistics.device import make_reducer
from gpupipe.features.statistics.moments import FIRST_ROWS, Moments, find_pivots, first_finite
from gpupipe.features.statistics.quantiles import (
    Bracket,
    find_brackets_in_sample,
    is_bracketing_faster,
    sample_rows,
    select_quantiles,
)
from gpupipe.features.statistics.reductions import PassResult, Reducer
from gpupipe.partitions.number_columns import NumberColumn, column_values_at, read_columns
from gpupipe.partitions.statistics.rank_selection import select_quantiles_by_weight, select_ranks
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import ResultHandle
from gpupipe.table.blocks import Table
from gpupipe.typing import Array
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.reduce.engine import ReductionEngine

Item = TypeVar("Item")
MOST_SENT = 2**20  # values of a bracket over all partitions: 8 MiB; of more, only the count is sent


class PartitionedReducer(Reducer):
    """Reductions of columns whose rows are on workers; see `gpupipe.features.statistics.reductions`.

    `table` is aligned, and `backend` is the host of the driver. `weights` are those of the rows of each partition, on
    the workers, and `scale` that of all weights. Columns are `NumberColumn`, which replaces an array if the rows are on
    workers.
    """

    def __init__(
        self,
        table: PartitionedTable,
        backend: Backend,
        engine: ReductionEngine,
        weights: Sequence[ResultHandle[Array]] | None = None,
        scale: WeightScale | None = None,
    ) -> None:
        super().__init__(backend, engine)
        self.table = table
        self.weights = weights
        self.scale = scale

    def quantiles(self, columns: Sequence[Any], shares: Sequence[float]) -> list[tuple[Moments, list[float]]]:
        """See `Reducer.quantiles` and `WeightedReducer.quantiles`."""
        if self.weights is None or self.scale is None:
            return super().quantiles(columns, shares)
        given = self.weights, self.scale, shares
        found = [select_quantiles_by_weight(self.table, x, *given, self._dtype(x)) for x in columns]
        return list(zip(self.moments(columns), found, strict=True))

    def find_pivots(self, columns: Sequence[Any]) -> list[float]:
        """See `Reducer.find_pivots`."""

        def first(which: list[int], low: int, high: int) -> list[Array]:
            asked = [columns[at] for at in which]
            overlaps = [
                (part, slice(max(low - start, 0), high - start))
                for part, (start, stop) in zip(self.table.partitions, pairwise(self.table.bounds), strict=True)
                if start < high and low < stop
            ]
            workers, labels = self.table.workers, ["first values"] * len(overlaps)
            found = workers.gather(workers.map(partial(_first_values, columns=asked), overlaps, labels))
            return [np.concatenate(parts)[:FIRST_ROWS] for parts in zip(*found, strict=True)]

        return find_pivots(first, len(columns), self.table.n_rows)

    def find_brackets(self, columns: Sequence[Any], shares: Sequence[float]) -> Sequence[Array | None]:
        """See `Reducer.find_brackets`."""
        n_rows = self.table.n_rows
        if not is_bracketing_faster(n_rows, shares):
            return [None for _ in columns]
        own, asked = self.table.split_positions(sample_rows(n_rows)), list(columns)
        found = self.table.compute(
            lambda backend, table, rows: column_values_at(backend, table, backend.to_device(rows), asked),
            each=[own],
            label="a sample",
        )
        samples = [np.concatenate(parts) for parts in transpose_results(found)]
        return self.backend.map(lambda sample: find_brackets_in_sample(sample, shares, self.engine, n_rows), samples)

    def select_quantiles(
        self,
        columns: Sequence[Any],
        nulls: Sequence[int],
        shares: Sequence[float],
        inside: Sequence[Sequence[Bracket]],
    ) -> list[list[float]]:
        """See `Reducer.select_quantiles`; values outside all brackets are selected on the workers."""

        def select(at: int) -> list[float]:
            column, n = columns[at], self.table.n_rows - nulls[at]
            dtype = self._dtype(column)
            return select_quantiles(
                n, shares, inside[at], self.engine, lambda ranks: select_ranks(self.table, column, ranks, dtype)
            )

        return [select(at) for at in range(len(columns))]

    def _dtype(self, column: NumberColumn) -> str:
        return self.table.schema[column].storage if isinstance(column, str) else "float32"

    def reduce_columns(
        self, columns: Sequence[Any], pivots: Sequence[float], given: Sequence[Array | None]
    ) -> list[list[PassResult]]:
        """See `Reducer.reduce_columns`."""
        most, asked = MOST_SENT // len(self.table.partitions), list(columns)

        def reduce_partition(backend: Backend, table: Table, weights: Array | None = None) -> list[list[PassResult]]:
            found = _reducer(backend, table, weights).reduce_columns(read_columns(backend, table, asked), pivots, given)
            return [_sendable(parts, most) for parts in found]

        return self._joined(reduce_partition, "moments")

    def reduce_program(self, program: Program, table: Any) -> list[list[PassResult]]:
        """See `Reducer.reduce_program`; `table` is the table of this reducer."""
        return self._joined(
            lambda backend, table, weights=None: _reducer(backend, table, weights).reduce_program(program, table),
            "moments of computed columns",
        )

    def reduce_extremes(self, columns: Sequence[Any]) -> list[list[tuple[float, float]]]:
        """See `Reducer.reduce_extremes`."""
        asked = list(columns)
        return self._joined(
            lambda backend, table, _=None: _reducer(backend, table).reduce_extremes(
                read_columns(backend, table, asked)
            ),
            "extremes",
        )

    def _joined(self, reduce: Callable[..., list[list[Item]]], label: str) -> list[list[Item]]:
        """Return for each column the list of its results in all partitions.

        `reduce` is called with backend, table, and the weights of the rows if there are any.
        """
        each = [] if self.weights is None else [self.weights]
        found = transpose_results(self.table.compute(reduce, each=each, label=label))
        return [list(chain.from_iterable(partitions)) for partitions in found]


def transpose_results(found: Sequence[Sequence[Item]]) -> list[list[Item]]:
    """Transpose the results of columns by partition to results of partitions by column."""
    return [list(parts) for parts in zip(*found, strict=True)]


def _reducer(backend: Backend, table: Table, weights: Array | None = None) -> Reducer:
    return make_reducer(backend, backend.reductions(table.n_rows * table.n_columns), weights)


def _first_values(backend: Backend, table: Table, rows: slice, columns: list[NumberColumn]) -> list[Array]:
    return [first_finite(x) for x in column_values_at(backend, table, rows, columns)]


def _sendable(parts: list[PassResult], most: int) -> list[PassResult]:
    """Return the brackets without the values of those that have more than `most`."""
    many = [
        sum(len(b.values) for b in inside) > most for inside in zip(*(part.brackets for part in parts), strict=True)
    ]
    return [replace(part, brackets=list(_lighter(part.brackets, many))) for part in parts]


def _lighter(inside: Iterable[Bracket], many: Iterable[bool]) -> Iterable[Bracket]:
    return (replace(b, values=b.values[:0]) if is_many else b for b, is_many in zip(inside, many, strict=True))
