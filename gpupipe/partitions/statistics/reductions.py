"""Numbers reduced partition by partition, each by the sweeper of its worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.statistics.device import sweeper
from gpupipe.features.statistics.moments import FIRST_ROWS, first_finite, values_amid
from gpupipe.features.statistics.quantiles import Inside, bracketed, pays, sampled, selected
from gpupipe.features.statistics.reductions import Found, Sweeper
from gpupipe.partitions.number_columns import Asked, arrays, picked
from gpupipe.partitions.statistics.rank_selection import ranked
from gpupipe.partitions.table import PartitionedTable
from gpupipe.table.blocks import Table
from gpupipe.typing import Array
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.reduce.engine import ReductionEngine

Item = TypeVar("Item")
MOST_SENT = 2**20  # values of a bracket of all partitions: 8 MiB; with more of them, only how many there are is sent


class ClusterSweeper(Sweeper):
    """Reductions of columns whose rows are on workers; see `gpupipe.features.statistics.reductions`.

    Parameters
    ----------
    table : PartitionedTable
        Aligned.
    backend : Backend
        The host of the leading process.
    engine : ReductionEngine

    Columns are `Asked`: what stands for an array where the rows are on workers.
    """

    def __init__(self, table: PartitionedTable, backend: Backend, engine: ReductionEngine) -> None:
        super().__init__(backend, engine)
        self.table = table

    def amid(self, columns: Sequence[Any]) -> list[float]:
        """See `Sweeper.amid`."""

        def first(which: list[int], low: int, high: int) -> list[Array]:
            asked = [columns[at] for at in which]
            found = self.table.workers.gather(
                self.table.workers.submit(_first, part.table, asked, low - start, high - start, label="first values")
                for part, (start, stop) in zip(self.table.parts, pairwise(self.table.bounds), strict=True)
                if start < high and low < stop
            )
            return [np.concatenate(parts)[:FIRST_ROWS] for parts in zip(*found, strict=True)]

        return values_amid(first, len(columns), self.table.n_rows)

    def brackets(self, columns: Sequence[Any], shares: Sequence[float]) -> Sequence[Array | None]:
        """See `Sweeper.brackets`."""
        n_rows = self.table.n_rows
        if not pays(n_rows, shares):
            return [None for _ in columns]
        rows = sampled(n_rows)
        cuts = np.searchsorted(rows, self.table.bounds)
        own = [rows[a:b] - start for (a, b), start in zip(pairwise(cuts), self.table.bounds, strict=False)]
        found = joined_columns(self.table.ask(_picked, list(columns), each=[own], label="a sample"))
        samples = [np.concatenate(parts) for parts in found]
        return self.backend.map(lambda sample: bracketed(sample, shares, self.engine, n_rows), samples)

    def selected(
        self,
        columns: Sequence[Any],
        nulls: Sequence[int],
        shares: Sequence[float],
        inside: Sequence[Sequence[Inside]],
    ) -> list[list[float]]:
        """See `Sweeper.selected`; what no bracket holds is looked for where it lies."""

        def select(at: int) -> list[float]:
            column, n = columns[at], self.table.n_rows - nulls[at]
            dtype = self.table.schema[column].storage if isinstance(column, str) else "float32"
            return selected(n, shares, inside[at], self.engine, lambda ranks: ranked(self.table, column, ranks, dtype))

        return [select(at) for at in range(len(columns))]

    def found(
        self, columns: Sequence[Any], pivots: Sequence[float], given: Sequence[Array | None]
    ) -> list[list[Found]]:
        """See `Sweeper.found`."""
        most = MOST_SENT // len(self.table.parts)
        return self._joined(_found, list(columns), list(pivots), list(given), most, label="moments")

    def found_made(self, program: Program, table: Any, engine: str) -> list[list[Found]]:
        """See `Sweeper.found_made`; `table` is the one of the sweeper."""
        return self._joined(_found_made, program, engine, label="moments of computed columns")

    def found_extremes(self, columns: Sequence[Any]) -> list[list[tuple[float, float]]]:
        """See `Sweeper.found_extremes`."""
        return self._joined(_found_extremes, list(columns), label="extremes")

    def _joined(self, function: Any, *arguments: Any, label: str) -> list[list[Any]]:
        """Return for each column the list of what its parts have, over all partitions."""
        found = joined_columns(self.table.ask(function, *arguments, label=label))
        return [[part for parts in partitions for part in parts] for partitions in found]


def joined_columns(found: Sequence[Sequence[Item]]) -> list[list[Item]]:
    """Return for each column what the partitions have, given for each partition what the columns have."""
    return [list(parts) for parts in zip(*found, strict=True)]


def _sweeper(backend: Backend, table: Table) -> Sweeper:
    return sweeper(backend, backend.reductions(table.n_rows * table.n_columns))


def _first(backend: Backend, table: Table, columns: list[Asked], low: int, high: int) -> list[Array]:
    return [first_finite(x) for x in picked(backend, table, slice(max(low, 0), high), columns)]


def _picked(backend: Backend, table: Table, columns: list[Asked], rows: Array) -> list[Array]:
    return picked(backend, table, backend.to_device(rows), columns)


def _found(
    backend: Backend, table: Table, columns: list[Asked], pivots: list[float], given: list[Array | None], most: int
) -> list[list[Found]]:
    found = _sweeper(backend, table).found(arrays(backend, table, columns), pivots, given)
    return [_sendable(parts, most) for parts in found]


def _sendable(parts: list[Found], most: int) -> list[Found]:
    """Return the same without the values of those brackets that have more than `most`."""
    many = [sum(len(b.values) for b in inside) > most for inside in zip(*(part.inside for part in parts), strict=True)]
    return [replace(part, inside=list(_lighter(part.inside, many))) for part in parts]


def _lighter(inside: Iterable[Inside], many: Iterable[bool]) -> Iterable[Inside]:
    return (replace(b, values=b.values[:0]) if is_many else b for b, is_many in zip(inside, many, strict=True))


def _found_made(backend: Backend, table: Table, program: Program, engine: str) -> list[list[Found]]:
    return _sweeper(backend, table).found_made(program, table, engine)


def _found_extremes(backend: Backend, table: Table, columns: list[Asked]) -> list[list[tuple[float, float]]]:
    return _sweeper(backend, table).found_extremes(arrays(backend, table, columns))
