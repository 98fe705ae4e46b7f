"""Computation of all row-wise features of a configuration in one launch on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gpupipe_kernels.device import arrays
from gpupipe_kernels.interpreters.cuda.lines import block_line, blocks_read, matrix_line
from gpupipe_kernels.interpreters.cuda.loops import LOOPS, PANEL_CELLS, THREADS, Order, interpreters_for
from gpupipe_kernels.interpreters.cuda.program import DeviceProgram, device_program
from gpupipe_kernels.interpreters.cuda.steps import ROWS_A_THREAD
from gpupipe_kernels.program.opcodes import BLOCKS
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.typing import DeviceArray

__all__ = ["LOOPS", "PANEL_CELLS", "ROWS_A_THREAD", "THREADS", "DeviceProgram", "device_program", "run"]

MOST_BLOCKS = 8_192  # several per slot, so that slots become free at about the same time
MOST_PARTS = 65_535  # rows of a grid; a program that reads more columns takes several launches


def run(
    program: Program | DeviceProgram,
    blocks: Mapping[str, DeviceArray],
    out: DeviceArray,
    fold: DeviceArray | None = None,
) -> None:
    """Run `program` over a table in device memory and write every column of `out`, asynchronously.

    Results equal those of the NumPy interpreter within the tolerances that `interpreters.kernels` declares; the device
    fuses multiplications and additions. Raise ValueError if the shape, dtype or layout of `out` or a block does not fit
    the program.

    Parameters
    ----------
    program : Program or DeviceProgram
        Uploaded at its first run.
    blocks : mapping of str to device array, shape (columns, rows)
        dtype name to block, with contiguous rows per column. Any object with ``__cuda_array_interface__``.
    out : device array of float32, shape (rows, program.n_columns), column-major or row-major
    fold : device array of int8, shape (rows,), optional
        The out-of-fold table that each row reads; None for the full statistics.
    """
    ready = program if isinstance(program, DeviceProgram) else device_program(program)
    length, row_step, column_step = matrix_line(out, ready.program.n_columns)
    if length == 0:
        return
    order: Order = "columns" if row_step == 1 else "rows"
    is_columns, threads = order == "columns", THREADS[order]
    step = column_step if is_columns else row_step
    table = _Table.of(blocks_read(ready.program, blocks, out.shape[0]), out.shape[0], fold)
    cells, tables = arrays.cells(out, length), ready.tables(order)
    lines, parts, luts = tables.arguments
    stack_cells = ready.depth * ROWS_A_THREAD * threads
    shared_cells = int(tables.parts[:, 3].max(initial=0)) if is_columns else PANEL_CELLS
    loop = interpreters_for(ready.program.calls)[order, table.n_rows >= ROWS_A_THREAD * threads]
    n_groups = len(tables.parts) if is_columns else 1
    for begin in range(0, n_groups, MOST_PARTS):
        n_parts = min(MOST_PARTS, n_groups - begin)
        group = parts[4 * begin : 4 * (begin + n_parts)] if n_parts < n_groups else parts
        n_blocks = min(table.n_tiles(threads), max(1, MOST_BLOCKS // n_parts))
        loop.launch(
            (n_blocks * threads, n_parts),
            lines,
            group,
            luts,
            np.int32(stack_cells),
            *table.folds,
            np.uint64(table.n_rows),
            cells,
            np.uint64(step),
            _is_aligned(cells, step),
            *table.lines,
            *table.steps,
            threads=threads,
            shared=4 * max(4, stack_cells + shared_cells),
        )


@dataclass(frozen=True)
class _Table:
    """The launch arguments that depend on the table; none of them needs an upload.

    Attributes
    ----------
    lines : list of device arrays
        The blocks, in the order of `BLOCKS`; absent blocks are empty.
    steps : list of uint64
        For each block, the cells from one column to the next.
    folds : tuple of bool and device array
        Whether there are folds, and the folds.
    """

    n_rows: int
    lines: list[DeviceArray]
    steps: list[np.uint64]
    folds: tuple[bool, DeviceArray]

    @staticmethod
    def of(blocks: Mapping[str, DeviceArray], n_rows: int, fold: DeviceArray | None) -> _Table:
        lines, steps = zip(*(_block(blocks.get(name), name) for name in BLOCKS), strict=True)
        if fold is not None and (fold.dtype != "int8" or fold.shape != (n_rows,) or fold.strides != (1,)):
            raise ValueError(f"expected int8 folds of shape ({n_rows},), got {fold.dtype} {fold.shape}")
        folds = (False, _empty("int8")) if fold is None else (True, arrays.cells(fold, n_rows))
        return _Table(n_rows, list(lines), [np.uint64(step) for step in steps], folds)

    def n_tiles(self, threads: int) -> int:
        """Return the number of tiles; a block of threads processes one at a time."""
        each = ROWS_A_THREAD * threads
        return -(-self.n_rows // (each if self.n_rows >= each else threads))


def _block(block: DeviceArray | None, dtype: str) -> tuple[DeviceArray, int]:
    if block is None:
        return _empty(dtype), 0
    line = block_line(block)
    if line is None:
        raise ValueError(f"expected contiguous rows in the {dtype} block, got strides {block.strides}")
    return arrays.cells(block, line[0]), line[1]


@cache
def _empty(dtype: str) -> Any:
    """Return an empty device array, created once: an upload would wait for earlier launches."""
    return arrays.upload(np.empty(0, dtype))


def _is_aligned(line: Any, step: int) -> bool:
    """Return whether each row, or column, of a matrix is aligned to 16 bytes; `line` is its 1-D view."""
    return arrays.address(line) % 16 == 0 and step % 4 == 0
