"""Reductions of numbers over the training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.chains import carried, followed, is_source, key, settled
from gpupipe.features.columns import Numbers
from gpupipe.features.device_sweeping import DeviceSweeper
from gpupipe.features.fit_power import exponent
from gpupipe.features.lower import lower
from gpupipe.features.moments import Moments, value_amid
from gpupipe.features.parts import is_on_device
from gpupipe.features.sweeping import Sweeper
from gpupipe.table.blocks import Table
from gpupipe_kernels.formulas.hashing import mix
from gpupipe_kernels.reduce.engines import FLOAT32_MAX

Array = Any

ROWS_OF_AN_EXPONENT = 2**17  # its standard error is then some thousandths, and more rows cost as much as a model


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
        self._sweeper = (DeviceSweeper if is_on_device(backend) else Sweeper)(backend, self._engine)
        self._memory: dict[Any, Any] = {}

    @property
    def n_rows(self) -> int:
        """Training rows."""
        return self.table.n_rows

    def moments(self, columns: Sequence[Numbers]) -> list[tuple[float, float]]:
        """Return mean and standard deviation (population) of each column, nulls left out; (0, 0) of an empty one."""
        return [(found.mean, found.deviation) for found in self._moments(columns)]

    def null_counts(self, columns: Sequence[Numbers]) -> list[int]:
        """Return the number of nulls of each column."""
        filled = [any(step.op == "FILL" for step in settled(column)[1]) for column in columns]
        found = iter(self._moments([column for column, full in zip(columns, filled, strict=True) if not full]))
        return [0 if full else next(found).n_null for full in filled]

    def _moments(self, columns: Sequence[Numbers]) -> list[Moments]:
        """Return the moments of each column: those of what its last steps fill and scale, filled and scaled."""
        split = [settled(column) for column in columns]
        bases = [base for base, _ in split]
        self._each([base for base in bases if is_source(base)], "moments", key, self._read_moments)
        self._each([base for base in bases if not is_source(base)], "moments", key, self._made_moments)
        return [carried(self._memory["moments", key(base)], base, steps) for base, steps in split]

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
        value = followed(column, value_amid(self.table.column(column.start.source), self.backend.to_host))
        return float(np.float32(value)) if abs(value) <= FLOAT32_MAX else 0.0

    def quantiles(self, columns: Sequence[Numbers], q: list[float]) -> list[list[float]]:
        """Return the quantiles of each column, linearly interpolated, nulls left out; 0 of an empty one."""

        def reduce(missing: Sequence[Numbers]) -> list[list[float]]:
            found = self._sweeper.quantiles(self._arrays(missing), q)
            for column, (moments, _) in zip(missing, found, strict=True):
                if is_source(column):
                    self._memory["moments", key(column)] = moments
            return [values for _, values in found]

        return self._each(columns, ("quantiles", *q), key, reduce)

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
        return self._each(columns, "extremes", key, lambda missing: self._sweeper.extremes(self._arrays(missing)))

    def modes(self, columns: Sequence[Numbers]) -> list[float]:
        """Return the most frequent value of each column, the least of several; 0 of an empty one."""
        return self._each(columns, "modes", key, lambda missing: self.backend.map(self._mode, self._arrays(missing)))

    def _mode(self, values: Array) -> float:
        found, counts = self.backend.xp.unique(values[~self.backend.xp.isnan(values)], return_counts=True)
        return float(self.backend.to_host(found[counts == counts.max()].min())) if len(found) else 0.0

    def exponents(self, columns: Sequence[Numbers]) -> list[tuple[float, bool]]:
        """Return the exponent of the Yeo-Johnson transformation of each column, and whether float32 limits it.

        Of more than `ROWS_OF_AN_EXPONENT` rows, about so many are taken: a hash of the position chooses them. The host
        works on those: an exponent is found by trying dozens of it, each a pass over few rows.
        """

        def reduce(missing: Sequence[Numbers]) -> list[tuple[float, bool]]:
            rows: Any = slice(None)
            if self.n_rows > ROWS_OF_AN_EXPONENT:
                chosen = mix(self.backend.xp.arange(self.n_rows, dtype=np.uint32))
                rows = chosen < np.uint32(2**32 * ROWS_OF_AN_EXPONENT // self.n_rows)
            taken = (self.backend.to_host(values[rows]) for values in self._arrays(missing))
            return self.backend.map(exponent, taken)

        return self._each(columns, "exponents", key, reduce)

    def _arrays(self, columns: Sequence[Numbers]) -> list[Array]:
        """Return each column, shape (n_rows,): a source as it was read, another as it will be in the matrix."""
        made = iter(self._made([column for column in columns if not is_source(column)]))
        return [self.table.column(c.start.source) if is_source(c) else next(made) for c in columns]

    def _made(self, columns: list[Numbers]) -> Array:
        """Return columns as they will be in the matrix, float32, shape (len(columns), n_rows)."""
        out = self.backend.empty_matrix(self.n_rows, len(columns))
        if columns:
            self.backend.run_program(lower(columns, self.table.places, folds=False), self.table.blocks, out)
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
