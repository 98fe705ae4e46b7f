"""The interpreters of programs as CUDA kernels: one for column-major matrices, one for row-major ones.

Each thread takes four rows at a time and runs instructions over them (`device_step`). The two serve all programs but
those with users' kernels, which get their own, with those formulas in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numba
from numba import cuda
from numpy import float32, int32, uint64

from gpupipe_kernels.interpreters import device_step
from gpupipe_kernels.interpreters.device_step import ROWS_A_THREAD, execute
from gpupipe_kernels.interpreters.schedule import DST, LAST
from gpupipe_kernels.launch import DeviceLoop, array_formula
from gpupipe_kernels.program import Call

PANEL = 16  # columns
PANEL_LINE = PANEL + 1  # cells of a row of a panel in shared memory: threads beside each other use different banks


@array_formula
def rows_from(first: Any, lanes: Any, n_rows: Any) -> Any:
    """Return four rows of a thread; in place of those behind the last row it is that one, several times."""
    last, n = n_rows - uint64(1), uint64(lanes)
    return min(first, last), min(first + n, last), min(first + n + n, last), min(first + n + n + n, last)


@array_formula
def put(
    place: Any, left: Any, acc: Any, shared: Any, panel_at: Any, lane: Any, lanes: Any, out: Any, rows: Any,
    row_step: Any,
) -> None:  # fmt: skip
    """Write cells of the column `left` + `place` into the panel, or into the matrix if they belong to a later panel."""
    if place < PANEL:
        at, step = uint64(panel_at + lane * PANEL_LINE + place), uint64(lanes * PANEL_LINE)
        shared[at], shared[at + step], shared[at + step + step], shared[at + step + step + step] = acc
    else:
        to = uint64(left + place)
        out[rows[0] * row_step + to], out[rows[1] * row_step + to] = acc[0], acc[1]
        out[rows[2] * row_step + to], out[rows[3] * row_step + to] = acc[2], acc[3]


def interpret_columns(
    instructions: Any, groups: Any, scalars: Any, wide: Any, luts: Any, stack_cells: Any, steps: Any, has_fold: Any,
    fold: Any, n_rows: Any, out: Any, column_step: Any, i8: Any, i16: Any, i32: Any, f32: Any, f64: Any, i64: Any,
) -> None:  # fmt: skip
    """Write a column-major matrix: a row of the grid runs a group of segments, those that read one source column.

    So each column comes from memory once, and reads and writes are coalesced. Arguments are those of
    `gpupipe_kernels.interpreters.device_step.execute`, and

    Parameters
    ----------
    groups : array of int32, shape (groups, 4)
        First instruction and the one behind the last; first lookup entry and their number, 0 where they do not fit.
    stack_cells : int32
        Cells of shared memory that the stack takes.
    n_rows : uint64
    out, column_step : array of float32, uint64
        The matrix, one column behind the other, and the step from one to the next.
    """
    shared = cuda.shared.array(0, numba.float32)  # the stack, and behind it the lookup tables of the group
    lane, lanes, group = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.y
    tables, moved = luts, int32(0)
    if groups[group, 3] > 0:
        for i in range(lane, groups[group, 3], lanes):
            shared[stack_cells + i] = luts[groups[group, 2] + i]
        cuda.syncthreads()
        tables, moved = shared, int32(stack_cells - groups[group, 2])
    acc = float32(0.0), float32(0.0), float32(0.0), float32(0.0)
    ix = int32(0), int32(0), int32(0), int32(0)
    n_tile_rows = uint64(ROWS_A_THREAD * lanes)
    first = uint64(cuda.blockIdx.x) * n_tile_rows + uint64(lane)
    while first < n_rows:
        rows = rows_from(first, lanes, n_rows)
        for k in range(groups[group, 0], groups[group, 1]):
            acc, ix = execute(
                instructions, k, scalars, wide, steps, tables, moved, rows, has_fold, fold, shared, lane, lanes,
                acc, ix, i8, i16, i32, f32, f64, i64,
            )  # fmt: skip
            if instructions[k, LAST]:
                to = uint64(instructions[k, DST]) * column_step
                out[to + rows[0]], out[to + rows[1]], out[to + rows[2]], out[to + rows[3]] = acc
        first += uint64(cuda.gridDim.x) * n_tile_rows


def interpret_rows(
    instructions: Any, panels: Any, scalars: Any, wide: Any, luts: Any, stack_cells: Any, steps: Any, has_fold: Any,
    fold: Any, n_rows: Any, out: Any, row_step: Any, i8: Any, i16: Any, i32: Any, f32: Any, f64: Any, i64: Any,
) -> None:  # fmt: skip
    """Write a row-major matrix: a block runs all segments over its rows, in panels of columns.

    A panel is filled in shared memory and then written along the rows. Arguments are those of
    `gpupipe_kernels.interpreters.device_step.execute`, and

    Parameters
    ----------
    panels : array of int32, shape (panels, 3)
        First instruction and the one behind the last; the first of its `PANEL` columns.
    stack_cells : int32
        Cells of shared memory that the stack takes.
    n_rows : uint64
    out, row_step : array of float32, uint64
        The matrix, one row behind the other, and the step from one to the next.
    """
    shared = cuda.shared.array(0, numba.float32)  # the stack, and behind it the panel
    lane, lanes = cuda.threadIdx.x, cuda.blockDim.x
    acc = float32(0.0), float32(0.0), float32(0.0), float32(0.0)
    ix = int32(0), int32(0), int32(0), int32(0)
    n_tile_rows = uint64(ROWS_A_THREAD * lanes)
    start = uint64(cuda.blockIdx.x) * n_tile_rows
    while start < n_rows:
        rows = rows_from(start + uint64(lane), lanes, n_rows)
        for panel in range(len(panels)):
            left, filled = panels[panel, 2], int32(0)
            for k in range(panels[panel, 0], panels[panel, 1]):
                acc, ix = execute(
                    instructions, k, scalars, wide, steps, luts, int32(0), rows, has_fold, fold, shared, lane, lanes,
                    acc, ix, i8, i16, i32, f32, f64, i64,
                )  # fmt: skip
                if instructions[k, LAST]:
                    place = instructions[k, DST] - left
                    put(place, left, acc, shared, stack_cells, lane, lanes, out, rows, row_step)
                    filled = int32(filled | (int32(1) << place if place < PANEL else int32(0)))
            cuda.syncthreads()
            for i in range(lane, ROWS_A_THREAD * lanes * PANEL, lanes):
                row, place = i // PANEL, i % PANEL
                if start + uint64(row) < n_rows and filled >> place & 1:
                    cell = uint64(stack_cells + row * PANEL_LINE + place)
                    out[(start + uint64(row)) * row_step + uint64(left + place)] = shared[cell]
            cuda.syncthreads()
        start += uint64(cuda.gridDim.x) * n_tile_rows


_TABLES = ("int32[:, ::1]", "int32[:, ::1]", "float32[:, ::1]", "float64[:, ::1]", "float32[::1]", "int32")
_ROWS = ("uint64[::1]", "boolean", "int8[::1]", "uint64", "float32[::1]", "uint64")
_BLOCKS = ("int8[::1]", "int16[::1]", "int32[::1]", "float32[::1]", "float64[::1]", "int64[::1]")
_ARGUMENTS = (*_TABLES, *_ROWS, *_BLOCKS)

LOOPS = (DeviceLoop(interpret_columns, *_ARGUMENTS), DeviceLoop(interpret_rows, *_ARGUMENTS))
"""The interpreter of column-major and of row-major matrices, for programs without users' kernels."""


