"""Numbers reduced on a device: moments by its own kernels, quantiles by sorting, which is what a device is quick at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.moments import Moments, value_amid
from gpupipe.features.quantiles import interpolated, places
from gpupipe.table.blocks import Table
from gpupipe_kernels.program import Program

Array = Any

MOST_ROWS_MADE = 2**22  # by a program at once: 16 MiB a column


class DeviceSweeper:
    """The reductions of `gpupipe.features.sweeping.Sweeper`, of columns on a device.

    The same rows give the same bits at every call. Quantiles, extremes and counts are those of the host to the last
    bit; moments are added up in another order.

    Parameters
    ----------
    backend : Backend
    engine : module
        `gpupipe_kernels.reduce.cuda_engine`.
    """

    def __init__(self, backend: Backend, engine: Any) -> None:
        self.backend, self.engine = backend, engine

    def moments(self, columns: Sequence[Array]) -> list[Moments]:
        """Return the moments of each column."""
        pivots = [value_amid(x, self.backend.to_host) for x in columns]
        return [_moments(sums, pivot) for sums, pivot in zip(self._sums(columns, pivots), pivots, strict=True)]

    def moments_made(self, program: Program, table: Table) -> list[Moments]:
        """Return the moments of each column that a program makes; part by part they are made, and left."""
        n_rows, width = table.n_rows, program.n_columns
        parts = [np.zeros((width, 4))]
        for start in range(0, n_rows, MOST_ROWS_MADE):
            stop = min(start + MOST_ROWS_MADE, n_rows)
            blocks = {name: block[:, start:stop] for name, block in table.blocks.items()}
            out = self.backend.empty_matrix(stop - start, width)
            self.backend.run_program(program, blocks, out)
            parts.append(self._sums(out.T, [0.0] * width))
        return [_moments(sums, 0.0) for sums in np.add.reduce(parts)]

    def quantiles(self, columns: Sequence[Array], shares: Sequence[float]) -> list[tuple[Moments, list[float]]]:
        """Return the moments of each column, and its quantiles, which are 0 if all is null."""
        moments = self.moments(columns)
        return [(m, self._quantiles(x, len(x) - m.n_null, shares)) for x, m in zip(columns, moments, strict=True)]

    def extremes(self, columns: Sequence[Array]) -> list[tuple[float, float]]:
        """Return the least and the greatest finite value of each column; 0 and 0 if there is none."""
        return [self._extremes(x) if len(x) else (0.0, 0.0) for x in columns]

    def _sums(self, columns: Sequence[Array], pivots: Sequence[float]) -> Any:
        """Return what `add_up` of the engine finds in each column, on the host, shape (columns, 4)."""
        xp = self.backend.xp
        room, sums = xp.empty(self.engine.ROOM), xp.zeros((len(columns), 4))
        for x, pivot, out in zip(columns, pivots, sums, strict=True):
            self.engine.add_up(x, pivot, room, out)
        return self.backend.to_host(sums)

    def _quantiles(self, x: Array, n: int, shares: Sequence[float]) -> list[float]:
        """Return the quantiles of a column with `n` values that are not null."""
        if n == 0 or not shares:
            return [0.0 for _ in shares]
        at, pairs = places(n, shares)
        ordered = self.backend.xp.sort(x)  # nulls come last
        ends = self.backend.to_host(ordered[self.backend.to_device(np.array(pairs))])
        return interpolated(ends.tolist(), at)

    def _extremes(self, x: Array) -> tuple[float, float]:
        xp = self.backend.xp
        finite = xp.isfinite(x)
        ends = xp.stack([xp.where(finite, x, np.inf).min(), xp.where(finite, x, -np.inf).max()])
        low, high = self.backend.to_host(ends).tolist()
        return (low + 0.0, high + 0.0) if low <= high else (0.0, 0.0)  # the zero of either sign is the same one


def _moments(sums: Any, pivot: float) -> Moments:
    n, n_null, first, second = sums.tolist()
    return Moments.of_sums(int(n), int(n_null), pivot, first, second)
