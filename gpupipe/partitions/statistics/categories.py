"""Counts and target sums of categories per partition, merged on the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.program.expressions import CategoryExpr
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.categories import CategoryCounter, Tables, add_tables
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.table.blocks import Table
from gpupipe.typing import Array

AT_ONCE = 8  # tables that a worker adds up: each of them has to come to it


class PartitionedCounter:
    """The counts of `gpupipe.features.statistics.categories.CategoryCounter`, over the rows of all partitions.

    Parameters
    ----------
    table : PartitionedTable
        Aligned.
    """

    def __init__(self, table: PartitionedTable) -> None:
        self.table = table

    def codes(self, names: Sequence[str]) -> list[Array]:
        """See `CategoryCounter.codes`."""
        return self._summed(self.table.map(_codes, list(names), label="counts"))

    def indices(self, columns: Sequence[CategoryExpr]) -> list[Array]:
        """See `CategoryCounter.indices`."""
        return self._summed(self.table.map(_indices, _lighter(columns), label="counts"))

    def groups(
        self, seed: int, n_folds: int, target: Target | None
    ) -> tuple[list[ResultHandle[Array]], list[ResultHandle[Array]]]:
        """Return the fold of each row, and the number of its fold and class, where the rows are.

        See `CategoryCounter.groups`.

        Parameters
        ----------
        target : Target, optional
            Its values are handles, one for each partition.
        """
        n_classes = 0 if target is None else target.n_classes
        values = [None] * len(self.table.partitions) if target is None else target.values
        each, given = [self.table.bounds[:-1], values], (seed, n_folds, n_classes)
        # Each is soon computed, and a task that takes one of two results would cost more.
        fold, group = (self.table.map(_groups, at, *given, each=each, label="folds") for at in (0, 1))
        return fold, group

    def targets(
        self, columns: Sequence[CategoryExpr], target: Target, group: Sequence[ResultHandle[Array]], n_folds: int
    ) -> list[Tables]:
        """See `CategoryCounter.targets`; of classes the tables are merged as a tree, sums in the order of the rows."""
        each, given = [target.values, group], (_lighter(columns), target.n_classes, n_folds)
        found = self.table.map(_found_targets, *given, each=each, label="target statistics")
        workers = self.table.workers
        if target.n_classes:
            handle = tree_reduce(workers, _added, found)
        else:
            handle = reduce(lambda before, own: workers.submit(_added, before, own, label="sums"), found)
        ((*tables,),) = workers.gather([workers.submit(_added, handle, label="sums")])
        return [table for (table,) in tables]

    def _summed(self, handles: Sequence[ResultHandle[list[Array]]]) -> list[Array]:
        merged: ResultHandle[list[Array]] = tree_reduce(self.table.workers, _sum, handles)
        return self.table.workers.gather([merged])[0]


def tree_reduce(workers: Workers, function: Any, handles: Sequence[ResultHandle[Any]]) -> ResultHandle[Any]:
    """Return the result of a function of any number of results, over all handles: of some at a time, and of those."""
    while len(handles) > 1:
        groups = [handles[at : at + AT_ONCE] for at in range(0, len(handles), AT_ONCE)]
        handles = [workers.submit(function, *group, label="merged counts") for group in groups]
    return handles[0]


def _lighter(columns: Sequence[CategoryExpr]) -> list[CategoryExpr]:
    """Return the columns without what only the driver looks at."""
    return [replace(column, labels=(), remap=None) for column in columns]


def _counter(backend: Backend, table: Table, first_row: int = 0) -> CategoryCounter:
    return CategoryCounter(table, backend, backend.reductions(table.n_rows * table.n_columns), first_row)


def _codes(backend: Backend, table: Table, names: list[str]) -> list[Array]:
    return _counter(backend, table).codes(names)


def _indices(backend: Backend, table: Table, columns: list[CategoryExpr]) -> list[Array]:
    return _counter(backend, table).indices(columns)


def _sum(backend: Backend, *found: list[Array]) -> list[Array]:
    return [reduce(np.add, tables) for tables in zip(*found, strict=True)]


def _groups(
    backend: Backend, table: Table, at: int, seed: int, n_folds: int, n_classes: int, first_row: int, values: Array
) -> Array:
    target = None if values is None else Target(values, n_classes)
    return _counter(backend, table, first_row).groups(seed, n_folds, target)[at]


def _found_targets(
    backend: Backend,
    table: Table,
    columns: list[CategoryExpr],
    n_classes: int,
    n_folds: int,
    values: Array,
    group: Array,
) -> list[list[Tables]]:
    return _counter(backend, table).target_parts(columns, Target(values, n_classes), group, n_folds, 0)


def _added(backend: Backend, *found: list[list[Tables]]) -> list[list[Tables]]:
    """Return for each column its tables added up in order, as the only one of a list."""
    return [[add_tables(part for parts in tables for part in parts)] for tables in zip(*found, strict=True)]
