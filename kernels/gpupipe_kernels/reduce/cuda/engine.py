"""Reductions by CUDA kernels, of arrays that lie on the device. Nothing waits for a result.

They implement `gpupipe_kernels.reduce.engine.ReductionEngine` except `sweep`: on the device, sorting a column is faster
than searching it for brackets, so only its sums are computed. The caller allocates memory: its pool may own the device.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gpupipe_kernels.launch import DeviceLoop, as_numba
from gpupipe_kernels.reduce.cuda import loops
from gpupipe_kernels.reduce.engine import CellLayout, seed_bits
from gpupipe_kernels.typing import Array

ROOM = 4 * loops.MOST_BLOCKS  # numbers
MOST_CELLS = 2**31 - 1  # their numbers are int32
WHOLE_BITS = 62  # of a sum in whole numbers: one is left for its sign, and one for rounding
LARGEST_EXPONENT = 1_000  # its power of two is finite


class Scales(NamedTuple):
    """Powers of two: the units of the whole part of a number and of the rest, one in so many."""

    whole: float
    rest: float


def add_up(x: Array, pivot: float, room: Array, out: Array) -> None:
    """Add up a column, the same bits at every call.

    Parameters
    ----------
    x : device array of float32 or float64, shape (n,)
    pivot : float
        Finite.
    room : device array of float64, shape (ROOM,)
        Written; launches that follow each other may share it.
    out : device array of float64, shape (4,)
        The number of values added and of nulls, the sums of ``x - pivot`` and of its square. Values that float32 cannot
        hold relative to `pivot` are left out. As it was, if there are no rows.

    Raises
    ------
    ValueError
        If the elements of an array are not contiguous; this applies to all functions of this module.
    """
    room = as_numba(room)
    _launch(loops.add_up, len(x), as_numba(x), float(pivot), room)
    _launch(loops.join, min(1, len(x)), room, _blocks(len(x)), as_numba(out))


def count(codes: Array, counts: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    _launch(loops.count, len(codes), as_numba(codes), as_numba(counts))


def fold(start: int, seed: int, n_folds: int, out: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    _launch(loops.fold, len(out), start, seed_bits(seed), n_folds, as_numba(out))


def tally(cells: CellLayout, start: int, stop: int, counts: Array, totals: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`; the blocks are arrays with NumPy's operators, as CuPy's are.

    Totals do not depend on the order of the rows (see `add_whole`); for them ``cells.largest`` must be given.
    """
    (first, row, _), *others = cells.steps
    cell = cells.blocks[first][row, start:stop].astype("int32" if cells.size <= MOST_CELLS else "int64")
    for block, row, stride in others:
        cell *= stride
        cell += cells.blocks[block][row, start:stop]
    count(cell, counts)
    if cells.y is not None:
        # They are added up where the totals will be: whole numbers of as many bytes, and 0 is the same in both.
        coarse, fine = totals.view("int64"), totals.copy().view("int64")
        scales = scales_of(stop - start, cells.largest)
        add_whole(cell, cells.y[start:stop], scales, coarse, fine)
        totals[:] = joined(coarse, fine, scales)


def scales_of(n: int, largest: float) -> Scales:
    """Return how numbers are made whole, of which there are `n` and none is further from 0 than `largest`.

    Raises
    ------
    ValueError
        If `largest` is not finite.
    """
    if not math.isfinite(largest):
        raise ValueError(f"numbers to add up on the device must be finite, got {largest}")
    spare = WHOLE_BITS - n.bit_length()
    return Scales(2.0 ** min(spare - math.frexp(largest)[1], LARGEST_EXPONENT), 2.0**spare)


def add_whole(cell: Array, y: Array, scales: Scales, coarse: Array, fine: Array) -> None:
    """Add up the numbers of each cell as two whole numbers each, the second of what the first leaves over.

    Whole numbers come out the same in any order. Of n numbers below 2**e each is off by ``2**(e - 2 * spare)`` at most,
    where ``spare = 62 - n.bit_length()``: of 2**25 of them by 2**-72 of the largest, less than float64 would lose.

    Parameters
    ----------
    cell : device array of int, shape (n,)
    y : device array of float64, shape (n,)
    scales : Scales
    coarse, fine : device array of int64, shape (size,)
        0 before; see `joined`.
    """
    _launch(loops.total, len(y), as_numba(cell), as_numba(y), *scales, as_numba(coarse), as_numba(fine))


def joined(coarse: Array, fine: Array, scales: Scales) -> Array:
    """Return the sums that `add_whole` has left, float64; of NumPy's arrays or of CuPy's."""
    return (coarse + fine / scales.rest) / scales.whole


def _blocks(n_rows: int) -> int:
    return max(1, min(-(-n_rows // (loops.THREADS * loops.ROWS_A_THREAD)), loops.MOST_BLOCKS))


def _launch(loop: DeviceLoop, n_rows: int, *arguments: Any) -> None:
    """Launch as many blocks as `n_rows` rows have: that the same rows are added up the same way, it is up to them."""
    threads = loops.THREADS
    loop.launch(_blocks(n_rows) * threads if n_rows else 0, *arguments, threads=threads)
