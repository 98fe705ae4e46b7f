"""Interpreter compiled by Numba for the host, for processes that score repeatedly (see `engines`).

One loop runs every program: its arguments, the program's tables and the blocks, always have the same types. So it is
compiled once, in seconds, and cached on disk. Rows are split into tiles that fit into the cache. Each tile runs all
instructions; those that read the same column are adjacent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpupipe_kernels.interpreters.lines import block_line, blocks_read, matrix_line
from gpupipe_kernels.interpreters.numba import steps as each
from gpupipe_kernels.interpreters.schedule import (
    ARG,
    BLOCK,
    DST,
    LUT,
    OP,
    ROW,
    SIZE,
    schedule,
)
from gpupipe_kernels.launch import host_block, read_only
from gpupipe_kernels.program.opcodes import BLOCKS, N_REGISTERS, Opcode
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.threads import run_blocks
from gpupipe_kernels.typing import HostArray

COLUMN_TILE = 16_384  # rows: their sources and one destination fit into the L2 cache
ROW_TILE_CELLS = 65_536  # for a row-major matrix: a tile of all columns stays in the cache until it is transposed
PADDING = 16  # cells
MOST_ROWS = 131_072  # per block: enough to amortise starting one
BLOCKS_A_THREAD = 8  # so that threads finish at about the same time

INT8, INT16, INT32, FLOAT32, FLOAT64, INT64 = range(6)


def supports(program: Program) -> bool:
    """Return whether `run` can run a program; only the NumPy interpreter can call user kernels."""
    return not program.calls


def warm() -> None:
    """Compile the loop or load it from disk, so that no run has to wait for it."""
    instructions = np.empty((0, 8), np.int32)
    run(Program(instructions, np.empty(0), np.empty(0, np.float32), 0), {}, np.empty((0, 0), np.float32, order="F"))


def run(
    program: Program,
    blocks: Mapping[str, HostArray],
    out: HostArray,
    fold: HostArray | None = None,
    n_threads: int = 1,
) -> None:
    """Run `program` over a table and write every column of `out`.

    Results are bit-identical to `numpy_interpreter.run`, except logarithm, sine, distance, bearing and power, which
    agree within the tolerances that `interpreters.kernels` declares.

    Parameters
    ----------
    program : Program
        A program that `supports` accepts.
    blocks : mapping of str to ndarray, shape (columns, rows)
        dtype name to block, with contiguous rows per column.
    out : ndarray of float32, shape (rows, program.n_columns), column-major or row-major
    fold : ndarray of int8, shape (rows,), optional
        Which out-of-fold table each row reads; None: the full statistics.
    n_threads : int
        Number of blocks of rows that run in parallel.

    Raises
    ------
    ValueError
        If the shape or dtype of `out` does not match the program, its layout is neither of the two, the blocks do not
        contain what the program reads, or the program has user kernels.
    """
    if not supports(program):
        raise ValueError("the Numba interpreter cannot run user kernels: use the NumPy interpreter")
    length, row_stride, column_stride = matrix_line(out, program.n_columns)
    target = as_strided(out, (length,), (out.itemsize,))
    plan = schedule(program)
    read = blocks_read(program, blocks, out.shape[0])
    sources = [_flat(read.get(name), name) for name in BLOCKS]
    strides = np.array([stride for _, stride in sources], np.int64)
    folds = _folds(fold, out.shape[0])
    tables = (plan.instructions, plan.scalars, plan.wide, read_only(program.params), read_only(program.luts))
    tile = COLUMN_TILE if row_stride == 1 else _row_tile(program.n_columns)

    def rows(start: int, stop: int) -> None:
        _run_rows(
            *tables, *(flat for flat, _ in sources), strides, folds, target, row_stride, column_stride,
            program.n_columns, start, stop, tile,
        )  # fmt: skip

    if not _run_rows.signatures:
        rows(0, 0)  # one thread compiles it or loads it from disk
    run_blocks(rows, out.shape[0], _block_rows(out.shape[0], n_threads), n_threads)


def _folds(fold: HostArray | None, n_rows: int) -> Any:
    if fold is not None and fold.shape != (n_rows,):
        raise ValueError(f"expected folds of shape ({n_rows},), got {fold.shape}")
    return read_only(np.empty(0, np.int8) if fold is None else np.asarray(fold, np.int8))


def _block_rows(n_rows: int, n_threads: int) -> int:
    tiles = -(-n_rows // (n_threads * BLOCKS_A_THREAD * COLUMN_TILE))
    return min(MOST_ROWS, max(1, tiles) * COLUMN_TILE)


def _row_tile(n_columns: int) -> int:
    return max(16, min(COLUMN_TILE, ROW_TILE_CELLS // max(1, n_columns) // 16 * 16))


def _flat(block: HostArray | None, dtype: str) -> tuple[HostArray, int]:
    """Return a block as a read-only line of cells, and the step from column to column."""
    if block is None:
        return read_only(np.empty(0, dtype)), 0
    line = block_line(block) if block.flags.aligned else None
    if line is None:
        block = np.ascontiguousarray(block)
        line = block.size, block.shape[1]
    return as_strided(block, line[:1], (block.itemsize,), writeable=False), line[1]


@host_block
def _run_rows(
    instructions: Any, scalars: Any, wide: Any, params: Any, luts: Any, int8: Any, int16: Any, int32: Any, float32: Any,
    float64: Any, int64: Any, strides: Any, fold: Any, out: Any, row_stride: Any, column_stride: Any, n_columns: Any,
    start: Any, stop: Any, tile: Any,
) -> None:  # fmt: skip
    index = np.empty(tile, np.int32)
    stack = np.empty((N_REGISTERS, tile), np.float32)
    # Columns of a tile that are not contiguous in the matrix. Lines whose distance is a power of two would conflict in
    # the cache.
    cells = np.empty((0 if row_stride == 1 else n_columns, tile + PADDING), np.float32)
    for low in range(start, stop, tile):
        n = min(tile, stop - low)
        ix = index[:n]
        for k in range(len(instructions)):
            op, block, arg = instructions[k, OP], instructions[k, BLOCK], instructions[k, ARG]
            lut, size = instructions[k, LUT], instructions[k, SIZE]
            p0, p1, p2 = scalars[k, 0], scalars[k, 1], scalars[k, 2]
            at = instructions[k, ROW] * strides[block] + low if block >= 0 else 0
            dst = max(0, instructions[k, DST])
            acc = out[low + dst * column_stride : low + dst * column_stride + n] if row_stride == 1 else cells[dst, :n]
            if op == Opcode.EQUAL:
                if block == INT8:
                    each.equal(int8[at : at + n], arg, acc)
                elif block == INT16:
                    each.equal(int16[at : at + n], arg, acc)
                else:
                    each.equal(int32[at : at + n], arg, acc)
            elif op == Opcode.LOAD:
                if block == FLOAT32:
                    each.load(float32[at : at + n], p0, acc)
                else:
                    each.load(float64[at : at + n], wide[k, 0], acc)
            elif op == Opcode.FILL:
                each.fills(p0, acc)
            elif op == Opcode.SCALE:
                each.scales(p0, p1, acc)
            elif op == Opcode.TAKE:
                each.takes(luts[lut : lut + size], ix, acc)
            elif op == Opcode.INDEX:
                if block == INT8:
                    each.indices(int8[at : at + n], ix)
                elif block == INT16:
                    each.indices(int16[at : at + n], ix)
                else:
                    each.indices(int32[at : at + n], ix)
            elif op == Opcode.INDEX_PAIR:
                if block == INT8:
                    each.index_pairs(int8[at : at + n], arg, ix)
                elif block == INT16:
                    each.index_pairs(int16[at : at + n], arg, ix)
                else:
                    each.index_pairs(int32[at : at + n], arg, ix)
            elif op == Opcode.INDEX_FOLD:
                if fold.size:
                    each.index_folds(fold[low : low + n], arg, ix)
            elif op == Opcode.INDEX_PART:
                each.index_parts(int64[at : at + n], arg, size, ix)
            elif op == Opcode.INDEX_BIN:
                if block == FLOAT32:
                    each.index_bins(float32[at : at + n], luts[lut : lut + size], arg, ix)
                else:
                    each.index_bins(float64[at : at + n], params[lut : lut + size], arg, ix)
            elif op == Opcode.IS_NULL:
                if block == FLOAT32:
                    each.is_nan(float32[at : at + n], acc)
                elif block == FLOAT64:
                    each.is_nan(float64[at : at + n], acc)
                else:
                    each.is_nat(int64[at : at + n], acc)
            elif op == Opcode.LOG1P:
                each.logarithms(acc)
            elif op == Opcode.CLIP:
                each.clips(p0, p1, acc)
            elif op == Opcode.STORE:
                each.copy(acc, stack[arg, :n])
            elif op == Opcode.ADD:
                each.add(stack[arg, :n], acc)
            elif op == Opcode.SUBTRACT:
                each.subtract(stack[arg, :n], acc)
            elif op == Opcode.MULTIPLY:
                each.multiply(stack[arg, :n], acc)
            elif op == Opcode.DIVIDE:
                each.divide(stack[arg, :n], acc)
            elif op == Opcode.PART:
                each.parts(int64[at : at + n], arg, ix, acc)  # the index does not survive the start of a segment
            elif op == Opcode.ELAPSED:
                each.elapsed_times(int64[at : at + n], wide[k, 0], wide[k, 1], acc)
            elif op == Opcode.BETWEEN:
                other = arg * strides[INT64] + low
                each.between_times(int64[at : at + n], int64[other : other + n], wide[k, 0], acc)
            elif op == Opcode.SINE:
                each.waves(p0, p1, p2, acc)
            elif op == Opcode.HAVERSINE:
                each.courses(stack[arg : arg + 3], p1, acc)
                each.distances(stack[arg : arg + 3], p0, acc)
            elif op == Opcode.BEARING:
                each.courses(stack[arg : arg + 3], p1, acc)
                each.bearings(stack[arg : arg + 3], acc)
            elif op == Opcode.YEO_JOHNSON:
                each.powers(p0, acc)
        if row_stride != 1:
            each.transpose(cells, n, out, low * row_stride, row_stride)
