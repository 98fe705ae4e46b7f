"""One-pass reductions of numeric columns: moments, null counts, extremes and quantiles."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.statistics.moments import Moments, find_pivot
from gpupipe.features.statistics.quantiles import (
    Bracket,
    compute_quantiles,
    find_brackets,
    merge_brackets,
    read_brackets,
)
from gpupipe.features.statistics.row_blocks import ROWS_PER_BLOCK, map_row_blocks
from gpupipe.table.blocks import Table
from gpupipe.typing import Array
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.reduce.engine import LANES, ReductionEngine


@dataclass(frozen=True)
class PassResult:
    """The result of one pass over some rows of a column.

    `n`, `n_null` and `null_weight` are as in `Moments`. `first` and `second` are the (weighted) sums of the deviations
    from the pivot and of their squares.
    """

    n: float
    n_null: int
    null_weight: float
    first: float
    second: float
    brackets: list[Bracket]


class Reducer:
    """Reductions of numeric columns, float32 or float64, shape (n_rows,).

    A subclass for rows that are stored elsewhere overrides `find_pivots`, `find_brackets` and `select_quantiles`, as
    well as `reduce_columns`, `reduce_program` and `reduce_extremes`, which return the results of the row blocks of each
    column, in order. The other methods merge these results in the same way for all subclasses.
    """

    def __init__(self, backend: Backend, engine: ReductionEngine) -> None:
        self.backend, self.engine = backend, engine
        self._scratch = _Scratch()

    def moments(self, columns: Sequence[Array]) -> list[Moments]:
        """Return the moments of each column."""
        pivots = self.find_pivots(columns)
        found = self.reduce_columns(columns, pivots, [None] * len(columns))
        return [_moments(pivot, parts) for pivot, parts in zip(pivots, found, strict=True)]

    def program_moments(self, program: Program, table: Table) -> list[Moments]:
        """Return the moments of each column of a program, computed block by block without storing the values."""
        return [_moments(0.0, parts) for parts in self.reduce_program(program, table)]

    def quantiles(self, columns: Sequence[Array], shares: Sequence[float]) -> list[tuple[Moments, list[float]]]:
        """Return the moments and quantiles of each column; quantiles are 0 if all values are null."""
        pivots = self.find_pivots(columns)
        found = self.reduce_columns(columns, pivots, self.find_brackets(columns, shares))
        moments = [_moments(pivot, parts) for pivot, parts in zip(pivots, found, strict=True)]
        brackets = [
            [merge_brackets(same) for same in zip(*(part.brackets for part in parts), strict=True)] for parts in found
        ]
        nulls = [m.n_null for m in moments]
        return list(zip(moments, self.select_quantiles(columns, nulls, shares, brackets), strict=True))

    def extremes(self, columns: Sequence[Array]) -> list[tuple[float, float]]:
        """Return the smallest and the largest finite value of each column; (0, 0) if there are none."""
        return [_widest(parts) for parts in self.reduce_extremes(columns)]

    def find_pivots(self, columns: Sequence[Array]) -> list[float]:
        """Return the pivot of each column (see `gpupipe.features.statistics.moments.find_pivot`)."""
        return [find_pivot(x) for x in columns]  # reads few rows: faster without threads

    def find_brackets(self, columns: Sequence[Array], shares: Sequence[float]) -> Sequence[Array | None]:
        """Return limits that very probably enclose the quantiles of each column (see `quantiles.find_brackets`)."""
        return self.backend.map(lambda x: find_brackets(x, shares, self.engine), columns)

    def select_quantiles(
        self,
        columns: Sequence[Array],
        nulls: Sequence[int],
        shares: Sequence[float],
        brackets: Sequence[Sequence[Bracket]],
    ) -> list[list[float]]:
        """Return the quantiles of each column, given its brackets."""

        def select(at: int) -> list[float]:
            return compute_quantiles(columns[at], nulls[at], shares, brackets[at], self.engine)

        return self.backend.map(select, range(len(columns)))

    def reduce_columns(
        self, columns: Sequence[Array], pivots: Sequence[float], given: Sequence[Array | None]
    ) -> list[list[PassResult]]:
        """Return the pass results of each column, around its pivot and with the bracket limits `given`."""
        plans = list(zip(columns, pivots, given, strict=True))
        return map_row_blocks(self.backend, self._reduce, plans, len(columns[0]) if columns else 0)

    def reduce_program(self, program: Program, table: Table) -> list[list[PassResult]]:
        """Return the pass results of each column of a program, around 0."""

        def reduce(program: Program, start: int, stop: int) -> list[PassResult]:
            blocks = {name: block[:, start:stop] for name, block in table.blocks.items()}
            out = self._scratch.matrix(self.backend, stop - start, program.n_columns)
            self.backend.run_program(program, blocks, out)
            return [self._reduce((x, 0.0, None), 0, len(x)) for x in out.T]

        (parts,) = map_row_blocks(self.backend, reduce, [program], table.n_rows)
        return [list(found) for found in zip(*parts, strict=True)]

    def reduce_extremes(self, columns: Sequence[Array]) -> list[list[tuple[float, float]]]:
        """Return the smallest and the largest finite value per column and block; (inf, -inf) if there are none."""
        return map_row_blocks(self.backend, _extremes, columns, len(columns[0]) if columns else 0)

    def _reduce(self, plan: tuple[Array, float, Array | None], start: int, stop: int) -> PassResult:
        column, pivot, given = plan
        x = column[start:stop]
        given = np.empty((0, 2), x.dtype) if given is None else given
        k = len(given)
        sums = np.zeros((2, LANES))
        out = self._scratch.of(k, x)
        found = np.zeros((k, 2), np.int64)
        n, n_null = self.engine.sweep(x, pivot, sums, given, out, found)
        first, second = sums.sum(axis=1).tolist()
        return PassResult(n, n_null, n_null, first, second, read_brackets(given, out, found))


class _Scratch(threading.local):
    """Scratch memory that each thread reuses for all blocks."""

    cells = np.empty(0, np.uint8)
    made: Array | None = None

    def matrix(self, backend: Backend, n_rows: int, n_columns: int) -> Array:
        """Return an uninitialized matrix of at most `ROWS_PER_BLOCK` rows, float32, column-major."""
        if self.made is None or self.made.shape[1] < n_columns:
            self.made = backend.empty_matrix(ROWS_PER_BLOCK, n_columns)
        matrix: Array = self.made[:n_rows, :n_columns]
        return matrix

    def of(self, k: int, x: Array) -> Array:
        """Return an uninitialized array of shape (k, len(x)) and the dtype of `x`."""
        if self.cells.size < k * x.nbytes:
            self.cells = np.empty(k * x.nbytes, np.uint8)
        cells: Array = self.cells[: k * x.nbytes].view(x.dtype).reshape(k, len(x))
        return cells


def _moments(pivot: float, parts: Sequence[PassResult]) -> Moments:
    first, second = math.fsum(part.first for part in parts), math.fsum(part.second for part in parts)
    n, null_weight = math.fsum(part.n for part in parts), math.fsum(part.null_weight for part in parts)
    return Moments.of_sums(n, sum(part.n_null for part in parts), null_weight, pivot, first, second)


def _extremes(x: Array, start: int, stop: int) -> tuple[float, float]:
    x = x[start:stop]
    low, high = np.fmin.reduce(x, initial=np.inf), np.fmax.reduce(x, initial=-np.inf)
    if low == -np.inf or high == np.inf:
        x = x[np.isfinite(x)]
        low, high = x.min(initial=np.inf), x.max(initial=-np.inf)
    return float(low), float(high)


def _widest(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    low, high = min(low for low, _ in parts), max(high for _, high in parts)
    return (low + 0.0, high + 0.0) if low <= high else (0.0, 0.0)  # + 0.0 turns -0.0 into 0.0
