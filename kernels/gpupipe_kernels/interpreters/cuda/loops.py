"""Program interpreters as CUDA kernels: one for column-major and one for row-major matrices.

Each thread runs the instructions over eight rows at a time (`steps`). The two kernels run all programs without user
kernels; a program with user kernels gets an interpreter compiled with their formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, Literal

import numba
from numpy import float32, int32, uint32, uint64

from gpupipe_kernels.device.language import cuda
from gpupipe_kernels.interpreters.cuda import steps
from gpupipe_kernels.interpreters.cuda.opcodes import LINE, TO
from gpupipe_kernels.interpreters.cuda.steps import ROWS_A_THREAD, execute, write, zeros
from gpupipe_kernels.interpreters.cuda.vectors import write_four
from gpupipe_kernels.launch import DeviceLoop, array_formula, is_simulated
from gpupipe_kernels.program.program import Call

Order = Literal["columns", "rows"]
"""Memory order of a matrix: column-major or row-major."""
THREADS: dict[Order, int] = {"columns": 8, "rows": 8} if is_simulated() else {"columns": 128, "rows": 64}
"""Threads per block, constants of the kernels: all rows of a thread are then offsets from one address. In row-major
order, a block needs shared memory for a panel of its rows."""
COLUMN_LANES, ROW_LANES = THREADS["columns"], THREADS["rows"]
PANEL = 8  # columns, a power of 2: 32 bytes of a row are one memory sector
PANEL_LINE = ROWS_A_THREAD * ROW_LANES + 4
"""Cells of a panel column in shared memory: reading four columns of 16 rows, two by two, uses all 32 banks."""
PANEL_CELLS = PANEL * PANEL_LINE


@array_formula
def tile_rows(lanes, stride):
    """Return the number of rows that a block of threads processes at a time: one per thread if the stride is 0."""
    return uint64(lanes) if stride == 0 else uint64(ROWS_A_THREAD * lanes)


@array_formula
def tile_start(tile, n_tile_rows, n_rows):
    """Return the first row of a tile. The last tile is moved back so that it ends with the table.

    Rows in two tiles are written twice, with the same values. That costs less than a bounds check per cell.
    """
    return min(tile * n_tile_rows, n_rows - min(n_rows, n_tile_rows))


@array_formula
def put(place, left, acc, shared, panel_at, lane, stride, out, first, row_step):
    """Write cells of the column `left` + `place` to the panel, or to the matrix if they belong to a later panel."""
    if place < PANEL:
        write(shared, uint64(panel_at + place * PANEL_LINE + lane), stride, acc)
    else:
        write(out, first * row_step + uint64(left + place), stride * row_step, acc)


@array_formula
def write_panel(shared, panel_at, left, filled, lane, start, end, out, row_step, is_aligned):
    """Write the rows of a panel, `start` to `end`, four cells at a time if all rows are aligned to 16 bytes."""
    if is_aligned and (filled == int32(0xFF) or filled == int32(0xF)):
        half = int32(1) if filled == int32(0xFF) else int32(0)  # two threads write a row of eight columns
        place, row, rows = int32(4 * (lane & half)), int32(lane >> half), int32(ROW_LANES >> half)
        cell, to = int32(panel_at + place * PANEL_LINE + row), (start + uint64(row)) * row_step + uint64(left + place)
        last = int32(cell + int32(end - start) - row)
        while cell < last:
            write_four(
                out,
                to,
                shared[uint64(uint32(cell))],
                shared[uint64(uint32(cell + PANEL_LINE))],
                shared[uint64(uint32(cell + 2 * PANEL_LINE))],
                shared[uint64(uint32(cell + 3 * PANEL_LINE))],
            )
            cell = int32(cell + rows)
            to += uint64(rows) * row_step
    elif filled >> int32(lane & (PANEL - 1)) & 1:
        place, row, rows = int32(lane & (PANEL - 1)), int32(lane // PANEL), int32(ROW_LANES // PANEL)
        cell, to = int32(panel_at + place * PANEL_LINE + row), (start + uint64(row)) * row_step + uint64(left + place)
        last = int32(cell + int32(end - start) - row)
        while cell < last:
            out[to] = shared[uint64(uint32(cell))]
            cell = int32(cell + rows)
            to += uint64(rows) * row_step


def _columns(stride: int) -> Any:
    """Return `interpret_columns` for a row stride: `COLUMN_LANES`, or 0 for tables with fewer rows than a tile."""

    def interpret_columns(
        table,
        groups,
        luts,
        stack_cells,
        has_fold,
        fold,
        n_rows,
        out,
        column_step,
        is_aligned,
        i8,
        i16,
        i32,
        f32,
        f64,
        i64,
        i8_step,
        i16_step,
        i32_step,
        f32_step,
        f64_step,
        i64_step,
    ):
        """Write a column-major matrix: each row of the grid runs a group of segments that read the same source column.

        So each column is read from memory once, and reads and writes are coalesced. Arguments are those of
        `gpupipe_kernels.interpreters.cuda.steps.execute`, plus

        Parameters
        ----------
        groups : array of int32, shape (4 * groups,)
            For each group: the positions in the table of its first instruction and of the one after its last; its first
            lookup entry and the number of entries, 0 if they do not fit into shared memory.
        stack_cells : int32
            Cells of shared memory used by the stack.
        out, column_step : array of float32, uint64
            The matrix, column by column, and the step from one column to the next.
        is_aligned : bool
            Whether each column, or row, of the matrix is aligned to 16 bytes.
        """
        blocks = (i8, i8_step), (i16, i16_step), (i32, i32_step), (f32, f32_step), (f64, f64_step), (i64, i64_step)
        shared = cuda.shared.array(0, numba.float32)  # the stack, then the lookup tables of the group
        lane, group = cuda.threadIdx.x, uint64(4) * uint64(cuda.blockIdx.y)
        first_entry, n_entries = groups[group + uint64(2)], groups[group + uint64(3)]
        tables, moved = luts, int32(0)
        if n_entries > 0:
            i = uint64(lane)
            while i < uint64(n_entries):
                shared[uint64(stack_cells) + i] = luts[uint64(first_entry) + i]
                i += uint64(COLUMN_LANES)
            cuda.syncthreads()
            tables, moved = shared, int32(stack_cells - first_entry)
        begin, end = uint32(groups[group]), uint32(groups[group + uint64(1)])
        acc, ix, n_tile_rows = zeros(float32), zeros(int32), tile_rows(COLUMN_LANES, stride)
        tile = uint64(cuda.blockIdx.x)
        while tile * n_tile_rows < n_rows:
            first = min(tile_start(tile, n_tile_rows, n_rows) + uint64(lane), n_rows - uint64(1))
            line = begin
            while line < end:
                at, step = uint64(line), uint64(stride)
                acc, ix = execute(
                    table, at, tables, moved, first, step, has_fold, fold, shared, lane, COLUMN_LANES, acc, ix, blocks
                )
                to = table[uint64(line) + uint64(TO)]
                if to >= 0:
                    write(out, uint64(uint32(to)) * column_step + first, uint64(stride), acc)
                line = uint32(line + uint32(LINE))
            tile += uint64(cuda.gridDim.x)

    return interpret_columns


def _rows(stride: int) -> Any:
    """Return `interpret_rows` for a row stride: `ROW_LANES`, or 0 for tables with fewer rows than a tile."""

    def interpret_rows(
        table,
        panels,
        luts,
        stack_cells,
        has_fold,
        fold,
        n_rows,
        out,
        row_step,
        is_aligned,
        i8,
        i16,
        i32,
        f32,
        f64,
        i64,
        i8_step,
        i16_step,
        i32_step,
        f32_step,
        f64_step,
        i64_step,
    ):
        """Write a row-major matrix: each block runs all segments over its rows, in panels of columns.

        A panel is filled in shared memory and then written row by row. Arguments are those of `interpret_columns`, plus

        Parameters
        ----------
        panels : array of int32, shape (4 * panels,)
            For each panel: the positions in the table of its first instruction and of the one after its last; its first
            column; 0.
        out, row_step : array of float32, uint64
            The matrix, row by row, and the step from one row to the next.
        """
        blocks = (i8, i8_step), (i16, i16_step), (i32, i32_step), (f32, f32_step), (f64, f64_step), (i64, i64_step)
        shared = cuda.shared.array(0, numba.float32)  # the stack, then the panel
        acc, ix, n_tile_rows = zeros(float32), zeros(int32), tile_rows(ROW_LANES, stride)
        lane, tile = cuda.threadIdx.x, uint64(cuda.blockIdx.x)
        while tile * n_tile_rows < n_rows:
            start = tile_start(tile, n_tile_rows, n_rows)
            first = min(start + uint64(lane), n_rows - uint64(1))
            panel = uint64(0)
            while panel < uint64(panels.size):
                line, end = uint32(panels[panel]), uint32(panels[panel + uint64(1)])
                left, filled = panels[panel + uint64(2)], int32(0)
                while line < end:
                    at, step = uint64(line), uint64(stride)
                    acc, ix = execute(
                        table, at, luts, int32(0), first, step, has_fold, fold, shared, lane, ROW_LANES, acc, ix, blocks
                    )
                    to = table[uint64(line) + uint64(TO)]
                    if to >= 0:
                        place = int32(to - left)
                        put(place, left, acc, shared, stack_cells, lane, uint64(stride), out, first, row_step)
                        filled = int32(filled | (int32(1) << place if place < PANEL else int32(0)))
                    line = uint32(line + uint32(LINE))
                cuda.syncthreads()
                last = min(start + n_tile_rows, n_rows)
                write_panel(shared, stack_cells, left, filled, lane, start, last, out, row_step, is_aligned)
                cuda.syncthreads()
                panel += uint64(4)
            tile += uint64(cuda.gridDim.x)

    return interpret_rows


PARAMETERS = {
    "table": "int32[::1]", "parts": "int32[::1]", "luts": "float32[::1]", "stack_cells": "int32", "has_fold": "boolean",
    "fold": "int8[::1]", "n_rows": "uint64", "out": "float32[::1]", "step": "uint64", "is_aligned": "boolean",
    "i8": "int8[::1]", "i16": "int16[::1]", "i32": "int32[::1]", "f32": "float32[::1]", "f64": "float64[::1]",
    "i64": "int64[::1]", "i8_step": "uint64", "i16_step": "uint64", "i32_step": "uint64", "f32_step": "uint64",
    "f64_step": "uint64", "i64_step": "uint64",
}  # fmt: skip
"""Parameters of an interpreter kernel, and their types."""
ARGUMENTS = tuple(PARAMETERS.values())

_FUNCTIONS: dict[tuple[Order, bool], Any] = {
    ("columns", True): _columns(COLUMN_LANES),
    ("columns", False): _columns(0),
    ("rows", True): _rows(ROW_LANES),
    ("rows", False): _rows(0),
}
for (_order, _is_tiled), _function in _FUNCTIONS.items():
    _function.__name__ = f"interpret_{_order}" if _is_tiled else f"interpret_small_{_order}"

Interpreters = dict[tuple[Order, bool], DeviceLoop]
"""Interpreters by memory order, and whether the table has at least as many rows as a tile."""

LOOPS: Interpreters = {key: DeviceLoop(function, *ARGUMENTS) for key, function in _FUNCTIONS.items()}
"""The interpreters for programs without user kernels."""


@cache
def interpreters_for(calls: tuple[Call, ...]) -> Interpreters:
    """Return the interpreters for programs with these user kernels, compiled in every process."""
    if not calls:
        return LOOPS
    own = {**globals(), "execute": array_formula(_with_names(execute, {**vars(steps), "call": _call(calls)}))}
    return {key: DeviceLoop(_with_names(function, own), *ARGUMENTS, key=None) for key, function in _FUNCTIONS.items()}


def _with_names(function: Any, names: dict[str, Any]) -> Callable[..., Any]:
    """Return a copy of a function with other global names."""
    plain = getattr(function, "py_func", function)
    return FunctionType(plain.__code__, names, plain.__name__, closure=plain.__closure__)


def _call(calls: tuple[Call, ...]) -> Any:
    """Return a replacement of `steps.call` for user kernels."""
    found = steps.call
    for number, kernel in enumerate(calls):
        found = _one_more(number, kernel.formula, _operands(kernel.n_inputs), found)
    return found


def _one_more(mine: int, function: Any, operands: Any, others: Any) -> Any:
    @array_formula
    def call(number, stack, r, lane, lanes, acc):
        if number != mine:
            return others(number, stack, r, lane, lanes, acc)
        at, row = uint64(ROWS_A_THREAD * r * lanes + lane), uint64(lanes)
        two = row + row
        four = two + two
        return (
            float32(function(*operands(stack, at, lanes, acc[0]))),
            float32(function(*operands(stack, at + row, lanes, acc[1]))),
            float32(function(*operands(stack, at + two, lanes, acc[2]))),
            float32(function(*operands(stack, at + two + row, lanes, acc[3]))),
            float32(function(*operands(stack, at + four, lanes, acc[4]))),
            float32(function(*operands(stack, at + four + row, lanes, acc[5]))),
            float32(function(*operands(stack, at + four + two, lanes, acc[6]))),
            float32(function(*operands(stack, at + four + two + row, lanes, acc[7]))),
        )

    return call


def _operands(n: int) -> Any:
    """Return a formula that collects the operands of one row: n - 1 registers of the stack, and the accumulator."""
    if n == 1:

        @array_formula
        def only(stack, at, lanes, acc):
            return (acc,)

        return only
    rest = _operands(n - 1)

    @array_formula
    def operands(stack, at, lanes, acc):
        return (stack[at], *rest(stack, at + uint64(ROWS_A_THREAD * lanes), lanes, acc))

    return operands