@cache
def interpreters_for(calls: tuple[Call, ...]) -> tuple[DeviceLoop, DeviceLoop]:
    """Return the interpreters of programs with these users' kernels, which are compiled with them, in every process."""
    if not calls:
        return LOOPS
    names: dict[str, Any] = {**vars(device_step), "call": _call(calls)}
    own = {**globals(), "execute": array_formula(_with_names(execute, names))}
    columns, rows = (_with_names(function, own) for function in (interpret_columns, interpret_rows))
    return DeviceLoop(columns, *_ARGUMENTS, kept=False), DeviceLoop(rows, *_ARGUMENTS, kept=False)


def _with_names(function: Any, names: dict[str, Any]) -> Callable[..., Any]:
    """Return a function of the same code, whose global names mean something else."""
    plain = getattr(function, "py_func", function)
    return FunctionType(plain.__code__, names, plain.__name__)


def _call(calls: tuple[Call, ...]) -> Any:
    """Return a formula that stands where `device_step.call` does and knows users' kernels."""
    found = device_step.call
    for number, kernel in enumerate(calls):
        found = _one_more(number, kernel.formula, _operands(kernel.n_inputs), found)
    return found


def _one_more(mine: int, function: Any, operands: Any, others: Any) -> Any:
    @array_formula
    def call(number: Any, stack: Any, r: Any, lane: Any, lanes: Any, acc: Any) -> Any:
        if number != mine:
            return others(number, stack, r, lane, lanes, acc)
        at, row = uint64(ROWS_A_THREAD * r * lanes + lane), uint64(lanes)
        return (
            float32(function(*operands(stack, at, lanes, acc[0]))),
            float32(function(*operands(stack, at + row, lanes, acc[1]))),
            float32(function(*operands(stack, at + row + row, lanes, acc[2]))),
            float32(function(*operands(stack, at + row + row + row, lanes, acc[3]))),
        )

    return call


def _operands(n: int) -> Any:
    """Return a formula of the operands of one row as a tuple: n - 1 registers of the stack, and the accumulator."""
    if n == 1:

        @array_formula
        def only(stack: Any, at: Any, lanes: Any, acc: Any) -> Any:
            return (acc,)

        return only
    rest = _operands(n - 1)

    @array_formula
    def operands(stack: Any, at: Any, lanes: Any, acc: Any) -> Any:
        return (stack[at], *rest(stack, at + uint64(ROWS_A_THREAD * lanes), lanes, acc))

    return operands
