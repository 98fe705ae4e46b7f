"""Reductions over the training rows: all that a fit ever learns from data comes from here.

An op asks for several columns at once, so that they can be reduced side by side. Every answer is exact (but that of
`Statistics.exponents`, which says so), and does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.columns import Codes, IndexStep, Numbers, Step
from gpupipe.features.counting import Counter, regroup, summed
from gpupipe.features.fit_power import exponent
from gpupipe.features.lower import lower
from gpupipe.features.moments import Moments, value_amid
from gpupipe.features.sweeping import Sweeper
from gpupipe.table.arrange import arrange, drop_unused_levels
from gpupipe.table.blocks import Table, code_storage
from gpupipe.table.schema import FIRST_LEVEL, Column, Schema
from gpupipe_kernels.calendar import MICROSECONDS_A_DAY
from gpupipe_kernels.hashing import mix
from gpupipe_kernels.opcodes import NAT
from gpupipe_kernels.reduce.engines import FLOAT32_MAX, choose
from gpupipe_kernels.reference import yeo_johnson

Array = Any
Asked = TypeVar("Asked", Numbers, Codes)
FLOAT32_RESOLUTION = 2.0**-22  # of a computed value: some last digits, which rounding may have made
ROWS_OF_AN_EXPONENT = 2**17  # its standard error is then some thousandths, and more rows cost as much as a model


@dataclass(frozen=True)
class Target:
    """The target of the training rows.

    Attributes
    ----------
    values : array of float64, shape (n_rows,)
        Class codes 0..k-1, or the number to predict.
    n_classes : int
        0 for regression.
    """

    values: Array
    n_classes: int


@dataclass(frozen=True)
class TargetCounts:
    """Rows and target sums of each code in each fold; shapes (folds, n_codes) and (folds, n_codes, outputs)."""

    count: Array
    total: Array


class Statistics:
    """Reductions over the rows of `table`.

    Parameters
    ----------
    table : Table
        The training rows.
    backend : Backend
    target : Target, optional
    seed : int
        Of the fold that each row belongs to.
    """

    def __init__(self, table: Table, backend: Backend, target: Target | None, seed: int) -> None:
        self.backend, self.target, self.seed = backend, target, seed
        self._engine = choose(table.n_rows)
        self._sweeper = Sweeper(backend, self._engine)
        self._memory: dict[Any, Any] = {}
        self.table = self._without_unused_levels(table)

    def _without_unused_levels(self, table: Table) -> Table:
        """Drop the levels that no row holds, so that nothing is learned from other rows; keep the counts."""
        names = [c.name for c in table.schema if c.levels is not None]
        counts = dict(zip(names, Counter(table, self.backend, self._engine).codes(names), strict=True))
        unused = {name: count for name, count in counts.items() if not count[FIRST_LEVEL:].all()}
        if unused:
            table = drop_unused_levels(table, unused, self.backend)
        for name, count in counts.items():
            kept = count if len(count) == table.schema[name].n_codes else _without_zeros(count)
            self._memory["counts", (IndexStep("INDEX", name),)] = kept
        return table

    @property
    def n_rows(self) -> int:
        """Training rows."""
        return self.table.n_rows

    def add_hashed(self, column: Column) -> None:
        """Add a column of hashed levels to the table."""
        if column.name not in self.table.schema:
            column = replace(column, storage=code_storage(column.n_codes))
            schema = Schema((*self.table.schema.columns, column))
            self.table = arrange(self.table, schema, self.backend)

    def moments(self, columns: Sequence[Numbers]) -> list[tuple[float, float]]:
        """Return mean and standard deviation (population) of each column, nulls left out; (0, 0) of an empty one."""
        return [(found.mean, found.deviation) for found in self._moments(columns)]

    def null_counts(self, columns: Sequence[Numbers]) -> list[int]:
        """Return the number of nulls of each column."""
        filled = [any(step.op == "FILL" for step in _settled(column)[1]) for column in columns]
        found = iter(self._moments([column for column, full in zip(columns, filled, strict=True) if not full]))
        return [0 if full else next(found).n_null for full in filled]

    def _moments(self, columns: Sequence[Numbers]) -> list[Moments]:
        """Return the moments of each column: those of what its last steps fill and scale, filled and scaled."""
        split = [_settled(column) for column in columns]
        bases = [base for base, _ in split]
        found = {}
        for is_source, reduce in ((True, self._read_moments), (False, self._made_moments)):
            alike = [base for base in bases if _is_source(base) is is_source]
            found |= dict(zip(map(_key, alike), self._each(alike, "moments", _key, reduce), strict=True))
        return [_carried(found[_key(base)], base, steps) for base, steps in split]

    def _read_moments(self, columns: Sequence[Numbers]) -> list[Moments]:
        return self._sweeper.moments([self.table.column(column.start.source) for column in columns])

    def _made_moments(self, columns: Sequence[Numbers]) -> list[Moments]:
        # They are moved to 0 first, while they have the precision of their sources.
        pivots = [self._pivot(column) for column in columns]
        moved = [column.then("CENTER", pivot, 1.0) for column, pivot in zip(columns, pivots, strict=True)]
        found = self._sweeper.moments_made(lower(moved, self.table.places, folds=False), self.table)
        return [moments.centred(-pivot, 1.0) for moments, pivot in zip(found, pivots, strict=True)]

    def _pivot(self, column: Numbers) -> float:
        """Return a float32 near the data, so that a large mean does not drown a small spread."""
        if column.start.op != "LOAD":
            return 0.0
        value = followed(column, value_amid(self.table.column(column.start.source)))
        return float(np.float32(value)) if abs(value) <= FLOAT32_MAX else 0.0

    def quantiles(self, columns: Sequence[Numbers], q: list[float]) -> list[list[float]]:
        """Return the quantiles of each column, linearly interpolated, nulls left out; 0 of an empty one."""

        def reduce(missing: Sequence[Numbers]) -> list[list[float]]:
            found = self._sweeper.quantiles(self._arrays(missing), q)
            for column, (moments, _) in zip(missing, found, strict=True):
                if _is_source(column):
                    self._memory["moments", _key(column)] = moments
            return [values for _, values in found]

        return self._each(columns, ("quantiles", *q), _key, reduce)

    def medians(self, columns: Sequence[Numbers]) -> list[float]:
        """Return the median of each column.

        Every step but SINE keeps the order of values, so the median of a chain is the chain of the median, and that of
        a source column is reduced once however many columns are made of it.
        """
        plain = [column.start.op == "LOAD" and all(step.op != "SINE" for step in column.steps) for column in columns]
        bases = [replace(c, steps=()) if is_plain else c for c, is_plain in zip(columns, plain, strict=True)]
        found = self.quantiles(bases, [0.5])
        return [
            followed(column, median) if is_plain else median
            for column, is_plain, (median,) in zip(columns, plain, found, strict=True)
        ]

    def extremes(self, columns: Sequence[Numbers]) -> list[tuple[float, float]]:
        """Return minimum and maximum of each column over its finite values; (0, 0) of an empty one."""
        return self._each(columns, "extremes", _key, lambda missing: self._sweeper.extremes(self._arrays(missing)))

    def modes(self, columns: Sequence[Numbers]) -> list[float]:
        """Return the most frequent value of each column, the least of several; 0 of an empty one."""
        return self._each(columns, "modes", _key, lambda missing: self.backend.map(_mode, self._arrays(missing)))

    def exponents(self, columns: Sequence[Numbers]) -> list[tuple[float, bool]]:
        """Return the exponent of the Yeo-Johnson transformation of each column, and whether float32 limits it.

        Of more than `ROWS_OF_AN_EXPONENT` rows, about so many are taken: a hash of the position chooses them.
        """

        def reduce(missing: Sequence[Numbers]) -> list[tuple[float, bool]]:
            rows: Any = slice(None)
            if self.n_rows > ROWS_OF_AN_EXPONENT:
                chosen = mix(np.arange(self.n_rows, dtype=np.uint32))
                rows = chosen < np.uint32(2**32 * ROWS_OF_AN_EXPONENT // self.n_rows)
            return self.backend.map(lambda values: exponent(values[rows]), self._arrays(missing))

        return self._each(columns, "exponents", _key, reduce)

    def counts(self, columns: Sequence[Codes]) -> list[Array]:
        """Return rows per code of each column, int64, shape (n_codes,)."""
        found = self._each(columns, "counts", _index, self._counter.indices)
        return [regroup(raw, column) for column, raw in zip(columns, found, strict=True)]

    def target_counts(self, columns: Sequence[Codes], folds: int) -> list[TargetCounts]:
        """Return rows and target sums per fold and code of each column (see `folds`).

        Raises
        ------
        ValueError
            If there is no target.
        """
        if (target := self.target) is None:
            raise ValueError("target statistics need a target")
        given = target, self._groups(folds)[1], folds
        found = self._each(columns, ("target", folds), _index, lambda missing: self._counter.targets(missing, *given))
        return [
            _by_fold(regroup(counts, column), regroup(totals, column), folds, target.n_classes)
            for column, (counts, totals) in zip(columns, found, strict=True)
        ]

    def folds(self, k: int) -> Array:
        """Return the fold of each training row, int8 in 1..k, shape (n_rows,): a hash of seed and position."""
        return self._groups(k)[0]

    def _groups(self, k: int) -> tuple[Array, Array]:
        if ("groups", k) not in self._memory:
            self._memory["groups", k] = self._counter.groups(self.seed, k, self.target)
        fold, group = self._memory["groups", k]
        return fold, group

    @property
    def _counter(self) -> Counter:
        return Counter(self.table, self.backend, self._engine)

    def _arrays(self, columns: Sequence[Numbers]) -> list[Array]:
        """Return each column, shape (n_rows,): a source as it was read, another as it will be in the matrix."""
        made = [column for column in columns if not _is_source(column)]
        program = lower(made, self.table.places, folds=False)
        out = self.backend.empty_matrix(self.n_rows, len(made))
        if made:
            self.backend.run_program(program, self.table.blocks, out)
        values = iter(out.T)
        return [self.table.column(c.start.source) if _is_source(c) else next(values) for c in columns]

    def time_range(self, source: str) -> tuple[int, int]:
        """Return the first and last time of a column in microseconds since 1970; (0, 0) of an empty one."""
        times = self.table.column(source)
        times = times[times != NAT]
        return (int(times.min()), int(times.max())) if len(times) else (0, 0)

    def has_time_of_day(self, source: str) -> bool:
        """Return whether any time of a column is not midnight."""
        times = self.table.column(source)
        times = times[times != NAT]
        return bool((times - times // MICROSECONDS_A_DAY * MICROSECONDS_A_DAY).any())

    def _each(
        self,
        columns: Sequence[Asked],
        what: Any,
        key: Callable[[Asked], Any],
        reduce: Callable[[list[Asked]], list[Any]],
    ) -> list[Any]:
        """Return what is known of each column, after reducing together those of which it is not."""
        keys = [(what, key(column)) for column in columns]
        missing = {k: column for k, column in zip(keys, columns, strict=True) if k not in self._memory}
        if missing:
            self._memory |= zip(missing, reduce(list(missing.values())), strict=True)
        return [self._memory[k] for k in keys]


def _key(column: Numbers) -> Any:
    start = column.start
    table = None if start.codes is None else (start.codes.index, start.table.tobytes())
    operands = tuple(_key(operand) for operand in start.operands)
    return start.op, start.source, start.arg, start.other, start.params, operands, start.call, table, column.steps


def _index(column: Codes) -> Any:
    return column.index


def _is_source(column: Numbers) -> bool:
    return column.start.op == "LOAD" and not column.steps


def _settled(column: Numbers) -> tuple[Numbers, tuple[Step, ...]]:
    """Return the column without its last steps that only fill, move and stretch; and those."""
    n = len(column.steps)
    while n and column.steps[n - 1].op in ("FILL", "CENTER"):
        n -= 1
    return replace(column, steps=column.steps[:n]), column.steps[n:]


def _carried(moments: Moments, column: Numbers, steps: Sequence[Step]) -> Moments:
    """Return the moments of a column of which those are known, after steps that only fill, move and stretch."""
    resolution = 0.0 if _is_source(column) else FLOAT32_RESOLUTION
    for step in steps:
        filled = step.op == "FILL"
        moments = moments.filled(step.params[0], resolution) if filled else moments.centred(*step.params)
    return moments


def followed(column: Numbers, value: float) -> float:
    """Return what the steps of a column make of one value that is not null."""
    for step in column.steps:
        value = follow(step, value)
    return value


def follow(step: Step, value: float) -> float:
    """Return what a step makes of one value that is not null."""
    if step.op == "CENTER":
        return (value - step.params[0]) * step.params[1]
    if step.op == "CLIP":
        return min(max(value, step.params[0]), step.params[1])
    if step.op == "LOG1P":
        return math.log1p(value) if value > -1 else 0.0
    if step.op == "YEO_JOHNSON":
        return float(yeo_johnson(value, step.params[0]))
    if step.op == "SINE":
        return math.sin(value * step.params[0] + step.params[1])
    return value


def _mode(values: Array) -> float:
    found, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return float(found[counts.argmax()]) if len(found) else 0.0


def _by_fold(counts: Array, totals: Array, n_folds: int, n_classes: int) -> TargetCounts:
    """Return target counts by the rows of each code in each fold, of each class if there are classes."""
    if not n_classes:
        return TargetCounts(counts.T, totals.T[:, :, None])
    counts = np.ascontiguousarray(counts.reshape(-1, n_folds, n_classes).swapaxes(0, 1))
    outputs = counts if n_classes > 2 else counts[:, :, 1:]
    return TargetCounts(summed(counts, 2), outputs.astype(np.float64))


def _without_zeros(count: Array) -> Array:
    levels = count[FIRST_LEVEL:]
    return np.concatenate([count[:FIRST_LEVEL], levels[levels > 0]])
