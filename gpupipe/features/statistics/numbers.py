"""Reductions of numeric columns over the training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.float32_loss import count_distinct
from gpupipe.backends.weighted_quantiles import WEIGHT_RESOLUTION
from gpupipe.features.program.compile import center_of, compile_program
from gpupipe.features.program.expressions import CategoryExpr, NumericExpr, code_values
from gpupipe.features.program.transforms import (
    apply_transforms,
    identity,
    is_source,
    preserves_order,
    split_affine_tail,
    transform_moments,
)
from gpupipe.features.statistics.categories import CategoryCounter, regroup
from gpupipe.features.statistics.device import make_reducer
from gpupipe.features.statistics.moments import Moments
from gpupipe.features.statistics.power_exponent import PowerFit, find_exponent
from gpupipe.features.statistics.reductions import Reducer
from gpupipe.features.statistics.row_weights import distinct_weights
from gpupipe.table.blocks import Table
from gpupipe.typing import Array, ArrayNamespace
from gpupipe_kernels.formulas.hashes import mix
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.reduce.engine import FLOAT32_MAX

Value = TypeVar("Value")

SAMPLE_ROWS = 2**17  # standard error of an exponent: some thousandths
FEWER_FOR_DISTINCT = 4  # times; a sort costs more than the search reads


class NumberStatistics:
    """Reductions of numeric columns over the rows of `table`, with cached results.

    `engine` is "numpy" or "numba"; None: compiled loops if they are faster for this table. `weights` are positive,
    float64, shape (n_rows,); None: each row counts once. They count in means, deviations, quantiles, modes and
    Yeo-Johnson exponents. They do not count in null counts and extremes. The attribute `weights` is on the device of
    `backend`; None if all weights are 1.
    """

    weights: Any  # an array; for a partitioned table, a sequence of array handles

    def __init__(self, table: Table, backend: Backend, engine: str | None = None, weights: Array | None = None) -> None:
        self.table, self.backend = table, backend
        weights = distinct_weights(weights)
        self.weights = None if weights is None else backend.to_device(weights)
        self._engine = backend.reductions(table.n_rows * table.n_columns, engine)
        self._memory: dict[Any, Any] = {}

    @cached_property
    def _reducer(self) -> Reducer:
        return make_reducer(self.backend, self._engine, self.weights)

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return self.table.n_rows

    def moments(self, columns: Sequence[NumericExpr]) -> list[tuple[float, float]]:
        """Return mean and population standard deviation of each column, without nulls; (0, 0) if it is empty."""
        return [(found.mean, found.deviation) for found in self._moments(columns)]

    def null_counts(self, columns: Sequence[NumericExpr]) -> list[int]:
        """Return the number of nulls of each column; rows are counted, not weights."""
        filled = [any(step.op == "FILL" for step in split_affine_tail(column)[1]) for column in columns]
        found = iter(self._moments([column for column, full in zip(columns, filled, strict=True) if not full]))
        return [0 if full else next(found).n_null for full in filled]

    def _moments(self, columns: Sequence[NumericExpr]) -> list[Moments]:
        """Return the moments of each column, derived from those before its trailing FILL and CENTER transforms."""
        split = [split_affine_tail(column) for column in columns]
        bases = [base for base, _ in split]
        self._each([base for base in bases if is_source(base)], "moments", identity, self._read_moments)
        self._each([base for base in bases if not is_source(base)], "moments", identity, self._made_moments)
        return [transform_moments(self._memory["moments", identity(base)], base, steps) for base, steps in split]

    def _read_moments(self, columns: Sequence[NumericExpr]) -> list[Moments]:
        return self._reducer.moments(self._arrays(columns))

    def _made_moments(self, columns: Sequence[NumericExpr]) -> list[Moments]:
        # Shift to 0 first, in the precision of the sources.
        pivots = self._pivots(columns)
        moved = [column.then("CENTER", pivot, 1.0) for column, pivot in zip(columns, pivots, strict=True)]
        found = self._reducer.program_moments(compile_program(moved, self.table.places, folds=False), self.table)
        return [moments.centred(-pivot, 1.0) for moments, pivot in zip(found, pivots, strict=True)]

    def _pivots(self, columns: Sequence[NumericExpr]) -> list[float]:
        """Return a float32 close to the data of each column, to preserve the precision of a small spread."""
        loaded = [replace(column, transforms=()) for column in columns if column.producer.op == "LOAD"]
        pivots = iter(self._reducer.find_pivots(self._arrays(loaded)))
        values = [apply_transforms(column, next(pivots)) if column.producer.op == "LOAD" else 0.0 for column in columns]
        values = [_table_pivot(column, value) for column, value in zip(columns, values, strict=True)]
        return [float(np.float32(value)) if abs(value) <= FLOAT32_MAX else 0.0 for value in values]

    def quantiles(self, columns: Sequence[NumericExpr], q: list[float]) -> list[list[float]]:
        """Return the quantiles of each column without nulls; 0 if it is empty.

        They are linearly interpolated; with weights, by `weighted_quantiles`.
        """

        def reduce(missing: Sequence[NumericExpr]) -> list[list[float]]:
            found = self._reducer.quantiles(self._arrays(missing), q)
            for column, (moments, _) in zip(missing, found, strict=True):
                if is_source(column):
                    self._memory["moments", identity(column)] = moments
            return [values for _, values in found]

        return self._each(columns, ("quantiles", *q), identity, reduce)

    def medians(self, columns: Sequence[NumericExpr]) -> list[float]:
        """Return the median of each column.

        If all transforms preserve the order of values, the transformed median of the source column is returned, so that
        the source is reduced only once.
        """
        plain = [column.producer.op == "LOAD" and all(map(preserves_order, column.transforms)) for column in columns]
        bases = [replace(c, transforms=()) if is_plain else c for c, is_plain in zip(columns, plain, strict=True)]
        found = self.quantiles(bases, [0.5])
        return [
            apply_transforms(column, median) if is_plain else median
            for column, is_plain, (median,) in zip(columns, plain, found, strict=True)
        ]

    def extremes(self, columns: Sequence[NumericExpr]) -> list[tuple[float, float]]:
        """Return minimum and maximum of the finite values of each column; (0, 0) if there are none."""
        return self._each(columns, "extremes", identity, lambda missing: self._reducer.extremes(self._arrays(missing)))

    def modes(self, columns: Sequence[NumericExpr]) -> list[float]:
        """Return the most frequent value of each column, by weight (the smallest if tied); 0 if it is empty."""
        return self._each(columns, "modes", identity, lambda missing: self._modes(self._arrays(missing)))

    def _modes(self, columns: Sequence[Array]) -> list[float]:
        def mode(x: Array) -> float:
            return find_mode(*count_values(x, self.weights, self.backend.xp), self.backend.to_host)[0]

        return self.backend.map(mode, columns)

    def exponents(self, columns: Sequence[NumericExpr]) -> list[PowerFit]:
        """Return the Yeo-Johnson exponent of each column, with moments if they are those of all rows.

        If there are more than `SAMPLE_ROWS` rows, about that many are sampled, by a hash of the position. The
        search runs on the CPU: it evaluates dozens of exponents, each in a pass over the sample.
        """

        def reduce(missing: Sequence[NumericExpr]) -> list[PowerFit]:
            *samples, weights = self._samples(self._arrays(missing), SAMPLE_ROWS, with_weights=True)
            found = self.backend.map(lambda x: find_exponent(x, weights), samples)
            return found if self.n_rows <= SAMPLE_ROWS else [each._replace(moments=None) for each in found]

        return self._each(columns, "exponents", identity, reduce)

    def distinct_counts(self, columns: Sequence[NumericExpr]) -> list[tuple[int, int]]:
        """Return the number of distinct values of the table column that each expression loads, and in float32.

        The float32 values are those that the program loads, after the center of the expression is subtracted in
        float64. Rows are sampled as for `exponents`, but fewer; rows are counted, not weights.
        """

        def reduce(missing: Sequence[NumericExpr]) -> list[tuple[int, int]]:
            sources = [replace(column, transforms=()) for column in missing]
            centers = [center_of(column.transforms) for column in missing]
            return self._count_distinct(self._arrays(sources), SAMPLE_ROWS // FEWER_FOR_DISTINCT, centers)

        return self._each(columns, "distinct", lambda c: (c.producer.source, center_of(c.transforms)), reduce)

    def _count_distinct(
        self, columns: Sequence[Array], n_sampled: int, centers: Sequence[float]
    ) -> list[tuple[int, int]]:
        samples = self._samples(columns, n_sampled)
        return self.backend.map(lambda own: count_distinct(*own), list(zip(samples, centers, strict=True)))

    def samples(self, columns: Sequence[NumericExpr]) -> list[tuple[Any, Any]]:
        """Return a sample of the values of each column without nulls, and of their weights (None without), on the host.

        The columns are loaded, and filled at most. Up to `SAMPLE_ROWS` rows, the sample has all of them.
        """
        *found, weights = self._samples(self._arrays([replace(c, transforms=()) for c in columns]), SAMPLE_ROWS, True)
        samples = []
        for column, x in zip(columns, found, strict=True):
            for step in column.transforms:
                x = np.where(np.isnan(x), step.params[0], x)
            is_known = ~np.isnan(x)
            samples.append((x[is_known], None if weights is None else weights[is_known]))
        return samples

    def _samples(self, columns: Sequence[Array], n_sampled: int, with_weights: bool = False) -> list[Any]:
        """Return the sample of each column, and of the weights (None without them), on the host."""
        rows = select_sample_rows(0, self.n_rows, self.n_rows, n_sampled, self.backend.xp)
        asked = [*columns, self.weights] if with_weights else columns
        return [None if x is None else self.backend.to_host(x[rows]) for x in asked]

    def values(self, columns: Sequence[NumericExpr]) -> Array:
        """Return the values of columns, float32, shape (len(columns), n_rows), with statistics of all rows."""
        return self._made(list(columns))

    def group_sums(self, number: NumericExpr, group: CategoryExpr) -> list[Array]:
        """Return count, sum, and sum of squares of a number per code of a category, float64, shape (n_codes,).

        Rows in which the number is null do not count; weights do.
        """
        sums = [self._counter.sums([group], power)[0][:, 0] for power in self._powers(number)]
        return [regroup(raw, group) for raw in sums]

    def group_extremes(self, number: NumericExpr, group: CategoryExpr) -> tuple[Array, Array]:
        """Return minimum and maximum of a number per code of a category, float64, NaN where there is none."""
        program = compile_program([number, *code_values([group])], self.table.places, folds=False)
        find = partial(group_extremes, program=program, n_codes=group.n_codes)
        lows, highs = zip(*self.map_tables(find, []), strict=True)
        return np.fmin.reduce(lows), np.fmax.reduce(highs)

    def _powers(self, number: NumericExpr) -> list[Any]:
        """Return the terms of `group_sums`, where the rows are stored."""
        return powers(self.values([number])[0], self.weights, self.backend.xp)

    @property
    def _counter(self) -> CategoryCounter:
        return CategoryCounter(self.table, self.backend, self._engine)

    def map_tables(self, function: Callable[[Backend, Table, list[str]], Value], names: list[str]) -> list[Value]:
        """Return the results of `function` for the named columns of each table that stores the rows."""
        return [function(self.backend, self.table, names)]

    def remember(self, key: Any, make: Callable[[], Value]) -> Value:
        """Return the cached result of `make` for a hashable key; call it the first time."""
        if key not in self._memory:
            self._memory[key] = make()
        found: Value = self._memory[key]
        return found

    def _arrays(self, columns: Sequence[NumericExpr]) -> list[Array]:
        """Return the values of each column, shape (n_rows,): a source as read, others as in the matrix."""
        made = iter(self._made([column for column in columns if not is_source(column)]))
        return [self.table.column(c.producer.source) if is_source(c) else next(made) for c in columns]

    def _made(self, columns: list[NumericExpr]) -> Array:
        """Return the computed values of columns, float32, shape (len(columns), n_rows)."""
        out = self.backend.empty_matrix(self.n_rows, len(columns))
        if columns:
            self.backend.run_program(compile_program(columns, self.table.places, folds=False), self.table.blocks, out)
        return out.T

    def _each(
        self, columns: Sequence[Any], what: Any, key: Callable[[Any], Any], reduce: Callable[[Any], list[Any]]
    ) -> list[Any]:
        """Return the cached result of each column; reduce the missing ones together first.

        `what` is the name of the statistic, with its parameters. `key` returns a cache key, equal for columns with
        equal results. `reduce` returns the results of a list of columns.
        """
        keys = [(what, key(column)) for column in columns]
        missing = {k: column for k, column in zip(keys, columns, strict=True) if k not in self._memory}
        if missing:
            self._memory |= zip(missing, reduce(list(missing.values())), strict=True)
        return [self._memory[k] for k in keys]


def powers(x: Array, weights: Array | None, xp: ArrayNamespace) -> list[Array]:
    """Return the weights of rows with a number, and those times the number and its square; 0 in the others; float64."""
    known = x == x
    weight = known.astype("float64") if weights is None else xp.where(known, weights, 0.0)
    x = xp.where(known, x, 0.0).astype("float64")
    return [weight, weight * x, weight * x * x]


def group_extremes(backend: Backend, table: Table, _: list[str], program: Program, n_codes: int) -> tuple[Array, Array]:
    """Return minimum and maximum of the first column of `program` per value of the second one."""
    out = backend.empty_matrix(table.n_rows, 2)
    backend.run_program(program, table.blocks, out)
    values, codes = backend.to_host(out.T)
    codes = codes.astype(np.int64)
    low, high = np.full(n_codes, np.nan), np.full(n_codes, np.nan)
    np.fmin.at(low, codes, values)
    np.fmax.at(high, codes, values)
    return low, high


def _table_pivot(column: NumericExpr, value: float) -> float:
    """Return the median of a float64 lookup table whose values are unchanged, else `value`."""
    table = column.producer.table
    return (
        float(np.nanmedian(table))
        if table is not None and table.dtype == np.float64 and not column.transforms
        else value
    )


def count_values(x: Array, weights: Array | None, xp: ArrayNamespace) -> tuple[Array, Array]:
    """Return the distinct values of `x`, ascending, without NaN, and the row count or weight sum of each."""
    known = ~xp.isnan(x)
    present = x[known]
    if weights is None or not len(present):  # CuPy's bincount refuses empty arrays (CuPy 14)
        values, counts = xp.unique(present, return_counts=True)
    else:
        values, place = xp.unique(present, return_inverse=True)
        counts = xp.bincount(place, weights[known])
    return values, counts


def find_mode(values: Array, counts: Array, to_host: Callable[[Array], Any] = np.asarray) -> tuple[float, float]:
    """Return the value with the highest count (the smallest if tied) and that count; (0, 0) without values.

    Weight sums whose relative difference is at most `WEIGHT_RESOLUTION` are tied.
    """
    if not len(values):
        return 0.0, 0
    most = counts.max()
    value = to_host(values[counts >= most * (1 - WEIGHT_RESOLUTION)].min())
    return float(value) + 0.0, to_host(most).item()  # + 0.0 turns -0.0 into 0.0


def select_sample_rows(start: int, stop: int, n_rows: int, n_sampled: int, xp: ArrayNamespace) -> Array | slice:
    """Return an index into rows start..stop of `n_rows` that selects about `n_sampled` of more than `SAMPLE_ROWS`."""
    if n_rows <= SAMPLE_ROWS:
        return slice(None)
    return xp.flatnonzero(mix(xp.arange(start, stop, dtype=np.uint32)) < np.uint32(2**32 * n_sampled // n_rows))
