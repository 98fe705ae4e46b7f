"""Reductions in NumPy; `gpupipe_kernels.reduce.engine.ReductionEngine` documents their arguments.

Rows are processed in blocks that fit into the cache together with their temporaries. BLAS is not used, because it would
start threads for each block.
"""

from __future__ import annotations

import numpy as np

from gpupipe_kernels.formulas.hashes import mix
from gpupipe_kernels.reduce.engine import BLOCK_ROWS, FLOAT32_MAX, LANES, CellLayout, seed_bits, valid_range
from gpupipe_kernels.typing import Array

FEW_CODES = 24


def sweep(x: Array, pivot: float, sums: Array, brackets: Array, out: Array, found: Array) -> tuple[int, int]:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    n_added, n_null = 0, 0
    for low in range(0, len(x), BLOCK_ROWS):
        block = x[low : low + BLOCK_ROWS]
        if len(sums):
            added, null = _add_up(block, pivot, sums)
            n_added, n_null = n_added + added, n_null + null
        for bracket, values, place in zip(brackets, out, found, strict=True):
            _collect(block, bracket, values, place)
    return n_added, n_null


def _add_up(x: Array, pivot: float, sums: Array) -> tuple[int, int]:
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.subtract(x, pivot, dtype=np.float64)
        null = np.isnan(x)
        n_null = int(np.count_nonzero(null))
        if n_null:
            np.copyto(distance, 0.0, where=null)
        n_left_out = n_null
        squares = _lanes(distance * distance)
        if not squares.max() <= FLOAT32_MAX**2:  # some value may be out of range
            far = ~(np.abs(distance) <= FLOAT32_MAX)
            np.copyto(distance, 0.0, where=far)
            n_left_out += int(np.count_nonzero(far))
            squares = _lanes(distance * distance)
    sums[0] += _lanes(distance)
    sums[1] += squares
    return len(x) - n_left_out, n_null


def _collect(x: Array, bracket: Array, out: Array, found: Array) -> None:
    low, high = bracket
    below, upto = x < low, x <= high
    n_below, n_upto = np.count_nonzero(below), np.count_nonzero(upto)
    if low < high:
        at = found[1]
        out[at : at + n_upto - n_below] = x[np.greater(upto, below, out=upto)]
    found += n_below, n_upto - n_below


def _lanes(values: Array) -> Array:
    """Return the sums of every `LANES`-th value, one for each of the first `LANES` positions, in order."""
    whole = len(values) // LANES * LANES
    sums: Array = np.add.reduce(values[:whole].reshape(-1, LANES), axis=0)
    sums[: len(values) - whole] += values[whole:]
    return sums


def count(codes: Array, counts: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    if codes.dtype == np.int8 and len(counts) <= FEW_CODES:
        _count_few(codes, counts)
        return
    # Each bincount allocates a table of all codes, which pays off only with more rows than codes.
    step = max(BLOCK_ROWS, len(counts))
    for low in range(0, len(codes), step):
        counts += np.bincount(codes[low : low + step], minlength=len(counts))


def _count_few(codes: Array, counts: Array) -> None:
    # With few codes, a vectorised comparison per code beats a lookup per row. Most rows have levels, the last codes;
    # the first, reserved codes are compared only if rows remain.
    equal = np.empty(len(codes), bool)
    left = len(codes)
    for code in reversed(range(len(counts))):
        if not left:
            return
        found = int(np.count_nonzero(np.equal(codes, code, out=equal)))
        counts[code] += found
        left -= found


def bin(x: Array, edges: Array, counts: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    low, high = valid_range(x.dtype)
    for start in range(0, len(x), BLOCK_ROWS):
        block = x[start : start + BLOCK_ROWS]
        with np.errstate(invalid="ignore"):
            valid = (block >= low) & (block <= high)
        bins = np.searchsorted(edges, block, side="right") + 1
        bins *= valid  # nulls are counted first
        counts += np.bincount(bins, minlength=len(counts))


def fold(start: int, seed: int, n_folds: int, out: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    bits = np.uint32(seed_bits(seed))
    for low in range(0, len(out), BLOCK_ROWS):
        block = out[low : low + BLOCK_ROWS]
        rows = np.arange(start + low, start + low + len(block), dtype=np.uint32)
        hashed = mix(mix(rows) + bits).astype(np.uint64)
        # The hash as a fraction of 2**32, scaled without a division.
        hashed *= np.uint64(n_folds)
        hashed >>= np.uint64(32)
        hashed += np.uint64(1)
        block[:] = hashed


def tally(cells: CellLayout, start: int, stop: int, counts: Array, totals: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    if cells.y is not None:
        totals += np.bincount(_cell(cells, start, stop), cells.y[start:stop], minlength=cells.size)
    step = max(BLOCK_ROWS, cells.size)  # as in `count`
    for low in range(start, stop, step):
        counts += np.bincount(_cell(cells, low, min(low + step, stop)), minlength=cells.size)


def _cell(cells: CellLayout, start: int, stop: int) -> Array:
    """Return the cell of each row."""
    cell = np.zeros(stop - start, np.intp)
    for block, row, stride in cells.steps:
        if stride:
            cell *= stride
        cell += cells.blocks[block][row, start:stop]
    return cell
