"""Reductions of numeric columns with row weights: moments and quantiles, with NumPy or CuPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpupipe.backends.weighted_quantiles import weighted_quantiles
from gpupipe.features.statistics.moments import Moments
from gpupipe.features.statistics.reductions import PassResult, Reducer
from gpupipe.features.statistics.row_blocks import map_row_blocks
from gpupipe.table.blocks import Table
from gpupipe.typing import Array
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.reduce.engine import FLOAT32_MAX

DEVICE_ROWS = 2**22  # per block on a GPU: 32 MiB for each temporary array


def distinct_weights(weights: Array | None) -> Array | None:
    """Return weights as float64, or None if all are 1, so that results equal those without weights to the last bit."""
    if weights is None:
        return None
    weights = np.asarray(weights, np.float64)
    return None if (weights == 1.0).all() else weights


class WeightedReducer(Reducer):
    """The reductions of `Reducer` with a weight for each row; extremes do not depend on the weights.

    Floats are summed in blocks of rows that do not depend on the number of threads. `plain` reduces without weights.
    `weights` are positive, float64, shape (n_rows,), on the device of the columns.
    """

    def __init__(self, plain: Reducer, weights: Array) -> None:
        super().__init__(plain.backend, plain.engine)
        self.plain, self.weights = plain, weights

    def quantiles(self, columns: Sequence[Array], shares: Sequence[float]) -> list[tuple[Moments, list[float]]]:
        """Return the moments and `weighted_quantiles` of each column."""
        found = self.backend.map(lambda x: weighted_quantiles(x, self.weights, shares, self.backend), columns)
        return list(zip(self.moments(columns), found, strict=True))

    def find_pivots(self, columns: Sequence[Array]) -> list[float]:
        """See `Reducer.find_pivots`."""
        return self.plain.find_pivots(columns)

    def reduce_columns(
        self, columns: Sequence[Array], pivots: Sequence[float], given: Sequence[Array | None]
    ) -> list[list[PassResult]]:
        """See `Reducer.reduce_columns`; weighted quantiles need no brackets, so `given` is ignored."""

        def reduce(plan: tuple[Array, float], start: int, stop: int) -> PassResult:
            column, pivot = plan
            return self._sums(column[start:stop], pivot, self.weights[start:stop])

        plans = list(zip(columns, pivots, strict=True))
        return map_row_blocks(self.backend, reduce, plans, len(self.weights), device_rows=DEVICE_ROWS)

    def reduce_program(self, program: Program, table: Table) -> list[list[PassResult]]:
        """See `Reducer.reduce_program`."""

        def reduce(program: Program, start: int, stop: int) -> list[PassResult]:
            blocks = {name: block[:, start:stop] for name, block in table.blocks.items()}
            out = self.backend.empty_matrix(stop - start, program.n_columns)
            self.backend.run_program(program, blocks, out)
            return [self._sums(x, 0.0, self.weights[start:stop]) for x in out.T]

        (parts,) = map_row_blocks(self.backend, reduce, [program], table.n_rows, device_rows=DEVICE_ROWS)
        return [list(found) for found in zip(*parts, strict=True)]

    def reduce_extremes(self, columns: Sequence[Array]) -> list[list[tuple[float, float]]]:
        """See `Reducer.reduce_extremes`."""
        return self.plain.reduce_extremes(columns)

    def _sums(self, x: Array, pivot: float, weights: Array) -> PassResult:
        """Return the weighted sums of some rows; as without weights, values that exceed float32 are skipped."""
        xp = self.backend.xp
        with np.errstate(invalid="ignore", over="ignore"):
            null, away = xp.isnan(x), x.astype(np.float64) - pivot
            is_summed = abs(away) <= FLOAT32_MAX
        away, own = xp.where(is_summed, away, 0.0), xp.where(is_summed, weights, 0.0)
        first = own * away
        sums = [own.sum(), null.sum(), xp.where(null, weights, 0.0).sum(), first.sum(), (first * away).sum()]
        weight, n_null, null_weight, total, squares = self.backend.to_host(xp.stack(sums)).tolist()
        return PassResult(weight, int(n_null), null_weight, total, squares, [])
