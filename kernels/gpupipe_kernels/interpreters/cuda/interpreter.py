"""Computation of all row-wise features of a configuration in one launch on the device.

The interpreter runs any program without compilation. A kernel generated for the program (`specialisation`) replaces it
once the program has computed enough cells to justify compiling, and only if both give the same result.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from gpupipe_kernels.device import arrays
from gpupipe_kernels.device.compiler import compiler_obstacle
from gpupipe_kernels.interpreters.cuda.loops import LOOPS, PANEL_CELLS, THREADS, Order, interpreters_for
from gpupipe_kernels.interpreters.cuda.program import DeviceProgram, device_program
from gpupipe_kernels.interpreters.cuda.specialisation import compile_source, could_pay, is_worth_it
from gpupipe_kernels.interpreters.cuda.steps import ROWS_A_THREAD
from gpupipe_kernels.interpreters.lines import block_line, blocks_read, matrix_line
from gpupipe_kernels.launch import DeviceLoop, is_simulated
from gpupipe_kernels.program.opcodes import BLOCKS
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.typing import DeviceArray, HostArray

__all__ = ["LOOPS", "PANEL_CELLS", "ROWS_A_THREAD", "THREADS", "DeviceProgram", "device_program", "run"]

MOST_BLOCKS = 8_192  # several per slot, so that slots become free at about the same time
MOST_PARTS = 65_535  # rows of a grid; a program that reads more columns takes several launches
PROOF_CELLS = 2**22  # rows over which a specialised kernel is compared with the interpreter
PROOF_RTOL, PROOF_SHARE = 1e-6, 1e-3  # see `is_within_proof`


_proven: dict[str, bool] = {}
"""Maps the key of a specialised kernel's source to whether it gives the interpreter's result."""


def run(
    program: Program | DeviceProgram,
    blocks: Mapping[str, DeviceArray],
    out: DeviceArray,
    fold: DeviceArray | None = None,
    specialised: bool | None = None,
) -> str:
    """Run `program` over a table in device memory and write every column of `out`, asynchronously.

    Results equal those of the NumPy interpreter within the tolerances that `interpreters.kernels` declares; the device
    fuses multiplications and additions.

    Parameters
    ----------
    program : Program or DeviceProgram
        Uploaded at its first run.
    blocks : mapping of str to device array, shape (columns, rows)
        dtype name to block, with contiguous rows per column. Any object with ``__cuda_array_interface__``.
    out : device array of float32, shape (rows, program.n_columns), column-major or row-major
    fold : device array of int8, shape (rows,), optional
        The out-of-fold table that each row reads; None for the full statistics.
    specialised : bool, optional
        Whether to compile a kernel for this program; None: once that pays off. A table with fewer rows than one tile
        is always interpreted.

    Returns
    -------
    str
        ``"cuda"``, ``"cuda, specialised"``, or ``"cuda, not specialised: "`` and the reason why nothing can be
        compiled although it would pay off.

    Raises
    ------
    ValueError
        If the shape, dtype or layout of `out` or a block does not fit the program.
    """
    ready = program if isinstance(program, DeviceProgram) else device_program(program)
    length, row_step, column_step = matrix_line(out, ready.program.n_columns)
    if length == 0:
        return "cuda"
    order: Order = "columns" if row_step == 1 else "rows"
    launch = _Launch(
        ready, order, _Table.of(blocks_read(ready.program, blocks, out.shape[0]), out.shape[0], fold),
        arrays.cells(out, length), column_step if order == "columns" else row_step,
    )  # fmt: skip
    kernel, name = _specialised(launch, specialised)
    launch.run(kernel)
    ready.n_cells += out.shape[0] * out.shape[1] if kernel is None else 0
    return name


@dataclass(frozen=True)
class _Launch:
    """A run of a program: its input table and its output matrix.

    Attributes
    ----------
    program : DeviceProgram
    order : {"columns", "rows"}
    table : _Table
    out : device array of float32
        The cells of the matrix as a 1-D array.
    step : int
        Cells from one column, or row, of the matrix to the next.
    """

    program: DeviceProgram
    order: Order
    table: _Table
    out: DeviceArray
    step: int

    @property
    def threads(self) -> int:
        """Threads per block."""
        return THREADS[self.order]

    @property
    def is_tiled(self) -> bool:
        """True if the table has at least as many rows as a tile, so that each thread runs over several rows."""
        return self.table.n_rows >= ROWS_A_THREAD * self.threads

    def run(self, kernel: DeviceLoop | None) -> None:
        """Launch the specialised kernel or the interpreter."""
        tables, is_columns = self.program.tables(self.order), self.order == "columns"
        lines, parts, luts = tables.arguments
        stack_cells = self.program.depth * ROWS_A_THREAD * self.threads if kernel is None else 0
        shared_cells = PANEL_CELLS
        if is_columns:
            shared_cells = int(tables.parts[:, 3].max(initial=0)) if kernel is None else 0
        loop = kernel or interpreters_for(self.program.program.calls)[self.order, self.is_tiled]
        n_groups = len(tables.parts) if is_columns else 1
        for begin in range(0, n_groups, MOST_PARTS):
            n_parts = min(MOST_PARTS, n_groups - begin)
            group = parts[4 * begin : 4 * (begin + n_parts)] if n_parts < n_groups else parts
            n_blocks = min(self.table.n_tiles(self.threads), max(1, MOST_BLOCKS // n_parts))
            loop.launch(
                (n_blocks * self.threads, n_parts),
                lines, group, luts, np.int32(stack_cells), *self.table.folds, np.uint64(self.table.n_rows),
                self.out, np.uint64(self.step), _is_aligned(self.out, self.step), *self.table.lines, *self.table.steps,
                threads=self.threads, shared=4 * max(4, stack_cells + shared_cells),
            )  # fmt: skip


def _specialised(launch: _Launch, wanted: bool | None) -> tuple[DeviceLoop | None, str]:
    """Return the kernel specialised to a program, None if the interpreter should run; and the result of `run`.

    Raises
    ------
    RuntimeError
        If the kernel is `wanted` but does not give the interpreter's result.
    """
    program = launch.program
    if wanted is False or not launch.is_tiled or program.program.n_columns == 0:
        return None, "cuda"
    figures = len(program.program.instructions), program.n_cells
    if wanted is None and not could_pay(launch.order, *figures):
        return None, "cuda"
    source = program.source(launch.order)
    if wanted is None and not is_worth_it(source, *figures):
        return None, "cuda"
    if wanted is None and not is_simulated() and (obstacle := compiler_obstacle()):
        return None, f"cuda, not specialised: {obstacle}"
    kernel = compile_source(source, program.program.calls)
    if source.key not in _proven:
        _proven[source.key] = _agrees(launch, kernel)
        if not _proven[source.key]:
            warnings.warn(
                f"results of {source.key} differ from the interpreter, which runs instead: report the configuration",
                RuntimeWarning, stacklevel=2,
            )  # fmt: skip
    if wanted and not _proven[source.key]:
        raise RuntimeError(f"results of {source.key} differ from the interpreter")
    return (kernel, "cuda, specialised") if _proven[source.key] else (None, "cuda")


def _agrees(launch: _Launch, kernel: DeviceLoop) -> bool:
    """Return whether a kernel and the interpreter give the same results for the first rows of the table."""
    n_columns = launch.program.program.n_columns
    n_rows = min(launch.table.n_rows, max(ROWS_A_THREAD * launch.threads, PROOF_CELLS // n_columns))
    step = n_rows if launch.order == "columns" else n_columns
    found = []
    for loop in (None, kernel):
        out = arrays.empty(n_rows * n_columns, np.float32)
        replace(launch, table=replace(launch.table, n_rows=n_rows), out=out, step=step).run(loop)
        found.append(arrays.download(out))
    if launch.order == "columns":
        return is_within_proof(*(cells.reshape(n_columns, n_rows) for cells in found))
    return is_within_proof(*(cells.reshape(n_rows, n_columns).T for cells in found))


def is_within_proof(expected: HostArray, computed: HostArray) -> bool:
    """Return whether two kernels give the same results, shape (columns, rows), except for roundings.

    Each formula may fuse its own operations differently. Where it subtracts, a result is uncertain by the scale of the
    operands, taken to be the median of the column. A comparison may decide otherwise, in at most 1 of 1,000 cells.
    """
    return all(_is_column_within_proof(*columns) for columns in zip(expected, computed, strict=True))


def _is_column_within_proof(expected: HostArray, computed: HostArray) -> bool:
    sizes = np.abs(expected)
    usual = sizes[(sizes > 0) & (sizes < np.inf)]
    scale = np.median(usual) if usual.size else 0.0
    is_same = np.isclose(computed, expected, rtol=PROOF_RTOL, atol=PROOF_RTOL * scale, equal_nan=True)
    return bool(np.mean(~is_same) <= PROOF_SHARE and np.array_equal(np.isnan(computed), np.isnan(expected)))


@dataclass(frozen=True)
class _Table:
    """The launch arguments that depend on the table; none of them needs an upload.

    Attributes
    ----------
    n_rows : int
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
