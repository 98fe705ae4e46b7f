"""Reductions over the training rows where those lie on workers: the answers of one machine, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.program.compile import lower
from gpupipe.features.program.expressions import Numbers
from gpupipe.features.program.step_chains import is_source
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.numbers import rows_of_an_exponent
from gpupipe.features.statistics.training import Statistics
from gpupipe.partitions.number_columns import Asked, Made, picked
from gpupipe.partitions.statistics.categories import ClusterCounter
from gpupipe.partitions.statistics.modes import mode
from gpupipe.partitions.statistics.reductions import ClusterSweeper, joined_columns
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import Handle
from gpupipe.table.blocks import Table, code_storage
from gpupipe.table.schema import Schema
from gpupipe.typing import Array

Result = TypeVar("Result")


class ClusterStatistics(Statistics):
    """Reductions over the rows of a table in partitions.

    Equal to `gpupipe.features.statistics.training.Statistics` to the last bit: counts are integers, floats are summed
    in blocks that do not depend on partition boundaries, and quantiles are selected by rank. So neither the partitions
    nor the workers change a result.

    Parameters
    ----------
    table : PartitionedTable
        The training rows; its partitions are aligned first.
    backend : Backend
        Of the leading process, whose host puts together what the workers find.
    target : Target, optional
        Its values on the host, of all rows.
    seed : int
        Of the fold that each row belongs to.

    Attributes
    ----------
    table : PartitionedTable
        Aligned, without the levels that no row holds, and with the hashed columns that were added.
    """

    table: PartitionedTable  # type: ignore[assignment]

    def __init__(self, table: PartitionedTable, backend: Backend, target: Target | None, seed: int) -> None:
        # What is left to reduce here is little, and sooner done than compiled loops are loaded.
        super().__init__(table.aligned(), backend.host, target, seed, "numpy")  # type: ignore[arg-type]
        if target is not None:
            n = target.n_classes
            values = target.values.astype(code_storage(n)) if n else target.values  # less to send, and to hold
            own = self.table.map(_kept, each=[self.table.sliced(values)], label="the target")
            self.target = Target(own, n)

    def folds(self, k: int) -> list[Handle[Array]]:
        """Return handles of the folds of the rows of each partition, int8 in 1..k: a hash of seed and position."""
        return list(self._groups(k)[0])

    @property
    def _sweeper(self) -> ClusterSweeper:
        return ClusterSweeper(self.table, self.backend, self._engine)

    @property
    def _counter(self) -> ClusterCounter:  # type: ignore[override]
        return ClusterCounter(self.table)

    def _arrange(self, schema: Schema) -> None:
        self.table = self.table.arranged(schema)

    def _arrays(self, columns: Sequence[Numbers]) -> list[Any]:
        """Return what to ask the workers for."""
        made = [column for column in columns if not is_source(column)]
        places, n_rows = self.table.places, self.n_rows
        engine = self.backend.interpreter(lower(made, places, folds=False), n_rows) if made else ""
        return [
            column.start.source if is_source(column) else Made(lower([column], places, folds=False), engine)
            for column in columns
        ]

    def _modes(self, columns: Sequence[Any]) -> list[float]:
        return [mode(self.table, column) for column in columns]

    def _bent(self, columns: Sequence[Any]) -> list[Array]:
        spans = list(zip(*pairwise(self.table.bounds), strict=True))
        found = self.table.ask(_bent, list(columns), self.n_rows, each=spans, label="rows of an exponent")
        return [np.concatenate(parts) for parts in joined_columns(found)]

    def of_parts(self, function: Callable[[Backend, Table, list[str]], Result], names: list[str]) -> list[Result]:
        """See `Statistics.of_parts`; `function` is a function of its module."""
        return self.table.ask(function, names, label="ranges of columns")

    def _of_times(self, ask: Callable[[Backend, Array], Result], source: str) -> list[Result]:
        return self.table.ask(_of_times, ask, source, label=f"times of {source}")


def _kept(backend: Backend, table: Table, values: Array) -> Array:
    return backend.to_device(values)


def _bent(backend: Backend, table: Table, columns: list[Asked], n_rows: int, start: int, stop: int) -> list[Array]:
    return picked(backend, table, rows_of_an_exponent(start, stop, n_rows, backend.xp), columns)


def _of_times(backend: Backend, table: Table, ask: Callable[[Backend, Array], Result], source: str) -> Result:
    return ask(backend, table.column(source))
