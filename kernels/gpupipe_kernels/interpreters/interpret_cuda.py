"""The interpreter for the device: all row-wise features of a configuration in one launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda
from numpy.lib.stride_tricks import as_strided

from gpupipe_kernels.interpreters.device_loops import LOOPS, PANEL, PANEL_LINE, interpreters_for
from gpupipe_kernels.interpreters.device_step import ROWS_A_THREAD
from gpupipe_kernels.interpreters.lines import block_line, blocks_read, matrix_line
from gpupipe_kernels.interpreters.schedule import ARG, LUT, OP, SIZE, Schedule, first_columns, schedule
from gpupipe_kernels.launch import DeviceLoop, is_simulated
from gpupipe_kernels.opcodes import BLOCKS, Op
from gpupipe_kernels.program import Program

__all__ = ["LOOPS", "PANEL_LINE", "ROWS_A_THREAD", "DeviceProgram", "run"]

COLUMN_THREADS = 128  # of a block
ROW_THREADS = 64  # a panel of shared memory for four times as many rows
MOST_TABLE_CELLS = 2_048  # 8 KiB of shared memory a block: no device holds fewer blocks for that
MOST_BLOCKS = 8_192  # several for each place where one can run, so that places become free at about the same time

Array = Any


@dataclass(frozen=True)
class Tables:
    """A schedule in device memory.

    Attributes
    ----------
    arguments : tuple of device arrays
        Instructions, groups or panels, scalars, wide, lookup tables: as the interpreters take them.
    n_parts : int
        Groups or panels.
    table_cells : int
        The most lookup entries of a group that go to shared memory.
    """

    arguments: tuple[Array, ...]
    n_parts: int
    table_cells: int


class DeviceProgram:
    """A program in device memory: made once, run over many tables.

    Parameters
    ----------
    program : Program
        Its tables are uploaded when a matrix is first written, for each memory order.
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def by_source(self) -> Tables:
        """The tables of the interpreter of column-major matrices."""
        plan = schedule(self.program)
        groups, instructions, luts = _gather_tables(plan, self.program.luts)
        return _upload(plan, instructions, groups, luts, int(groups[:, 3].max(initial=0)))

    @cached_property
    def by_destination(self) -> Tables:
        """The tables of the interpreter of row-major matrices."""
        plan = schedule(self.program, PANEL)
        left = first_columns(plan.instructions, plan.groups) // PANEL * PANEL
        panels = np.stack([plan.groups[:-1], plan.groups[1:], left], axis=1)
        return _upload(plan, plan.instructions, panels, self.program.luts, 0)

    @cached_property
    def depth(self) -> int:
        """Registers of the stack that the program uses."""
        stores = self.program.instructions[self.program.instructions[:, OP] == Op.STORE]
        return int(stores[:, ARG].max(initial=-1)) + 1


def run(
    program: Program | DeviceProgram,
    blocks: Mapping[str, Array],
    out: Array,
    fold: Array | None = None,
    stream: Any = 0,
    threads: int = 0,
) -> None:
    """Run `program` over a table in device memory and write every column of `out`, without waiting for it.

    The same as `interpret_numpy.run`, within the tolerances that the declarations of `rowwise` state; a multiplication
    and an addition are rounded together here.

    Parameters
    ----------
    program : Program or DeviceProgram
        A `DeviceProgram` is not uploaded again.
    blocks : mapping of str to device array, shape (columns, rows)
        dtype name to block; the rows of a column lie one behind the other. Anything with ``__cuda_array_interface__``.
    out : device array of float32, shape (rows, program.n_columns), column-major or row-major
    fold : device array of int8, shape (rows,), optional
        Which out-of-fold table each row reads; None: the full statistics.
    stream : CUDA stream, optional
        The arrays must be ready on this one.
    threads : int
        Threads a block; 0 for what is best.

    Raises
    ------
    ValueError
        If the shape, dtype or layout of `out` or a block is not as said.
    """
    ready = program if isinstance(program, DeviceProgram) else DeviceProgram(program)
    length, row_step, column_step = matrix_line(out, ready.program.n_columns)
    if length == 0:
        return
    columns, rows = interpreters_for(ready.program.calls)
    table = _Table.of(blocks_read(ready.program, blocks, out.shape[0]), out.shape[0], fold)
    target = _line(out, length)
    if row_step == 1:
        _run_columns(columns, ready, table, (target, np.uint64(column_step)), stream, threads or COLUMN_THREADS)
    else:
        _run_rows(rows, ready, table, (target, np.uint64(row_step)), stream, threads or ROW_THREADS)


