"""Reductions by compiled loops; `gpupipe_kernels.reduce.engine.ReductionEngine` documents their arguments.

Argument types do not depend on the table: inputs are read-only views, and codes of several widths are passed as three
blocks. So a table of a new shape needs no compilation.
"""

from __future__ import annotations

import numpy as np

from gpupipe_kernels.launch import read_only
from gpupipe_kernels.reduce.engine import BLOCKS, LANES, CellLayout, seed_bits, valid_range
from gpupipe_kernels.reduce.numba import loops
from gpupipe_kernels.reduce.numpy import engine as numpy_engine
from gpupipe_kernels.reduce.numpy.engine import FEW_CODES
from gpupipe_kernels.typing import Array

NO_BLOCKS = {name: np.empty((0, 0), name.removeprefix("made_")) for name in BLOCKS}
MOST_CELLS = 2**31 - 1  # their numbers are int32
NO_Y = np.empty(0)
UNITS = np.empty(0), np.empty(0, np.float32)


def warm() -> None:
    """Compile the loops for all their argument types, or load them from disk."""
    for dtype in (np.float32, np.float64):
        brackets, found = np.zeros((1, 2), dtype), np.zeros((1, 2), np.int64)
        sweep(np.zeros(1, dtype), 0.0, np.zeros((2, LANES)), brackets, np.empty((1, 1), dtype), found)
    for name in ("float32", "float64", "int64"):
        bin(np.zeros(1, name), np.zeros(1, name), np.zeros(3, np.int64))
    for storage in (np.int8, np.int16, np.int32):
        count(np.zeros(8, storage), np.zeros(2 * FEW_CODES, np.int64))
    count(np.zeros(8, np.int8), np.zeros(1, np.int64))
    fold(0, 0, 2, np.empty(1, np.int8))
    tally(CellLayout({}, (), 1), 0, 1, np.zeros(1, np.int64), np.empty(0))


def sweep(x: Array, pivot: float, sums: Array, brackets: Array, out: Array, found: Array) -> tuple[int, int]:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    n_added, n_null = loops.sweep(read_only(x), pivot, sums, brackets, out, found)
    return n_added, n_null


def count(codes: Array, counts: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    if codes.dtype == np.int8 and len(counts) <= FEW_CODES:
        whole = len(codes) // 8 * 8
        loops.count_few(read_only(codes[:whole]).view(np.uint64), counts)
        codes = codes[whole:]
    loops.count(read_only(codes), counts)


def bin(x: Array, edges: Array, counts: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    loops.bin_values(read_only(x), read_only(edges), *valid_range(x.dtype), UNITS[x.dtype == np.float32], counts)


def fold(start: int, seed: int, n_folds: int, out: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    loops.fold(start, seed_bits(seed), n_folds, out)


def tally(cells: CellLayout, start: int, stop: int, counts: Array, totals: Array) -> None:
    """See `gpupipe_kernels.reduce.engine.ReductionEngine`."""
    if cells.size > MOST_CELLS:
        numpy_engine.tally(cells, start, stop, counts, totals)
        return
    blocks = [read_only(cells.blocks.get(name, NO_BLOCKS[name])) for name in BLOCKS]
    steps = np.empty((len(cells.steps), 3), np.int64)
    for i, (block, row, stride) in enumerate(cells.steps):
        steps[i] = BLOCKS.index(block), row, stride
    y = read_only(NO_Y if cells.y is None else cells.y)
    loops.tally(*blocks, steps, y, start, stop, counts, totals)
