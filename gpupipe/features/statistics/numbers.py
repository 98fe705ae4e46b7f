"""Reductions of numbers over the training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.program.compile import compile_program
from gpupipe.features.program.expressions import NumericExpr
from gpupipe.features.program.transforms import (
    apply_transforms,
    identity,
    is_source,
    preserves_order,
    split_affine_tail,
    transform_moments,
)
from gpupipe.features.statistics.device import make_reducer
from gpupipe.features.statistics.moments import Moments
from gpupipe.features.statistics.power_exponent import find_exponent
from gpupipe.features.statistics.reductions import Reducer
from gpupipe.table.blocks import Table
from gpupipe.typing import Array, ArrayNamespace
from gpupipe_kernels.formulas.hashes import mix
from gpupipe_kernels.reduce.engine import FLOAT32_MAX

EXPONENT_SAMPLE_ROWS = 2**17  # its standard error is then some thousandths, and more rows cost as much as a model


class NumberStatistics:
    """Reductions of the numeric columns over the rows of `table`; what has been reduced is remembered.

    Parameters
    ----------
    table : Table
    backend : Backend
    engine : {"numpy", "numba"}, optional
        What reduces; without it, compiled loops do where they pay.
    """

    def __init__(self, table: Table, backend: Backend, engine: str | None = None) -> None:
        self.table, self.backend = table, backend
        self._engine = backend.reductions(table.n_rows * table.n_columns, engine)
        self._memory: dict[Any, Any] = {}

    @cached_property
    def _reducer(self) -> Reducer:
        return make_reducer(self.backend, self._engine)

    @property
    def n_rows(self) -> int:
        """Training rows."""
        return self.table.n_rows

    def moments(self, columns: Sequence[NumericExpr]) -> list[tuple[float, float]]:
        """Return mean and standard deviation (population) of each column, nulls left out; (0, 0) of an empty one."""
        return [(found.mean, found.deviation) for found in self._moments(columns)]

    def null_counts(self, columns: Sequence[NumericExpr]) -> list[int]:
        """Return the number of nulls of each column."""
        filled = [any(step.op == "FILL" for step in split_affine_tail(column)[1]) for column in columns]
        found = iter(self._moments([column for column, full in zip(columns, filled, strict=True) if not full]))
        return [0 if full else next(found).n_null for full in filled]

    def _moments(self, columns: Sequence[NumericExpr]) -> list[Moments]:
        """Return the moments of each column: those of what its last steps fill and scale, filled and scaled."""
        split = [split_affine_tail(column) for column in columns]
        bases = [base for base, _ in split]
        self._each([base for base in bases if is_source(base)], "moments", identity, self._read_moments)
        self._each([base for base in bases if not is_source(base)], "moments", identity, self._made_moments)
        return [transform_moments(self._memory["moments", identity(base)], base, steps) for base, steps in split]

    def _read_moments(self, columns: Sequence[NumericExpr]) -> list[Moments]:
        return self._reducer.moments(self._arrays(columns))

    def _made_moments(self, columns: Sequence[NumericExpr]) -> list[Moments]:
        # They are moved to 0 first, while they have the precision of their sources.
        pivots = self._pivots(columns)
        moved = [column.then("CENTER", pivot, 1.0) for column, pivot in zip(columns, pivots, strict=True)]
        found = self._reducer.program_moments(compile_program(moved, self.table.places, folds=False), self.table)
        return [moments.centred(-pivot, 1.0) for moments, pivot in zip(found, pivots, strict=True)]

    def _pivots(self, columns: Sequence[NumericExpr]) -> list[float]:
        """Return a float32 near the data of each, so that a large mean does not drown a small spread."""
        loaded = [replace(column, transforms=()) for column in columns if column.producer.op == "LOAD"]
        pivots = iter(self._reducer.find_pivots(self._arrays(loaded)))
        values = [apply_transforms(column, next(pivots)) if column.producer.op == "LOAD" else 0.0 for column in columns]
        return [float(np.float32(value)) if abs(value) <= FLOAT32_MAX else 0.0 for value in values]

    def quantiles(self, columns: Sequence[NumericExpr], q: list[float]) -> list[list[float]]:
        """Return the quantiles of each column, linearly interpolated, nulls left out; 0 of an empty one."""

        def reduce(missing: Sequence[NumericExpr]) -> list[list[float]]:
            found = self._reducer.quantiles(self._arrays(missing), q)
            for column, (moments, _) in zip(missing, found, strict=True):
                if is_source(column):
                    self._memory["moments", identity(column)] = moments
            return [values for _, values in found]

        return self._each(columns, ("quantiles", *q), identity, reduce)

    def medians(self, columns: Sequence[NumericExpr]) -> list[float]:
        """Return the median of each column.

        Where all steps keep the order of values, the median of a chain is the chain of the median, and that of a source
        column is reduced once however many columns are made of it.
        """
        plain = [column.producer.op == "LOAD" and all(map(preserves_order, column.transforms)) for column in columns]
        bases = [replace(c, transforms=()) if is_plain else c for c, is_plain in zip(columns, plain, strict=True)]
        found = self.quantiles(bases, [0.5])
        return [
            apply_transforms(column, median) if is_plain else median
            for column, is_plain, (median,) in zip(columns, plain, found, strict=True)
        ]

    def extremes(self, columns: Sequence[NumericExpr]) -> list[tuple[float, float]]:
        """Return minimum and maximum of each column over its finite values; (0, 0) of an empty one."""
        return self._each(columns, "extremes", identity, lambda missing: self._reducer.extremes(self._arrays(missing)))

    def modes(self, columns: Sequence[NumericExpr]) -> list[float]:
        """Return the most frequent value of each column, the least of several; 0 of an empty one."""
        return self._each(columns, "modes", identity, lambda missing: self._modes(self._arrays(missing)))

    def _modes(self, columns: Sequence[Array]) -> list[float]:
        def mode(x: Array) -> float:
            values, counts = self.backend.xp.unique(x[~self.backend.xp.isnan(x)], return_counts=True)
            return find_mode(values, counts, self.backend.to_host)[0]

        return self.backend.map(mode, columns)

    def exponents(self, columns: Sequence[NumericExpr]) -> list[tuple[float, bool]]:
        """Return the exponent of the Yeo-Johnson transformation of each column, and whether float32 limits it.

        Of more than `EXPONENT_SAMPLE_ROWS` rows, about that many are sampled, by a hash of the position. The host
        works on those: an exponent is found by trying dozens of it, each a pass over few rows.
        """

        def reduce(missing: Sequence[NumericExpr]) -> list[tuple[float, bool]]:
            return self.backend.map(find_exponent, self._exponent_samples(self._arrays(missing)))

        return self._each(columns, "exponents", identity, reduce)

    def _exponent_samples(self, columns: Sequence[Array]) -> list[Array]:
        """Return the rows of each column that its exponent is found of, on the host."""
        rows = select_exponent_rows(0, self.n_rows, self.n_rows, self.backend.xp)
        return [self.backend.to_host(x[rows]) for x in columns]

    def _arrays(self, columns: Sequence[NumericExpr]) -> list[Array]:
        """Return each column, shape (n_rows,): a source as it was read, another as it will be in the matrix."""
        made = iter(self._made([column for column in columns if not is_source(column)]))
        return [self.table.column(c.producer.source) if is_source(c) else next(made) for c in columns]

    def _made(self, columns: list[NumericExpr]) -> Array:
        """Return columns as they will be in the matrix, float32, shape (len(columns), n_rows)."""
        out = self.backend.empty_matrix(self.n_rows, len(columns))
        if columns:
            self.backend.run_program(compile_program(columns, self.table.places, folds=False), self.table.blocks, out)
        return out.T

    def _each(
        self, columns: Sequence[Any], what: Any, key: Callable[[Any], Any], reduce: Callable[[Any], list[Any]]
    ) -> list[Any]:
        """Return what is known of each column, after reducing together those of which it is not.

        Parameters
        ----------
        what : hashable
            What is asked.
        key : callable
            Tells whose answer is the same.
        reduce : callable
            Answers for a list of columns.
        """
        keys = [(what, key(column)) for column in columns]
        missing = {k: column for k, column in zip(keys, columns, strict=True) if k not in self._memory}
        if missing:
            self._memory |= zip(missing, reduce(list(missing.values())), strict=True)
        return [self._memory[k] for k in keys]


def find_mode(values: Array, counts: Array, to_host: Callable[[Array], Any] = np.asarray) -> tuple[float, int]:
    """Return the value of the highest count, the least of several, and that count; 0 and 0 of no values."""
    if not len(values):
        return 0.0, 0
    most = counts.max()
    return float(to_host(values[counts == most].min())) + 0.0, int(to_host(most))  # of two zeros that without a sign


def select_exponent_rows(start: int, stop: int, n_rows: int, xp: ArrayNamespace) -> Array | slice:
    """Return which of the rows start..stop of so many an exponent is found of: an index for arrays of those rows."""
    if n_rows <= EXPONENT_SAMPLE_ROWS:
        return slice(None)
    return mix(xp.arange(start, stop, dtype=np.uint32)) < np.uint32(2**32 * EXPONENT_SAMPLE_ROWS // n_rows)
