"""Reductions over the training rows: all that a fit ever learns from data comes from here.

An op asks for several columns at once, so that they can be reduced side by side. Every answer is exact, and does not
depend on the number of threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.columns import Codes, IndexStep, Numbers, Step
from gpupipe.features.lower import lower
from gpupipe.table.arrange import arrange, drop_unused_levels
from gpupipe.table.blocks import Table, code_storage
from gpupipe.table.schema import FIRST_LEVEL, Column, Schema
from gpupipe_kernels.calendar import MICROSECONDS_A_DAY, part
from gpupipe_kernels.hashing import mix
from gpupipe_kernels.opcodes import NAT, PART_SIZES, Part
from gpupipe_kernels.reference import yeo_johnson

Array = Any
FEW_CODES = 24
ROWS_AT_ONCE = 65_536  # a block of rows and what is made of it stay in the cache


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
        self._memory: dict[Any, Any] = {}
        self.table = self._without_unused_levels(table)

    def _without_unused_levels(self, table: Table) -> Table:
        """Drop the levels that no row holds, so that nothing is learned from other rows; keep the counts."""
        names = [c.name for c in table.schema if c.levels is not None]
        found = self.backend.map(lambda n: count_codes(table.column(n), table.schema[n].n_codes), names)
        counts = dict(zip(names, found, strict=True))
        table = drop_unused_levels(table, counts, self.backend)
        for name, count in counts.items():
            kept = count if len(count) == table.schema[name].n_codes else _without_zeros(count)
            self._memory["counts", ((IndexStep("INDEX", name),), None)] = kept
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

    def moments(self, columns: list[Numbers]) -> list[tuple[float, float]]:
        """Return mean and standard deviation (population) of each column, nulls left out; (0, 0) of an empty one."""
        return self._each(columns, "moments", self._moments)

    def _moments(self, column: Numbers) -> tuple[float, float]:
        pivot = self._pivot(column)
        values = self.values(column.then("CENTER", pivot, 1.0))
        n, first, second = 0, 0.0, 0.0
        for low in range(0, len(values), ROWS_AT_ONCE):
            wide = values[low : low + ROWS_AT_ONCE].astype(np.float64)
            total = float(wide.sum())
            if not math.isfinite(total):
                wide = wide[np.isfinite(wide)]
                total = float(wide.sum())
            # Not np.dot: BLAS would start threads of its own for each block.
            n, first, second = n + len(wide), first + total, second + float(np.square(wide, out=wide).sum())
        if n == 0:
            return 0.0, 0.0
        mean = first / n
        variance = second / n - mean * mean
        # What is left of a constant is the rounding of the two terms.
        return pivot + mean, math.sqrt(variance) if variance > 1e-13 * mean * mean else 0.0

    def _pivot(self, column: Numbers) -> float:
        """Return a value near the data, so that a large mean does not drown a small spread."""
        if column.start.op != "LOAD":
            return 0.0
        raw = self.table.column(column.start.source)
        value = 0.0
        for low in range(0, len(raw), ROWS_AT_ONCE):
            block = raw[low : low + ROWS_AT_ONCE]
            finite = block[np.isfinite(block)][:1024]
            if len(finite):
                value = float(np.median(finite))
                break
        for step in column.steps:
            value = follow(step, value)
        return value

    def quantiles(self, columns: list[Numbers], q: list[float]) -> list[list[float]]:
        """Return the quantiles of each column, linearly interpolated, nulls left out; 0 of an empty one."""
        return self._each(columns, ("quantiles", *q), lambda column: self._quantiles(column, q))

    def _quantiles(self, column: Numbers, q: list[float]) -> list[float]:
        values = np.array(self._raw_or_values(column))
        n = len(values) - int(np.count_nonzero(np.isnan(values)))
        return [_quantile(values, n, share) for share in q] if n else [0.0 for _ in q]

    def medians(self, columns: list[Numbers]) -> list[float]:
        """Return the median of each column.

        Every step but SINE keeps the order of values, so the median of a chain is the chain of the median, and that of
        a source column is reduced once however many columns are made of it.
        """
        return self.backend.map(self._median, columns)

    def _median(self, column: Numbers) -> float:
        if column.start.op != "LOAD" or any(step.op == "SINE" for step in column.steps):
            return self.quantiles([column], [0.5])[0][0]
        value = self.quantiles([replace(column, steps=())], [0.5])[0][0]
        for step in column.steps:
            value = follow(step, value)
        return value

    def extremes(self, columns: list[Numbers]) -> list[tuple[float, float]]:
        """Return minimum and maximum of each column over its finite values; (0, 0) of an empty one."""
        return self._each(columns, "extremes", self._extremes)

    def _extremes(self, column: Numbers) -> tuple[float, float]:
        values = self._raw_or_values(column)
        values = values[np.isfinite(values)]
        return (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)

    def modes(self, columns: list[Numbers]) -> list[float]:
        """Return the most frequent value of each column, the least of several; 0 of an empty one."""
        return self._each(columns, "modes", self._mode)

    def _mode(self, column: Numbers) -> float:
        values = self._raw_or_values(column)
        found, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        return float(found[counts.argmax()]) if len(found) else 0.0

    def null_counts(self, columns: list[Numbers]) -> list[int]:
        """Return the number of nulls of each column."""
        return self._each(columns, "nulls", lambda column: int(np.isnan(self._raw_or_values(column)).sum()))

    def counts(self, columns: list[Codes]) -> list[Array]:
        """Return rows per code of each column, int64, shape (n_codes,)."""
        return self._each(columns, "counts", self._counts)

    def _counts(self, column: Codes) -> Array:
        index = self.index(column)
        raw = count_codes(index, column.size)
        return raw if column.remap is None else _regroup(raw, column)

    def target_counts(self, columns: list[Codes], folds: int) -> list[TargetCounts]:
        """Return rows and target sums per fold and code of each column (see `folds`).

        Raises
        ------
        ValueError
            If there is no target.
        """
        return self._each(columns, ("target", folds), lambda column: self._target_counts(column, folds))

    def _target_counts(self, column: Codes, folds: int) -> TargetCounts:
        if self.target is None:
            raise ValueError("target statistics need a target")
        n_classes = self.target.n_classes
        width = column.size * max(1, n_classes)
        cells: Array = np.zeros(folds * width, np.int64)
        sums: Array = np.zeros(folds * width)
        fold, index, y = self.folds(folds), self.index(column), self.target.values
        # Block by block the keys stay in the cache; all rows at once would write and read them in memory.
        for low in range(0, self.n_rows, ROWS_AT_ONCE):
            rows = slice(low, low + ROWS_AT_ONCE)
            key = (fold[rows].astype(np.intp) - 1) * column.size + index[rows]
            if n_classes:
                key = key * n_classes + y[rows].astype(np.intp)
            else:
                sums += np.bincount(key, y[rows], minlength=len(sums))
            cells += np.bincount(key, minlength=len(cells))
        if n_classes:
            cells = cells.reshape(folds, column.size, n_classes)
            count = cells.sum(axis=2)
            total = (cells if n_classes > 2 else cells[:, :, 1:]).astype(np.float64)
        else:
            count, total = cells.reshape(folds, column.size), sums.reshape(folds, column.size, 1)
        if column.remap is not None:
            count = np.stack([_regroup(c, column) for c in count])
            total = np.stack([_regroup(t, column) for t in total])
        return TargetCounts(count, total)

    def folds(self, k: int) -> Array:
        """Return the fold of each training row, int8 in 1..k, shape (n_rows,): a hash of seed and position."""
        if ("folds", k) not in self._memory:
            fold = np.empty(self.n_rows, np.int8)
            for low in range(0, self.n_rows, ROWS_AT_ONCE):
                rows = np.arange(low, min(low + ROWS_AT_ONCE, self.n_rows), dtype=np.uint32)
                h = mix(mix(rows) + np.uint32(self.seed * 0x9E3779B1 % 2**32))
                # The hash as a fraction of 2**32, scaled to k: no division.
                fold[low : low + len(rows)] = (h.astype(np.uint64) * np.uint64(k)) >> np.uint64(32)
            self._memory["folds", k] = fold + np.int8(1)
        return self._memory["folds", k]

    def values(self, column: Numbers) -> Array:
        """Return a column as it will be in the matrix, float32, shape (n_rows,)."""
        program = lower([column], self.table.places, folds=False)
        out = self.backend.empty_matrix(self.n_rows, 1)
        self.backend.run_program(program, self.table.blocks, out)
        return out[:, 0]

    def _raw_or_values(self, column: Numbers) -> Array:
        if column.start.op == "LOAD" and not column.steps:
            return self.table.column(column.start.source)
        return self.values(column)

    def index(self, column: Codes) -> Array:
        """Return the raw index of each row, any integer dtype, shape (n_rows,)."""
        index: Array = None
        for step in column.index:
            index = self._index_step(step, index)
        return index

    def _index_step(self, step: IndexStep, index: Array) -> Array:
        source = self.table.column(step.source)
        if step.op == "INDEX":
            return source
        if step.op == "INDEX_PAIR":
            return index.astype(np.int32) * np.int32(step.stride) + source
        if step.op == "INDEX_PART":
            return np.where(source == NAT, PART_SIZES[Part(step.part)], part(source, step.part))
        bins = np.searchsorted(np.array(step.edges, np.float32), source.astype(np.float32), side="right")
        return np.where(np.isnan(source), 0, bins + step.stride)

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

    def _each(self, columns: list[Any], what: Any, reduce: Any) -> list[Any]:
        def remembered(column: Any) -> Any:
            key = (what, _key(column))
            if key not in self._memory:
                self._memory[key] = reduce(column)
            return self._memory[key]

        return self.backend.map(remembered, columns)


def _key(column: Numbers | Codes) -> Any:
    if isinstance(column, Codes):
        return column.index, None if column.remap is None else column.remap.tobytes()
    start = column.start
    table = None if start.codes is None else (start.codes.index, start.table.tobytes())
    operands = tuple(_key(operand) for operand in start.operands)
    return start.op, start.source, start.arg, start.other, start.params, operands, start.call, table, column.steps


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


def _quantile(values: Array, n: int, share: float) -> float:
    """Return a quantile of the `n` numbers among `values` (NaN sorts behind them), which are reordered."""
    at = share * (n - 1)
    low = int(at)
    values.partition(low)
    below = float(values[low])
    if at == low:
        return below
    above = float(values[low + 1 : n].min()) if n == len(values) else float(np.nanmin(values[low + 1 :]))
    return below + (at - low) * (above - below)


def count_codes(codes: Array, size: int) -> Array:
    """Return rows per code, int64, shape (size,)."""
    if size <= FEW_CODES and codes.dtype == np.int8:
        # A comparison a code is vectorised, and beats one table look-up a row while there are few codes.
        counts = np.array([np.count_nonzero(codes == code) for code in range(FIRST_LEVEL, size)], np.int64)
        reserved = np.zeros(FIRST_LEVEL, np.int64)
        if counts.sum() < len(codes):
            reserved[:] = [np.count_nonzero(codes == code) for code in range(FIRST_LEVEL)]
        return np.concatenate([reserved, counts])
    return np.bincount(codes, minlength=size)


def _without_zeros(count: Array) -> Array:
    levels = count[FIRST_LEVEL:]
    return np.concatenate([count[:FIRST_LEVEL], levels[levels > 0]])


def _regroup(raw: Array, column: Codes) -> Array:
    """Return sums per raw index, shape (size, ...), as sums per code."""
    out = np.zeros((column.n_codes, *raw.shape[1:]), raw.dtype)
    np.add.at(out, column.remap, raw)
    return out