def _run_columns(
    loop: DeviceLoop, program: DeviceProgram, table: _Table, target: tuple[Array, Any], stream: Any, threads: int
) -> None:
    tables, stack_cells = program.by_source, program.depth * ROWS_A_THREAD * threads
    most = max(1, MOST_BLOCKS // max(1, tables.n_parts))
    loop.launch(
        (_threads(table.n_rows, threads, most), tables.n_parts),
        *tables.arguments, np.int32(stack_cells), *table.arguments, *target, *table.lines,
        stream=stream, threads=threads, shared=4 * max(4, stack_cells + tables.table_cells),
    )  # fmt: skip


def _run_rows(
    loop: DeviceLoop, program: DeviceProgram, table: _Table, target: tuple[Array, Any], stream: Any, threads: int
) -> None:
    tables, stack_cells = program.by_destination, program.depth * ROWS_A_THREAD * threads
    loop.launch(
        _threads(table.n_rows, threads, MOST_BLOCKS),
        *tables.arguments, np.int32(stack_cells), *table.arguments, *target, *table.lines,
        stream=stream, threads=threads, shared=4 * (stack_cells + ROWS_A_THREAD * threads * PANEL_LINE),
    )  # fmt: skip


def _threads(n_rows: int, threads: int, most_blocks: int) -> int:
    """Return how many threads to launch, each of which takes four rows and strides."""
    return min(-(-n_rows // (ROWS_A_THREAD * threads)), most_blocks) * threads


@dataclass(frozen=True)
class _Table:
    """The arguments of a launch that come from the table.

    Attributes
    ----------
    n_rows : int
    lines : list of device arrays
        The blocks, in the order of `BLOCKS`, absent ones empty.
    arguments : tuple
        Steps from column to column, whether there are folds, the folds, and the number of rows.
    """

    n_rows: int
    lines: list[Array]
    arguments: tuple[Any, ...]

    @staticmethod
    def of(blocks: Mapping[str, Array], n_rows: int, fold: Array | None) -> _Table:
        lines, steps = [], []
        for name in BLOCKS:
            line, step = _block(blocks.get(name), name)
            lines.append(line)
            steps.append(step)
        if fold is not None and (fold.dtype != "int8" or fold.shape != (n_rows,) or fold.strides != (1,)):
            raise ValueError(f"folds must be int8 of {n_rows} rows, got {fold.dtype} {fold.shape}")
        folds = cuda.to_device(np.empty(0, np.int8)) if fold is None else _line(fold, n_rows)
        steps_there = cuda.to_device(np.array(steps, np.uint64))
        return _Table(n_rows, lines, (steps_there, fold is not None, folds, np.uint64(n_rows)))


def _block(block: Array | None, dtype: str) -> tuple[Array, int]:
    if block is None:
        return cuda.to_device(np.empty(0, dtype)), 0
    line = block_line(block)
    if line is None:
        raise ValueError(f"the rows of a {dtype} column must lie one behind the other, got strides {block.strides}")
    return _line(block, line[0]), line[1]


def _line(array: Array, length: int) -> Array:
    """Return an array as one line of so many cells; nothing is copied."""
    if is_simulated():  # its arrays are NumPy's, in a wrapper
        return type(array)(as_strided(array._ary, (length,), (array.dtype.itemsize,)))
    return cuda.as_cuda_array(_Line(array, length))


class _Line:
    """Device memory seen as one line. It names no stream: the launch is on the caller's, and waits for nothing."""

    def __init__(self, array: Array, length: int) -> None:
        self.array = array  # kept alive
        shown = array.__cuda_array_interface__
        self.__cuda_array_interface__ = {
            "shape": (length,), "typestr": shown["typestr"], "data": shown["data"], "strides": None, "version": 3,
        }  # fmt: skip


def _upload(
    plan: Schedule, instructions: npt.NDArray[np.int32], parts: npt.NDArray[Any], luts: npt.NDArray[Any], cells: int
) -> Tables:
    arrays = (instructions, parts.astype(np.int32), plan.scalars, plan.wide, luts)
    return Tables(tuple(cuda.to_device(np.ascontiguousarray(array)) for array in arrays), len(parts), cells)


def _gather_tables(
    plan: Schedule, luts: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Return the groups of a schedule, its instructions and the lookup tables, those of a group one behind the other.

    Of a group: its first instruction and the one behind its last; its first entry and their number, or 0 where they are
    too many for shared memory.
    """
    instructions, pieces, end = plan.instructions.copy(), [np.empty(0, np.float32)], 0
    groups = []
    for start, stop in zip(plan.groups.tolist(), plan.groups[1:].tolist(), strict=False):
        first, places = end, {}
        for row in instructions[start:stop]:
            if row[OP] in (Op.TAKE, Op.INDEX_BIN):
                table = int(row[LUT]), int(row[SIZE])
                if table not in places:
                    places[table] = end
                    pieces.append(luts[table[0] : table[0] + table[1]])
                    end += table[1]
                row[LUT] = places[table]
        groups.append((start, stop, first, end - first if end - first <= MOST_TABLE_CELLS else 0))
    return np.array(groups, np.int32).reshape(-1, 4), instructions, np.concatenate(pieces)
