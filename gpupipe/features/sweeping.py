"""Numbers reduced in one pass over the rows: moments, nulls, and what lies where a quantile is looked for."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.moments import Moments, value_amid
from gpupipe.features.parts import over_parts
from gpupipe.features.quantiles import Inside, brackets, insides, joined, quantiles
from gpupipe.table.blocks import Table
from gpupipe_kernels.program import Program
from gpupipe_kernels.reduce.engines import LANES, Engine

Array = Any

MOST_ROWS_MADE = 524_288  # by a program at once


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is asked of a column: its sums around `pivot`, and what it has in some brackets."""

    x: Array
    pivot: float
    brackets: Array


@dataclass(frozen=True)
class _Found:
    """What some rows of a column have; `sums` as in `Engine.sweep`."""

    n: int
    n_null: int
    sums: Array
    inside: list[Inside]


class Sweeper:
    """Reductions of columns of numbers, float32 or float64, shape (n_rows,).

    Parameters
    ----------
    backend : Backend
    engine : Engine
    """

    def __init__(self, backend: Backend, engine: Engine) -> None:
        self.backend, self.engine = backend, engine
        self._room = _Room()

    def moments(self, columns: Sequence[Array]) -> list[Moments]:
        """Return the moments of each column."""
        plans = [_Plan(x, value_amid(x), _no_brackets(x)) for x in columns]
        found = over_parts(self.backend, self._sweep, plans, len(columns[0]) if columns else 0)
        return [_moments(plan.pivot, parts) for plan, parts in zip(plans, found, strict=True)]

    def moments_made(self, program: Program, table: Table) -> list[Moments]:
        """Return the moments of each column that a program makes; part by part they are made, and left."""

        def sweep(program: Program, start: int, stop: int) -> list[_Found]:
            blocks = {name: block[:, start:stop] for name, block in table.blocks.items()}
            out = self._room.matrix(self.backend, stop - start, program.n_columns)
            self.backend.run_program(program, blocks, out)
            return [self._sweep(_Plan(x, 0.0, _no_brackets(x)), 0, len(x)) for x in out.T]

        # Each part starts the interpreter: parts are long, and as many threads as possible get an equal share.
        height = -(-table.n_rows // -(-max(1, table.n_rows) // MOST_ROWS_MADE)) or 1
        (parts,) = over_parts(self.backend, sweep, [program], table.n_rows, [height])
        return [_moments(0.0, found) for found in zip(*parts, strict=True)]

    def quantiles(self, columns: Sequence[Array], shares: Sequence[float]) -> list[tuple[Moments, list[float]]]:
        """Return the moments of each column, and its quantiles, which are 0 if all is null."""
        plans = self.backend.map(lambda x: _Plan(x, value_amid(x), brackets(x, shares, self.engine)), columns)
        found = over_parts(self.backend, self._sweep, plans, len(columns[0]) if columns else 0)

        def finish(at: int) -> tuple[Moments, list[float]]:
            plan, parts = plans[at], found[at]
            moments = _moments(plan.pivot, parts)
            inside = [joined(pieces) for pieces in zip(*(part.inside for part in parts), strict=True)]
            return moments, quantiles(plan.x, moments.n_null, shares, inside, self.engine)

        return self.backend.map(finish, range(len(plans)))

    def extremes(self, columns: Sequence[Array]) -> list[tuple[float, float]]:
        """Return the least and the greatest finite value of each column; 0 and 0 if there is none."""
        found = over_parts(self.backend, _extremes, columns, len(columns[0]) if columns else 0)
        return [_widest(parts) for parts in found]

    def _sweep(self, plan: _Plan, start: int, stop: int) -> _Found:
        x, k = plan.x[start:stop], len(plan.brackets)
        sums, out, found = np.zeros((2, LANES)), self._room.of(k, x), np.zeros((k, 2), np.int64)
        n, n_null = self.engine.sweep(x, plan.pivot, sums, plan.brackets, out, found)
        return _Found(n, n_null, sums, insides(plan.brackets, out, found))


class _Room(threading.local):
    """Memory that a thread uses for part after part: little of it is written, and new memory would cost more."""

    cells = np.empty(0, np.uint8)
    made: Array = None

    def matrix(self, backend: Backend, n_rows: int, n_columns: int) -> Array:
        """Return a matrix of a part of the rows at most, float32, column-major."""
        if self.made is None or self.made.shape[1] < n_columns:
            self.made = backend.empty_matrix(MOST_ROWS_MADE, n_columns)
        return self.made[:n_rows, :n_columns]

    def of(self, k: int, x: Array) -> Array:
        """Return an array of shape (k, len(x)) of the dtype of `x`."""
        if self.cells.size < k * x.nbytes:
            self.cells = np.empty(k * x.nbytes, np.uint8)
        return self.cells[: k * x.nbytes].view(x.dtype).reshape(k, len(x))


def _no_brackets(x: Array) -> Array:
    return np.empty((0, 2), x.dtype)


def _moments(pivot: float, parts: Sequence[_Found]) -> Moments:
    first, second = np.add.reduce([part.sums for part in parts], axis=0).sum(axis=1).tolist()
    return Moments.of_sums(sum(part.n for part in parts), sum(part.n_null for part in parts), pivot, first, second)


def _extremes(x: Array, start: int, stop: int) -> tuple[float, float]:
    x = x[start:stop]
    low, high = np.fmin.reduce(x, initial=np.inf), np.fmax.reduce(x, initial=-np.inf)
    if low == -np.inf or high == np.inf:
        x = x[np.isfinite(x)]
        low, high = x.min(initial=np.inf), x.max(initial=-np.inf)
    return float(low), float(high)


def _widest(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    low, high = min(low for low, _ in parts), max(high for _, high in parts)
    return (low + 0.0, high + 0.0) if low <= high else (0.0, 0.0)  # the zero of either sign is the same one
