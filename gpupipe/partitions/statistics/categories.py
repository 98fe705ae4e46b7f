"""Counts and target sums of categories per partition, merged on the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain
from typing import TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.program.expressions import CategoryExpr
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.categories import CategoryCounter, Tables, add_tables
from gpupipe.partitions.collection import PartitionedValues
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import ResultHandle
from gpupipe.table.blocks import Table
from gpupipe.typing import Array

Item = TypeVar("Item")

AT_ONCE = 8  # tables merged by one task: each is sent to its worker


class PartitionedCounter:
    """The counts of `gpupipe.features.statistics.categories.CategoryCounter`, over the rows of all partitions.

    The partitions of `table` are aligned.
    """

    def __init__(self, table: PartitionedTable) -> None:
        self.table = table

    def codes(self, names: Sequence[str]) -> list[Array]:
        """See `CategoryCounter.codes`."""
        return self._summed(lambda counter: counter.codes(names))

    def indices(self, columns: Sequence[CategoryExpr]) -> list[Array]:
        """See `CategoryCounter.indices`."""
        lighter = _lighter(columns)
        return self._summed(lambda counter: counter.indices(lighter))

    def groups(
        self, fold: Sequence[ResultHandle[Array]], n_folds: int, target: Target
    ) -> Sequence[ResultHandle[Array]]:
        """See `CategoryCounter.groups`; folds, the values of the target and the result are on the workers."""
        given = n_folds, target.n_classes
        return self.table.map(_group, *given, each=[fold, target.values], label="folds").partitions

    def targets(
        self, columns: Sequence[CategoryExpr], target: Target, group: Sequence[ResultHandle[Array]], n_folds: int
    ) -> list[Tables]:
        """See `CategoryCounter.targets`; counts of classes are merged as a tree, sums in the order of the rows."""
        lighter = _lighter(columns)
        n_classes = target.n_classes
        workers = self.table.workers

        def count(backend: Backend, table: Table, values: Array, group: Array) -> list[list[Tables]]:
            return _counter(backend, table).target_parts(lighter, Target(values, n_classes), group, n_folds, 0)

        found = self.table.map(count, each=[target.values, group], label="target statistics")
        if not n_classes:
            return self._merged_in_order(found)
        ((*tables,),) = workers.gather([workers.submit(_added, tree_reduce(_added, found), label="sums")])
        return [table for (table,) in tables]

    def sums(
        self,
        columns: Sequence[CategoryExpr],
        y: Sequence[ResultHandle[Array]],
        group: tuple[Sequence[ResultHandle[Array]], int] | None = None,
    ) -> list[Array]:
        """See `CategoryCounter.sums`; `y` and the groups are handles, one for each partition."""
        lighter = _lighter(columns)
        groups, n_groups = group or (None, 0)

        def add_up(backend: Backend, table: Table, y: Array, own: Array | None = None) -> list[list[Tables]]:
            return _counter(backend, table).sum_parts(lighter, y, None if own is None else (own, n_groups), 0)

        each = [y] if groups is None else [y, groups]
        found = self._merged_in_order(self.table.map(add_up, each=each, label="sums of weights"))
        return [table.reshape(column.size, -1) for column, (_, table) in zip(columns, found, strict=True)]

    def _merged_in_order(self, found: PartitionedValues[list[list[Tables]]]) -> list[Tables]:
        """Return the sum of the tables of each column, added in the order of the rows."""
        workers = self.table.workers
        handle = reduce(lambda before, own: workers.submit(_added, before, own, label="sums"), found.partitions)
        ((*tables,),) = workers.gather([workers.submit(_added, handle, label="sums")])
        return [table for (table,) in tables]

    def _summed(self, count: Callable[[CategoryCounter], list[Array]]) -> list[Array]:
        counts = self.table.map(lambda backend, table: count(_counter(backend, table)), label="counts")
        return self.table.workers.gather([tree_reduce(_sum, counts)])[0]


def tree_reduce(function: Callable[..., Item], values: PartitionedValues[Item]) -> ResultHandle[Item]:
    """Reduce the values of all partitions with a function of several values, in a tree."""
    handles: Sequence[ResultHandle[Item]] = values.partitions
    while len(handles) > 1:
        groups = [handles[at : at + AT_ONCE] for at in range(0, len(handles), AT_ONCE)]
        handles = values.workers.map(function, groups, ["merged counts"] * len(groups))
    return handles[0]


def _lighter(columns: Sequence[CategoryExpr]) -> list[CategoryExpr]:
    """Return the columns without the fields that only the driver uses."""
    return [replace(column, labels=(), remap=None) for column in columns]


def _counter(backend: Backend, table: Table) -> CategoryCounter:
    return CategoryCounter(table, backend, backend.reductions(table.n_rows * table.n_columns))


def _sum(backend: Backend, *found: list[Array]) -> list[Array]:
    return [reduce(np.add, tables) for tables in zip(*found, strict=True)]


def _group(backend: Backend, table: Table, n_folds: int, n_classes: int, fold: Array, values: Array) -> Array:
    return _counter(backend, table).groups(fold, n_folds, Target(values, n_classes))


def _added(backend: Backend, *found: list[list[Tables]]) -> list[list[Tables]]:
    """Return for each column a list with the sum of its tables, added in order."""
    return [[add_tables(chain.from_iterable(tables))] for tables in zip(*found, strict=True)]
