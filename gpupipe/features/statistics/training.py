"""Reductions over the training rows, from which ops learn.

Ops request several columns at once, so that these are reduced in parallel. Results are exact, with the exception of
`Statistics.exponents`, and do not depend on the number of threads.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import Any, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm, NumericExpr
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.categories import Tables, regroup, sum_axis
from gpupipe.features.statistics.numbers import NumberStatistics, find_mode
from gpupipe.features.statistics.row_blocks import ROWS_PER_BLOCK, is_on_device, map_row_blocks
from gpupipe.random_streams import make_generator
from gpupipe.table.arrange import LookedUpColumns, arrange, look_up, used_levels
from gpupipe.table.blocks import Table, code_storage
from gpupipe.table.schema import FIRST_LEVEL, Column, Schema
from gpupipe.typing import Array
from gpupipe_kernels.formulas.calendar import MICROSECONDS_A_DAY, TimeZone, local_times
from gpupipe_kernels.program.opcodes import NAT

Result = TypeVar("Result")


@dataclass(frozen=True)
class TargetCounts:
    """Row counts and target sums per fold and code; shapes (folds, n_codes) and (folds, n_codes, n_outputs).

    With weights, the sums of the weights, and of the weights times the target. `squares` are those of the squared
    differences of numbers from `pivot`, shape (n_outputs,), if they were requested; None for classes.
    """

    count: Array
    total: Array
    squares: Array | None = None
    pivot: Array | None = None

    def of_other_folds(self) -> TargetCounts:
        """Return the sums over all folds, and over all but each fold: folds + 1 of them, in float64."""
        squares = None if self.squares is None else _sum_other_folds(self.squares)
        count = _sum_other_folds(self.count.astype(np.float64))
        return TargetCounts(count, _sum_other_folds(self.total), squares, self.pivot)


class Statistics(NumberStatistics):
    """Reductions over the rows of `table`, the training rows.

    `seed` is that of the folds, and `engine` as in `NumberStatistics`. `weights` are positive, float64, shape
    (n_rows,), on the host; None: each row counts once. Besides those of `NumberStatistics`, they count in
    `weight_sums`, `shares`, `frequent_codes` and `target_counts`. They do not count in `counts`, in time ranges and in
    folds.
    """

    def __init__(
        self,
        table: Table,
        backend: Backend,
        target: Target | None,
        seed: int,
        engine: str | None = None,
        weights: Array | None = None,
    ) -> None:
        super().__init__(table, backend, engine, weights)
        self.target = None if target is None else _placed(target, backend)
        self._host_target, self.seed = target, seed
        self._drop_unused_levels()

    def _drop_unused_levels(self) -> None:
        """Drop levels that do not occur in the rows, so that nothing is learned from other rows; cache the counts."""
        names = [c.name for c in self.table.schema if c.levels is not None and c.hash_of is None]
        counts = dict(zip(names, self._counter.codes(names), strict=True))
        unused = {name: count for name, count in counts.items() if not count[FIRST_LEVEL:].all()}
        if unused:
            self._arrange(used_levels(self.table.schema, unused))
        for name, count in counts.items():
            kept = count if len(count) == self.table.schema[name].n_codes else _without_zeros(count)
            self._memory["counts", (IndexTerm("INDEX", name),)] = kept

    def _arrange(self, schema: Schema) -> None:
        """Convert the rows to another schema."""
        self.table = arrange(self.table, schema, self.backend)

    def add_hashed(self, column: Column) -> None:
        """Add a column of hashed levels to the table."""
        if column.name not in self.table.schema:
            column = replace(column, storage=code_storage(column.n_codes))
            self._arrange(Schema((*self.table.schema.columns, column)))

    def add_looked_up(self, lookups: Sequence[LookedUpColumns], n_folds: int = 0) -> None:
        """Add columns whose values are looked up, by `n_folds` folds if any, instead of those with their positions."""
        self.table = look_up(self.table, lookups, self.backend, self.folds(n_folds) if n_folds else None)

    def counts(self, columns: Sequence[CategoryExpr]) -> list[Array]:
        """Return the row counts per code of each column, int64, shape (n_codes,)."""
        found = self._each(columns, "counts", _index, self._counter.indices)
        return [regroup(raw, column) for column, raw in zip(columns, found, strict=True)]

    def weight_sums(self, columns: Sequence[CategoryExpr]) -> list[Array]:
        """Return the sums of weights per code of each column, float64, shape (n_codes,); without weights, `counts`."""
        if self.weights is None:
            return self.counts(columns)
        found = self._each(columns, "weights", _index, lambda missing: self._counter.sums(missing, self.weights))
        return [regroup(raw[:, 0], column) for column, raw in zip(columns, found, strict=True)]

    def shares(self, columns: Sequence[CategoryExpr]) -> list[Array]:
        """Return the share of the rows, by weight, that have each code of each column; shape (n_codes,)."""
        return [sums / (sums.sum() or 1) for sums in self.weight_sums(columns)]

    def frequent_codes(self, columns: Sequence[CategoryExpr]) -> list[int | None]:
        """Return the code of the most frequent level of each column, by weight (the first if tied).

        None for a column without levels.
        """
        levels = [sums[FIRST_LEVEL:] for sums in self.weight_sums(columns)]
        return [FIRST_LEVEL + int(find_mode(np.arange(len(n)), n)[0]) if len(n) else None for n in levels]

    def target_counts(self, columns: Sequence[CategoryExpr], folds: int) -> list[TargetCounts]:
        """Return row counts and target sums per fold and code of each column (see `folds`), or those of weights.

        The outputs of several targets follow each other: see `Target.output_names`. Raise ValueError if there is no
        target.
        """
        if self.target is None:
            raise ValueError("target statistics require a target")
        found = [self._counts_of(columns, folds, i) for i in range(len(self.target.each))]
        if len(found) == 1:
            return found[0]
        return [
            TargetCounts(each[0].count, np.concatenate([counts.total for counts in each], axis=2))
            for each in zip(*found, strict=True)
        ]

    def with_squares(
        self, columns: Sequence[CategoryExpr], folds: int, found: list[TargetCounts]
    ) -> list[TargetCounts]:
        """Return the result of `target_counts` with squares; unchanged if the target has classes."""
        assert self._host_target is not None
        if self._host_target.n_classes:
            return found
        rows = [max(counts.count.sum(), 1e-300) for counts in found]
        pivot = found[0].total.sum(axis=(0, 1)) / rows[0]
        squares = [self._squares_of(columns, folds, i, center) for i, center in enumerate(pivot.tolist())]
        stacked = [np.stack(each, axis=2) for each in zip(*squares, strict=True)]
        return [replace(own, squares=each, pivot=pivot) for own, each in zip(found, stacked, strict=True)]

    def number_counts(self, columns: Sequence[CategoryExpr], number: NumericExpr, folds: int) -> list[TargetCounts]:
        """Return the result of `target_counts`, with squares, for a number instead of the target, without its nulls."""
        pivot = float(np.float32(self.medians([number])[0]))
        powers = self._powers(number.then("CENTER", pivot, 1.0))
        fold = self.folds(folds)
        groups = self.remember(("groups", folds, -1), lambda: self._counter.groups(fold, folds, Target(fold, 0)))
        found = []
        for column, *sums in zip(
            columns, *(self._counter.sums(columns, y, (groups, folds)) for y in powers), strict=True
        ):
            n, total, squares = (regroup(each, column).T for each in sums)
            total = total + pivot * n  # the squares are those of differences from the pivot
            found.append(TargetCounts(n, total[:, :, None], squares[:, :, None], np.array([pivot])))
        return found

    def _squares_of(self, columns: Sequence[CategoryExpr], folds: int, position: int, pivot: float) -> list[Array]:
        """Return the sums of squared differences of one of the targets from `pivot`, shape (folds, n_codes)."""
        assert self._host_target is not None
        values = self._host_target.each[position].values

        def reduce(missing: Sequence[CategoryExpr]) -> list[Array]:
            squares = self._place_rows((values - pivot) ** 2)
            weighted = squares if self.weights is None else self._times_weights(squares)
            return self._counter.sums(missing, weighted, (self._groups(folds, position), folds))

        found = self._each(columns, ("squares", folds, position), _index, reduce)
        return [regroup(raw, column).T for column, raw in zip(columns, found, strict=True)]

    def _counts_of(self, columns: Sequence[CategoryExpr], folds: int, position: int) -> list[TargetCounts]:
        """Return the target counts for one of the targets."""
        assert self.target is not None
        target, group = self.target.each[position], self._groups(folds, position)

        def count(missing: Sequence[CategoryExpr]) -> list[Tables]:
            if self.weights is None:
                return self._counter.targets(missing, target, group, folds)
            groups = group, folds * max(1, target.n_classes)
            counts = self._counter.sums(missing, self.weights, groups)
            if target.n_classes:
                return [(table, np.empty(0)) for table in counts]
            return list(zip(counts, self._counter.sums(missing, self._weighted(position), groups), strict=True))

        found = self._each(columns, ("target", folds, position), _index, count)
        return [
            _by_fold(regroup(counts, column), regroup(totals, column), folds, target.n_classes)
            for column, (counts, totals) in zip(columns, found, strict=True)
        ]

    def _weighted(self, position: int) -> Any:
        """Return the weights times the numbers of one of the targets, where the rows are stored."""
        if ("weighted", position) not in self._memory:
            assert self.target is not None
            self._memory["weighted", position] = self._times_weights(self.target.each[position].values)
        return self._memory["weighted", position]

    def _times_weights(self, values: Any) -> Any:
        return self.weights * values

    def folds(self, k: int) -> Any:
        """Return the fold of each training row, int8 in 1..k, shape (n_rows,): see `assign_folds`."""

        def assign() -> Any:
            return self._place_rows(assign_folds(self.n_rows, k, self.seed, self._host_target, self.backend.host))

        return self.remember(("folds", k), assign)

    def _place_rows(self, values: Array) -> Any:
        """Return an array of the host with an element per row, where the rows are stored."""
        return self.backend.to_device(values)

    def _groups(self, k: int, position: int) -> Any:
        """Return the groups of one of the targets: see `CategoryCounter.groups`."""
        assert self.target is not None
        target = self.target.each[position]
        return self.remember(("groups", k, position), lambda: self._counter.groups(self.folds(k), k, target))

    def time_range(self, source: str) -> tuple[int, int]:
        """Return the first and last time of a column in microseconds since 1970; (0, 0) if it is empty."""
        if self.n_rows == 0:
            return 0, 0
        firsts, lasts = zip(*self._of_times(find_time_range, source), strict=True)
        return (min(firsts), max(lasts)) if max(lasts) != NAT else (0, 0)

    def has_time_of_day(self, source: str, zone: tuple[float, ...] = ()) -> bool:
        """Return whether a column contains times other than midnight in a time zone, by default UTC."""
        return any(self._of_times(partial(has_time_of_day, zone=zone), source))

    def code_counts(self, source: str) -> Array:
        """Return the row counts per code of a table column with levels, int64, shape (n_codes,)."""
        counts: Array = self._memory["counts", (IndexTerm("INDEX", source),)]
        return counts

    def _of_times(self, function: Callable[[Backend, Array], Result], source: str) -> list[Result]:
        """Return the results of `function` for the times of a column, one for each table that stores the rows."""
        return [function(self.backend, self.table.column(source))]


def find_time_range(backend: Backend, times: Array) -> tuple[int, int]:
    """Return the first and last of at least one time; the last is NAT, the smallest integer, if all are null."""

    def find(times: Array, start: int, stop: int) -> tuple[int, int]:
        part, to_host = times[start:stop], backend.to_host
        return int(to_host((part - 1).min())) + 1, int(
            to_host(part.max())
        )  # minus 1, NAT wraps around to the largest integer

    (found,) = map_row_blocks(backend, find, [times], len(times))
    firsts, lasts = zip(*found, strict=True)
    return min(firsts), max(lasts)


def has_time_of_day(backend: Backend, times: Array, zone: tuple[float, ...] = ()) -> bool:
    """Return whether any time is not midnight in a time zone, by default UTC."""
    step = max(1, len(times)) if is_on_device(backend) else ROWS_PER_BLOCK
    parts = (times[low : low + step] for low in range(0, len(times), step))
    for part in parts:
        local = local_times(part, TimeZone.of(zone), backend.xp) if zone else part
        if backend.to_host(((local % MICROSECONDS_A_DAY != 0) & (part != NAT)).any()):
            return True
    return False


def _placed(target: Target, backend: Backend) -> Target:
    """Return a target whose arrays are on the device of the backend."""
    others = tuple(_placed(other, backend) for other in target.others)
    return replace(target, values=backend.to_device(target.values), others=others)


def _index(column: CategoryExpr) -> Any:
    return column.index


def _by_fold(counts: Array, totals: Array, n_folds: int, n_classes: int) -> TargetCounts:
    """Return target counts from tables per code and fold, and per class if there are classes."""
    if not n_classes:
        return TargetCounts(counts.T, totals.T[:, :, None])
    counts = np.ascontiguousarray(counts.reshape(-1, n_folds, n_classes).swapaxes(0, 1))
    # Of two classes, the output is the second one; a single class is the first of two, as for scikit-learn.
    outputs = counts if n_classes > 2 else counts[:, :, 1:] if n_classes == 2 else np.zeros_like(counts)
    return TargetCounts(sum_axis(counts, 2), outputs.astype(np.float64))


def _sum_other_folds(table: Array) -> Array:
    """Return the sums over all folds, and over all but each fold, along the first axis.

    They are added up, since the difference of two sums of weights is a rounding error instead of 0 for a level whose
    rows are all in one fold.
    """
    before, after = np.zeros_like(table), np.zeros_like(table)
    before[1:] = np.cumsum(table[:-1], axis=0)
    after[:-1] = np.cumsum(table[:0:-1], axis=0)[::-1]
    return np.concatenate([before[-1:] + table[-1:], before + after])


def _without_zeros(count: Array) -> Array:
    levels = count[FIRST_LEVEL:]
    return np.concatenate([count[:FIRST_LEVEL], levels[levels > 0]])


@singledispatch
def make_statistics(
    table: Any, backend: Backend, target: Target | None, seed: int, weights: Array | None = None
) -> Statistics:
    """Return the `Statistics` for the type of the `EncodedTable`; parameters as in `Statistics`."""
    return Statistics(table, backend, target, seed, weights=weights)


def assign_folds(n_rows: int, n_folds: int, seed: int, target: Target | None, backend: Backend) -> Array:
    """Return the fold of each training row, int8 in 1..n_folds, shape (n_rows,), on the host.

    The number of rows of a class differs by at most 1 between folds, and so does the number of all rows: each row is
    drawn by a hash of seed and position, then the fewest rows that balance the folds are moved at random. With several
    targets, the sets of their classes replace the classes. The rows of a group are in one fold; the largest groups are
    distributed first, each to the fold with the fewest rows, as by scikit-learn's GroupKFold.

    Folds depend on the positions of the rows among all training rows, so partitions and threads do not change them.
    `target`, of all rows, is on the host, and `backend` is the host's.
    """
    if target is not None and target.groups is not None:
        return _folds_of_groups(target.groups, n_folds, make_generator(seed, "folds of encodings"))
    fold = np.empty(n_rows, np.int8)
    engine = backend.reductions(n_rows)

    def draw(out: Array, start: int, stop: int) -> None:
        engine.fold(start, seed, n_folds, out[start:stop])

    map_row_blocks(backend, draw, [fold], n_rows)
    strata, n_strata = _strata(target, n_rows)
    cells = fold - np.int8(1)
    if strata is not None:
        cells = cells.astype(code_storage(n_strata * n_folds))
        cells += strata.astype(cells.dtype) * cells.dtype.type(n_folds)
    counts = np.zeros(n_strata * n_folds, np.int64)
    engine.count(cells, counts)
    _balance(fold, cells, counts.reshape(n_strata, n_folds), make_generator(seed, "folds of encodings"))
    return fold


def _strata(target: Target | None, n_rows: int) -> tuple[Array | None, int]:
    """Return the code of the class of each row, or of its set of classes, and their number; None without classes."""
    codes, n_strata = None, 1
    for own in () if target is None else target.each:
        if own.n_classes < 2:
            continue
        classes = own.values.astype(code_storage(own.n_classes))
        if codes is None:
            codes, n_strata = classes, own.n_classes
        else:  # consecutive codes before the next target, so that no product of class counts overflows
            sets, codes = np.unique(codes.astype(np.int64) * own.n_classes + classes, return_inverse=True)
            n_strata = len(sets)
    return codes, n_strata


def _balance(fold: Array, cells: Array, counts: Array, generator: np.random.Generator) -> None:
    """Move rows between the folds until the rows of each stratum are divided as equally as those of all strata.

    `fold`: int8 from 1 on, written in place. `cells`: ``stratum * n_folds + fold - 1`` of each row. `counts`: the rows
    of each cell, int64, shape (n_strata, n_folds).
    """
    n_folds = counts.shape[1]
    # Rows in the order of their strata are dealt in turn, like cards.
    ends = np.cumsum(counts.sum(axis=1))[:, None]
    place = np.arange(n_folds)
    dealt = (ends - place + n_folds - 1) // n_folds
    excess = counts - np.diff(dealt, axis=0, prepend=0)
    for stratum in np.flatnonzero(excess.any(axis=1)).tolist():
        wanted = np.repeat(place + 1, np.maximum(-excess[stratum], 0))
        over = np.flatnonzero(excess[stratum] > 0).tolist()
        moved = [
            generator.choice(np.flatnonzero(cells == stratum * n_folds + k), excess[stratum, k], replace=False)
            for k in over
        ]
        fold[np.concatenate(moved)] = generator.permutation(wanted)


def _folds_of_groups(groups: Array, n_folds: int, generator: np.random.Generator) -> Array:
    """Return the fold of each row, from 1 on, so that the rows of a group are in one fold."""
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = generator.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    loads = [(0, k) for k in range(1, n_folds + 1)]
    chosen = np.empty(len(sizes), np.int8)
    for group, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        load, k = loads[0]
        chosen[group] = k
        heapq.heapreplace(loads, (load + size, k))
    return chosen[codes]
