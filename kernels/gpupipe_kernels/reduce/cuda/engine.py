"""Reductions of device arrays by CUDA kernels, without synchronisation.

They implement `gpupipe_kernels.reduce.engine.ReductionEngine` except `sweep`: on the device, sorting a column is faster
than searching it for brackets, so only its sums are computed. The caller allocates memory from its own memory pool.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.reduce.cuda import loops
from gpupipe_kernels.reduce.engine import CellLayout, seed_bits, valid_range
from gpupipe_kernels.typing import Array

ROOM = 4 * loops.MOST_BLOCKS  # numbers
MOST_CELLS = 2**31 - 1  # their numbers are int32
WHOLE_BITS = 62  # bits of an integer sum, without one for the sign and one for rounding
LARGEST_EXPONENT = 1_000  # so that its power of two is finite


class Scales(NamedTuple):
    """Scale factors, powers of two, of the integer part of a number and of its remainder."""

    whole: float
    rest: float


def add_up(x: Array, pivot: float, room: Array, out: Array) -> None:
    """Sum a column; every call gives the same bits.

    Raise ValueError if an array is not contiguous; this applies to all functions of this module.

    Parameters
    ----------
    x : device array of float32 or float64, shape (n,)
    pivot : float
        Finite.
    room : device array of float64, shape (ROOM,)
        Scratch memory; consecutive launches may share it.
    out : device array of float64, shape (4,)
        The number of values added and of nulls, and the sums of ``x - pivot`` and of its square. Values that exceed
        float32 relative to `pivot` are skipped. Unchanged if there are no rows.
    """
    _launch(loops.add_up, len(x), x, float(pivot), room)
    _launch(loops.join, min(1, len(x)), room, _blocks(len(x)), out)


def count(codes: Array, counts: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    _launch(loops.count, len(codes), codes, counts)


def bin(x: Array, edges: Array, counts: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    limits = valid_range(x.dtype)
    _launch(loops.bin_values, len(x), x, edges, limits[0], limits[1], counts)


def fold(start: int, seed: int, n_folds: int, out: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    _launch(loops.fold, len(out), start, seed_bits(seed), n_folds, out)


def tally(cells: CellLayout, start: int, stop: int, counts: Array, totals: Array) -> None:
    """Add rows to cells, as in `gpupipe_kernels.reduce.engine.ReductionEngine`; blocks are CuPy-like arrays.

    Totals do not depend on the order of the rows (see `add_whole`); they require ``cells.largest``.
    """
    (first, row, _), *others = cells.steps
    cell = cells.blocks[first][row, start:stop].astype("int32" if cells.size <= MOST_CELLS else "int64")
    for block, row, stride in others:
        cell *= stride
        cell += cells.blocks[block][row, start:stop]
    count(cell, counts)
    if cells.y is not None:
        # Use the memory of the totals for the sums: the integers have the same size, and 0 has the same bits.
        coarse, fine = totals.view("int64"), totals.copy().view("int64")
        scales = scales_of(stop - start, cells.largest)
        add_whole(cell, cells.y[start:stop], scales, coarse, fine)
        totals[:] = joined(coarse, fine, scales)


def scales_of(n: int, largest: float) -> Scales:
    """Return the scales that convert `n` numbers of absolute values up to `largest` to integers.

    Raise ValueError if `largest` is not finite.
    """
    if not math.isfinite(largest):
        raise ValueError(f"expected finite numbers to sum on the device, got {largest}")
    spare = WHOLE_BITS - n.bit_length()
    return Scales(2.0 ** min(spare - math.frexp(largest)[1], LARGEST_EXPONENT), 2.0**spare)


def add_whole(cell: Array, y: Array, scales: Scales, coarse: Array, fine: Array) -> None:
    """Sum the numbers of each cell as two integers each, the second for the remainder of the first.

    Integer sums do not depend on the order. For n numbers below 2**e, the error of each is at most ``2**(e - 2 *
    spare)``, where ``spare = 62 - n.bit_length()``: for 2**25 numbers 2**-72 of the largest, less than in float64.

    Parameters
    ----------
    cell : device array of int, shape (n,)
    y : device array of float64, shape (n,)
    coarse, fine : device array of int64, shape (size,)
        Initially 0; see `joined`.
    """
    _launch(loops.total, len(y), cell, y, *scales, coarse, fine)


def joined(coarse: Array, fine: Array, scales: Scales) -> Array:
    """Return the float64 sums of `add_whole`, from NumPy or CuPy arrays."""
    return (coarse + fine / scales.rest) / scales.whole


def _blocks(n_rows: int) -> int:
    return max(1, min(-(-n_rows // (loops.THREADS * loops.ROWS_A_THREAD)), loops.MOST_BLOCKS))


def _launch(loop: DeviceLoop, n_rows: int, *arguments: Any) -> None:
    """Launch a number of blocks that depends only on `n_rows`, so that equal rows are summed in the same order."""
    threads = loops.THREADS
    loop.launch(_blocks(n_rows) * threads if n_rows else 0, *arguments, threads=threads)
