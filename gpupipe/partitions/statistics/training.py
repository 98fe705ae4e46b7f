"""Training statistics over partitioned rows, equal to those of one machine to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, pairwise
from typing import Any, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.float32_loss import count_distinct
from gpupipe.backends.weighted_quantiles import WEIGHT_RESOLUTION, WeightScale
from gpupipe.features.program.compile import compile_program
from gpupipe.features.program.expressions import CategoryExpr, NumericExpr
from gpupipe.features.program.target import Target
from gpupipe.features.program.transforms import is_source
from gpupipe.features.statistics.categories import CategoryCounter, Tables, add_tables
from gpupipe.features.statistics.numbers import count_values, find_mode, powers, select_sample_rows
from gpupipe.features.statistics.row_weights import distinct_weights
from gpupipe.features.statistics.training import Statistics, make_statistics
from gpupipe.partitions.collection import PartitionedValues
from gpupipe.partitions.number_columns import NumberColumn, column_values_at, read_columns
from gpupipe.partitions.statistics.reductions import PartitionedReducer, transpose_results
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import ResultHandle
from gpupipe.table.blocks import Table, code_storage
from gpupipe.table.schema import Schema
from gpupipe.typing import Array
from gpupipe_kernels.formulas.hashes import mix

Item = TypeVar("Item")
AT_ONCE = 8  # tables merged by one task: each is sent to its worker

Counted = tuple[Array, Array]  # distinct sorted values of some rows, and their counts or weight sums
MOST_SENT = 2**20  # values gathered by the driver at a time

Result = TypeVar("Result")


@make_statistics.register(PartitionedTable)
class PartitionedStatistics(Statistics):
    """Training statistics of a partitioned table.

    Equal to `gpupipe.features.statistics.training.Statistics` to the last bit: counts are integers, floats are summed
    in blocks that do not depend on partition boundaries, and quantiles are selected by rank, with weights as integers.
    So neither the partitions nor the workers change a result. Modes by weight are the same values as well, although
    weights are added in another order: a relative difference of `WEIGHT_RESOLUTION` is a tie.

    The partitions of `table`, the training rows, are aligned first; the attribute `table` has no unused levels, and has
    the hashed columns that were added. `backend` is that of the driver, whose host merges the results of workers.
    `target` and `weights` (positive, float64, shape (n_rows,)) are those of all rows, on the host; the attribute
    `weights` has handles of those of each partition, or is None. `seed` is that of the folds.
    """

    table: PartitionedTable  # type: ignore[assignment]

    def __init__(
        self,
        table: PartitionedTable,
        backend: Backend,
        target: Target | None,
        seed: int,
        weights: Array | None = None,
    ) -> None:
        # Little is left to reduce on the driver; loading compiled loops would take longer.
        super().__init__(table.align(), backend.host, target, seed, "numpy")  # type: ignore[arg-type]
        if target is not None:
            first, *others = [replace(own, values=self._send_target(own)) for own in target.each]
            self.target = replace(first, others=tuple(others))
        self._scale = None
        if (weights := distinct_weights(weights)) is not None:
            self.weights, self._scale = self._send(weights, "the weights"), WeightScale.of(weights, self.backend)

    def _send(self, values: Array, label: str) -> Sequence[ResultHandle[Array]]:
        """Send an array with an element per row to the workers; return a handle for each partition."""
        own = self.table.split_rows(values)
        return self.table.map(lambda backend, _, own: backend.to_device(own), each=[own], label=label).partitions

    def _send_target(self, target: Target) -> Sequence[ResultHandle[Array]]:
        n = target.n_classes
        return self._send(target.values.astype(code_storage(n)) if n else target.values, "the target")

    def _times_weights(self, values: Any) -> Sequence[ResultHandle[Array]]:
        each = [self.weights, values]
        return self.table.map(lambda backend, _, weights, y: weights * y, each=each, label="the target").partitions

    def _place_rows(self, values: Array) -> list[ResultHandle[Array]]:
        return list(self._send(values, "values of rows"))

    @property
    def _reducer(self) -> PartitionedReducer:
        return PartitionedReducer(self.table, self.backend, self._engine, self.weights, self._scale)

    @property
    def _counter(self) -> PartitionedCounter:  # type: ignore[override]
        return PartitionedCounter(self.table)

    def _arrange(self, schema: Schema) -> None:
        self.table = self.table.arrange(schema)

    def _arrays(self, columns: Sequence[NumericExpr]) -> list[Any]:
        """Return the names of stored columns, and programs of computed ones: see `NumberColumn`."""
        places = self.table.places
        return [
            column.producer.source if is_source(column) else compile_program([column], places, folds=False)
            for column in columns
        ]

    def _modes(self, columns: Sequence[Any]) -> list[float]:
        return [mode(self.table, column, self.weights) for column in columns]

    def _samples(self, columns: Sequence[Any], n_sampled: int, with_weights: bool = False) -> list[Any]:
        found = self.table.workers.gather(self._sampled(columns, n_sampled, with_weights))
        samples = [np.concatenate(parts) for parts in transpose_results(found)]
        return [*samples, None] if with_weights and self.weights is None else samples

    def _count_distinct(
        self, columns: Sequence[Any], n_sampled: int, centers: Sequence[float]
    ) -> list[tuple[int, int]]:
        """Return the counts from one of the workers, which takes the samples from the others."""
        workers, sampled = self.table.workers, self._sampled(columns, n_sampled)
        (counts,) = workers.gather([workers.submit(_count_distinct, centers, *sampled, label="distinct values")])
        return counts

    def _sampled(
        self, columns: Sequence[Any], n_sampled: int, with_weights: bool = False
    ) -> Sequence[ResultHandle[list[Array]]]:
        n_rows, asked = self.n_rows, list(columns)

        def sample(backend: Backend, table: Table, start: int, stop: int, weights: Array | None = None) -> list[Any]:
            rows = select_sample_rows(start, stop, n_rows, n_sampled, backend.xp)
            own = [] if weights is None else [backend.to_host(weights[rows])]
            return [*column_values_at(backend, table, rows, asked), *own]

        weighted = with_weights and self.weights is not None
        each = [*zip(*pairwise(self.table.bounds), strict=True), *([self.weights] if weighted else [])]
        return self.table.map(sample, each=each, label="sampled rows").partitions

    def _powers(self, number: NumericExpr) -> list[Any]:
        (column,) = self._arrays([number])

        def make(backend: Backend, table: Table, weights: Array | None = None) -> list[Array]:
            return powers(read_columns(backend, table, [column])[0], weights, backend.xp)

        each = [] if self.weights is None else [self.weights]
        found = self.table.map(make, each=each, label="powers").partitions
        return [self.table.map(_item, i, each=[found], label="powers").partitions for i in range(3)]

    def map_tables(self, function: Callable[[Backend, Table, list[str]], Result], names: list[str]) -> list[Result]:
        """See `Statistics.map_tables`; `function` can be pickled by cloudpickle."""
        return self.table.compute(function, names, label="ranges of columns")

    def _of_times(self, ask: Callable[[Backend, Array], Result], source: str) -> list[Result]:
        return self.table.compute(lambda backend, table: ask(backend, table.column(source)), label=f"times of {source}")


def _item(_backend: Backend, _table: Table, i: int, found: Sequence[Array]) -> Array:
    return found[i]


def _count_distinct(_: Backend, centers: Sequence[float], *sampled: list[Array]) -> list[tuple[int, int]]:
    """Return the counts of the samples of all partitions: see `count_distinct`."""
    samples = [np.concatenate(parts) for parts in transpose_results(sampled)]
    return [count_distinct(values, center) for values, center in zip(samples, centers, strict=True)]


def mode(table: PartitionedTable, column: NumberColumn, weights: Sequence[ResultHandle[Array]] | None = None) -> float:
    """Return the most frequent value of a column, the smallest of several; 0 for an empty column.

    Each worker counts its own values and keeps the counts. Let m be the largest count in a single partition. A value
    with at least m rows in total has at least m / n_partitions rows in some partition; other values are not sent. Many
    values are gathered in batches by a hash, so that all counts of a value are in one batch. Sums of weights replace
    the counts if `weights` has the weights of each partition.
    """
    counted = table.map(_counted, column, each=[] if weights is None else [weights], label="values")
    extents = counted.compute(lambda _, own: (len(own[0]), own[1].max(initial=0)), label="values")
    sizes, highest = zip(*extents, strict=True)
    least = max(highest) / len(extents) * (1 - WEIGHT_RESOLUTION)
    n_turns = -(-sum(sizes) // MOST_SENT)
    found = []
    for turn in range(n_turns):
        values = np.unique(np.concatenate(counted.compute(_frequent, least, turn, n_turns, label="values")))
        counts = np.add.reduce(counted.compute(_counts_of, values, label="counts of values"))
        found.append(find_mode(values, counts))
    return find_mode(*np.array(found).reshape(-1, 2).T)[0]


def _counted(backend: Backend, table: Table, column: NumberColumn, weights: Array | None = None) -> Counted:
    (x,) = read_columns(backend, table, [column])
    values, counts = count_values(x + 0.0, weights, backend.xp)  # of the two zeros, the positive one
    return backend.to_host(values), backend.to_host(counts)


def _frequent(backend: Backend, counted: Counted, least: float, turn: int, n_turns: int) -> Array:
    """Return the values of one batch whose count is at least `least`."""
    values, counts = counted
    bits = values.view(f"uint{8 * values.itemsize}").astype(np.uint64)
    hashed = mix((bits ^ bits >> np.uint64(32)).astype(np.uint32))
    candidates: Array = values[(counts >= least) & (hashed % np.uint32(n_turns) == turn)]
    return candidates


def _counts_of(backend: Backend, counted: Counted, asked: Array) -> Array:
    """Return the counts of the given values."""
    values, counts = counted
    if not len(values):
        return np.zeros(len(asked), np.int64)
    at = np.minimum(np.searchsorted(values, asked), len(values) - 1)
    return np.where(values[at] == asked, counts[at], 0)


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
