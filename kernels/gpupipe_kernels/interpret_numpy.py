"""The interpreter in blocked, threaded NumPy: the readable reference, and the CPU's default (no compiler, no warm-up).

Rows are cut into blocks that stay in the cache; each block runs the whole instruction table, straight into its rows of
the matrix. NumPy lets go of the interpreter lock inside its loops, so blocks run side by side on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.calendar import part
from gpupipe_kernels.opcodes import BLOCKS, NAT, Op
from gpupipe_kernels.program import Program

BLOCK_ROWS = 65_536  # shorter ones lose to the interpreter lock, longer ones to the cache

Array = npt.NDArray[Any]


def run(
    program: Program,
    blocks: Mapping[str, Array],
    out: Array,
    fold: Array | None = None,
    n_threads: int = 1,
) -> None:
    """Run `program` over a table and write every column of `out`.

    Parameters
    ----------
    program : Program
    blocks : mapping of str to ndarray, shape (columns, rows)
        dtype name to block (see `gpupipe_kernels.opcodes.BLOCKS`).
    out : ndarray of float32, shape (rows, program.n_columns), column-major
    fold : ndarray of int8, shape (rows,), optional
        Which out-of-fold table each row reads; 0, or None for all rows, is the full statistics.
    n_threads : int
        Blocks that run side by side.

    Raises
    ------
    ValueError
        If the shape or dtype of `out` is not the program's.
    """
    n_rows = out.shape[0]
    if out.dtype != np.float32 or out.shape != (n_rows, program.n_columns):
        raise ValueError(f"the matrix must be float32 with {program.n_columns} columns, got {out.dtype} {out.shape}")
    steps = [_Step(row, program, blocks, out, fold) for row in program.instructions.tolist()]
    starts = range(0, n_rows, BLOCK_ROWS)
    if n_threads == 1 or len(starts) <= 1:
        for start in starts:
            _run_block(steps, start, min(start + BLOCK_ROWS, n_rows))
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="gpupipe-features") as pool:
        list(pool.map(lambda start: _run_block(steps, start, min(start + BLOCK_ROWS, n_rows)), starts))


class _Step:
    """One instruction, its operands looked up once for all blocks."""

    def __init__(self, row: list[int], program: Program, blocks: Mapping[str, Array], out: Array, fold: Array | None):
        op, dst, block, source, self.arg, param, lut, self.size = row
        self.act = ACTIONS[Op(op)]
        self.source = blocks[BLOCKS[block]][source] if block >= 0 else None
        self.out = out[:, dst] if dst >= 0 else None
        self.params = program.params[param : param + 2].tolist()
        self.lut = program.luts[lut : lut + self.size]
        self.fold = fold


def _run_block(steps: list[_Step], start: int, stop: int) -> None:
    # The index and mask registers belong to the block: threads share nothing that they write.
    index = np.empty(stop - start, np.intp)
    mask = np.empty(stop - start, bool)
    # log1p below -1 and arithmetic on inf are defined results here (NaN, inf), not accidents.
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for step in steps:
            x = None if step.source is None else step.source[start:stop]
            acc = None if step.out is None else step.out[start:stop]
            step.act(step, x, acc, index, mask, start)


def _load(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    shift = step.params[0]
    if shift == 0.0:
        np.copyto(acc, x, casting="same_kind")
    else:
        np.subtract(x, x.dtype.type(shift), out=acc, casting="same_kind")


def _equal(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    np.equal(x, step.arg, out=mask)
    np.copyto(acc, mask)


def _is_null(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    if x.dtype == np.int64:
        np.equal(x, NAT, out=mask)
    else:
        np.isnan(x, out=mask)
    np.copyto(acc, mask)


def _elapsed(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    np.equal(x, NAT, out=mask)
    origin, factor = step.params
    np.multiply(x.astype(np.float64) - origin, factor, out=acc, casting="same_kind")
    np.copyto(acc, np.nan, where=mask)


def _part(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    np.equal(x, NAT, out=mask)
    np.copyto(acc, part(x, step.arg), casting="unsafe")
    np.copyto(acc, np.nan, where=mask)


def _fill(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    np.isnan(acc, out=mask)
    np.copyto(acc, step.params[0], where=mask)


def _log1p(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    np.log1p(acc, out=acc)


def _clip(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    np.clip(acc, np.float32(step.params[0]), np.float32(step.params[1]), out=acc)


def _scale(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    factor, offset = step.params
    np.multiply(acc, np.float32(factor), out=acc)
    if offset != 0.0:
        np.add(acc, np.float32(offset), out=acc)


def _sine(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    _scale(step, x, acc, index, mask, start)
    np.sin(acc, out=acc)


def _take(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    # mode "clip" lets NumPy write straight into `acc`; indices are in range by `Program.check`.
    np.take(step.lut, index, out=acc, mode="clip")


def _index(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    np.copyto(index, x)


def _index_pair(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    np.multiply(index, step.arg, out=index)
    np.add(index, x, out=index)


def _index_fold(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    if step.fold is not None:
        np.add(index, step.fold[start : start + len(index)] * np.intp(step.arg), out=index)


def _index_part(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    np.equal(x, NAT, out=mask)
    np.copyto(index, part(x, step.arg))
    np.copyto(index, step.size, where=mask)


def _index_bin(step: _Step, x: Any, acc: Any, index: Array, mask: Array, start: int) -> None:
    np.isnan(x, out=mask)
    np.add(np.searchsorted(step.lut, x.astype(np.float32, copy=False), side="right"), step.arg, out=index)
    np.copyto(index, 0, where=mask)


Action = Callable[[_Step, Any, Any, Array, Array, int], None]

ACTIONS: dict[Op, Action] = {
    Op.LOAD: _load,
    Op.EQUAL: _equal,
    Op.IS_NULL: _is_null,
    Op.ELAPSED: _elapsed,
    Op.PART: _part,
    Op.FILL: _fill,
    Op.LOG1P: _log1p,
    Op.CLIP: _clip,
    Op.SCALE: _scale,
    Op.SINE: _sine,
    Op.TAKE: _take,
    Op.INDEX: _index,
    Op.INDEX_PAIR: _index_pair,
    Op.INDEX_FOLD: _index_fold,
    Op.INDEX_PART: _index_part,
    Op.INDEX_BIN: _index_bin,
}
