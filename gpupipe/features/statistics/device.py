"""Reductions of numeric columns on a GPU: moments by CUDA kernels, quantiles by sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.statistics.moments import Moments, find_pivot
from gpupipe.features.statistics.quantiles import Bracket, interpolate_all, quantile_positions
from gpupipe.features.statistics.reductions import PassResult, Reducer
from gpupipe.features.statistics.row_blocks import is_on_device
from gpupipe.features.statistics.row_weights import WeightedReducer
from gpupipe.table.blocks import Table
from gpupipe.typing import Array
from gpupipe_kernels.program.program import Program

MAX_PROGRAM_ROWS = 2**22  # per run of a program: 16 MiB per column


class DeviceReducer(Reducer):
    """The reductions of `Reducer` for columns on a GPU; `engine` is `gpupipe_kernels.reduce.cuda.engine`.

    Results are reproducible bit by bit. Quantiles, extremes and counts are identical to those of the CPU; moments may
    differ by rounding, as they are summed in another order.
    """

    engine: Any

    def quantiles(self, columns: Sequence[Array], shares: Sequence[float]) -> list[tuple[Moments, list[float]]]:
        """Return the moments and quantiles of each column; quantiles are 0 if all values are null."""
        moments = self.moments(columns)
        return [(m, self._quantiles(x, len(x) - m.n_null, shares)) for x, m in zip(columns, moments, strict=True)]

    def find_pivots(self, columns: Sequence[Array]) -> list[float]:
        """See `Reducer.find_pivots`."""
        return [find_pivot(x, self.backend.to_host) for x in columns]

    def reduce_columns(
        self, columns: Sequence[Array], pivots: Sequence[float], given: Sequence[Array | None]
    ) -> list[list[PassResult]]:
        """See `Reducer.reduce_columns`; all rows are one block."""
        brackets = [[] if edges is None else self._brackets(x, edges) for x, edges in zip(columns, given, strict=True)]
        return [[_pass_result(row, b)] for row, b in zip(self._sums(columns, pivots), brackets, strict=True)]

    def reduce_program(self, program: Program, table: Table) -> list[list[PassResult]]:
        """See `Reducer.reduce_program`."""
        n_rows, width = table.n_rows, program.n_columns
        found: list[list[PassResult]] = [[_pass_result(np.zeros(4), [])] for _ in range(width)]
        for start in range(0, n_rows, MAX_PROGRAM_ROWS):
            stop = min(start + MAX_PROGRAM_ROWS, n_rows)
            blocks = {name: block[:, start:stop] for name, block in table.blocks.items()}
            out = self.backend.empty_matrix(stop - start, width)
            self.backend.run_program(program, blocks, out)
            for parts, row in zip(found, self._sums(list(out.T), [0.0] * width), strict=True):
                parts.append(_pass_result(row, []))
        return found

    def reduce_extremes(self, columns: Sequence[Array]) -> list[list[tuple[float, float]]]:
        """See `Reducer.reduce_extremes`."""
        return [[self._extremes(x) if len(x) else (np.inf, -np.inf)] for x in columns]

    def _sums(self, columns: Sequence[Array], pivots: Sequence[float]) -> Any:
        """Return the results of the engine's `add_up` for each column, on the host, shape (n_columns, 4)."""
        xp = self.backend.xp
        room, sums = xp.empty(self.engine.ROOM), xp.zeros((len(columns), 4))
        for x, pivot, out in zip(columns, pivots, sums, strict=True):
            self.engine.add_up(x, pivot, room, out)
        return self.backend.to_host(sums)

    def _brackets(self, x: Array, given: Array) -> list[Bracket]:
        """Return the brackets with the limits `given`, shape (k, 2), with their values on the host."""
        found, to_host = [], self.backend.to_host
        for low, high in given.tolist():
            n_below, values = int(to_host((x < low).sum())), x[(x >= low) & (x <= high)]
            found.append(Bracket(low, high, n_below, len(values), to_host(values[: len(values) if low < high else 0])))
        return found

    def _quantiles(self, x: Array, n: int, shares: Sequence[float]) -> list[float]:
        """Return the quantiles of a column with `n` non-null values; 0 if there are none."""
        if n == 0 or not shares:
            return [0.0 for _ in shares]
        at, pairs = quantile_positions(n, shares)
        # CuPy sorts floats by their bits (CuPy 14.2, CUB's radix sort), so a NaN with the sign bit set, such as the
        # result of 0 / 0 on x86, would come first. Nulls replaced by infinity have ranks from n.
        ordered = self.backend.xp.where(x == x, x, np.inf)
        ordered.sort()
        ends = self.backend.to_host(ordered[self.backend.to_device(np.array(pairs))])
        return interpolate_all(ends.tolist(), at)

    def _extremes(self, x: Array) -> tuple[float, float]:
        xp = self.backend.xp
        finite = xp.isfinite(x)
        ends = xp.stack([xp.where(finite, x, np.inf).min(), xp.where(finite, x, -np.inf).max()])
        low, high = self.backend.to_host(ends).tolist()
        return low, high


def make_reducer(backend: Backend, engine: Any, weights: Array | None = None) -> Reducer:
    """Return the reducer for columns, and weights of their rows, on the device of `backend`."""
    plain = (DeviceReducer if is_on_device(backend) else Reducer)(backend, engine)
    return plain if weights is None else WeightedReducer(plain, weights)


def _pass_result(row: Any, brackets: list[Bracket]) -> PassResult:
    n, n_null, first, second = row.tolist()
    return PassResult(n, int(n_null), n_null, first, second, brackets)
