"""Numbers reduced in one pass over the rows: moments, nulls, and what lies where a quantile is looked for."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.statistics.moments import Moments, value_amid
from gpupipe.features.statistics.quantiles import Inside, brackets, insides, joined, quantiles
from gpupipe.features.statistics.row_blocks import ROWS_A_PART, over_parts
from gpupipe.table.blocks import Table
from gpupipe.typing import Array
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.reduce.engine import LANES, ReductionEngine


@dataclass(frozen=True)
class Found:
    """What some rows of a column have.

    Attributes
    ----------
    n, n_null : int
        Values that were added up; NaN.
    first, second : float
        The sums of their distances from the pivot, and of the squares of those.
    inside : list of Inside
        In each bracket.
    """

    n: int
    n_null: int
    first: float
    second: float
    inside: list[Inside]


class Sweeper:
    """Reductions of columns of numbers, float32 or float64, shape (n_rows,).

    Where the rows are is up to the methods that are called `amid`, `brackets`, `selected` and `found...`: they answer
    for each column, those called `found...` with a list of what the parts of the rows have, in their order. The others
    put that together, and do it alike wherever the rows are.

    Parameters
    ----------
    backend : Backend
    engine : ReductionEngine
    """

    def __init__(self, backend: Backend, engine: ReductionEngine) -> None:
        self.backend, self.engine = backend, engine
        self._room = _Room()

    def moments(self, columns: Sequence[Array]) -> list[Moments]:
        """Return the moments of each column."""
        pivots = self.amid(columns)
        found = self.found(columns, pivots, [None] * len(columns))
        return [_moments(pivot, parts) for pivot, parts in zip(pivots, found, strict=True)]

    def moments_made(self, program: Program, table: Table) -> list[Moments]:
        """Return the moments of each column that a program makes; part by part they are made, and left."""
        engine = self.backend.interpreter(program, table.n_rows)  # one for all parts: the bytes do not depend on them
        return [_moments(0.0, parts) for parts in self.found_made(program, table, engine)]

    def quantiles(self, columns: Sequence[Array], shares: Sequence[float]) -> list[tuple[Moments, list[float]]]:
        """Return the moments of each column, and its quantiles, which are 0 if all is null."""
        pivots = self.amid(columns)
        found = self.found(columns, pivots, self.brackets(columns, shares))
        moments = [_moments(pivot, parts) for pivot, parts in zip(pivots, found, strict=True)]
        inside = [[joined(b) for b in zip(*(part.inside for part in parts), strict=True)] for parts in found]
        nulls = [m.n_null for m in moments]
        return list(zip(moments, self.selected(columns, nulls, shares, inside), strict=True))

    def extremes(self, columns: Sequence[Array]) -> list[tuple[float, float]]:
        """Return the least and the greatest finite value of each column; 0 and 0 if there is none."""
        return [_widest(parts) for parts in self.found_extremes(columns)]

    def amid(self, columns: Sequence[Array]) -> list[float]:
        """Return a value near the first of each column (see `value_amid`)."""
        return [value_amid(x) for x in columns]  # of few rows each: sooner done than handed to threads

    def brackets(self, columns: Sequence[Array], shares: Sequence[float]) -> Sequence[Array | None]:
        """Return brackets that very probably contain the quantiles of each column: see `quantiles.brackets`."""
        return self.backend.map(lambda x: brackets(x, shares, self.engine), columns)

    def selected(
        self,
        columns: Sequence[Array],
        nulls: Sequence[int],
        shares: Sequence[float],
        inside: Sequence[Sequence[Inside]],
    ) -> list[list[float]]:
        """Return the quantiles of each column by what lies in its brackets."""

        def select(at: int) -> list[float]:
            return quantiles(columns[at], nulls[at], shares, inside[at], self.engine)

        return self.backend.map(select, range(len(columns)))

    def found(
        self, columns: Sequence[Array], pivots: Sequence[float], given: Sequence[Array | None]
    ) -> list[list[Found]]:
        """Return what each column has around a pivot and, if any are given, in its brackets."""
        plans = list(zip(columns, pivots, given, strict=True))
        return over_parts(self.backend, self._sweep, plans, len(columns[0]) if columns else 0)

    def found_made(self, program: Program, table: Table, engine: str) -> list[list[Found]]:
        """Return what each column has that an interpreter makes, around 0."""

        def sweep(program: Program, start: int, stop: int) -> list[Found]:
            blocks = {name: block[:, start:stop] for name, block in table.blocks.items()}
            out = self._room.matrix(self.backend, stop - start, program.n_columns)
            self.backend.run_program(program, blocks, out, engine=engine)
            return [self._sweep((x, 0.0, None), 0, len(x)) for x in out.T]

        (parts,) = over_parts(self.backend, sweep, [program], table.n_rows)
        return [list(found) for found in zip(*parts, strict=True)]

    def found_extremes(self, columns: Sequence[Array]) -> list[list[tuple[float, float]]]:
        """Return the least and the greatest finite value of each column; inf and -inf of a part without one."""
        return over_parts(self.backend, _extremes, columns, len(columns[0]) if columns else 0)

    def _sweep(self, plan: tuple[Array, float, Array | None], start: int, stop: int) -> Found:
        column, pivot, given = plan
        x = column[start:stop]
        given = np.empty((0, 2), x.dtype) if given is None else given
        k = len(given)
        sums, out, found = np.zeros((2, LANES)), self._room.of(k, x), np.zeros((k, 2), np.int64)
        n, n_null = self.engine.sweep(x, pivot, sums, given, out, found)
        first, second = sums.sum(axis=1).tolist()
        return Found(n, n_null, first, second, insides(given, out, found))


class _Room(threading.local):
    """Memory that a thread uses for part after part: little of it is written, and new memory would cost more."""

    cells = np.empty(0, np.uint8)
    made: Array | None = None

    def matrix(self, backend: Backend, n_rows: int, n_columns: int) -> Array:
        """Return a matrix of a part of the rows at most, float32, column-major."""
        if self.made is None or self.made.shape[1] < n_columns:
            self.made = backend.empty_matrix(ROWS_A_PART, n_columns)
        matrix: Array = self.made[:n_rows, :n_columns]
        return matrix

    def of(self, k: int, x: Array) -> Array:
        """Return an array of shape (k, len(x)) of the dtype of `x`."""
        if self.cells.size < k * x.nbytes:
            self.cells = np.empty(k * x.nbytes, np.uint8)
        cells: Array = self.cells[: k * x.nbytes].view(x.dtype).reshape(k, len(x))
        return cells


def _moments(pivot: float, parts: Sequence[Found]) -> Moments:
    first, second = math.fsum(part.first for part in parts), math.fsum(part.second for part in parts)
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
