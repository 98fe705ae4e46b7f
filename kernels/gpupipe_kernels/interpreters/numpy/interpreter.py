"""Interpreter in blocked, threaded NumPy: the readable reference, and the default on the CPU.

Rows are split into blocks that fit into the cache; each block runs the whole instruction table and writes its rows of
the matrix directly. NumPy releases the interpreter lock inside its loops, so blocks run in parallel on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpupipe_kernels.formulas.calendar import TimeZone, local_times, part
from gpupipe_kernels.program.opcodes import BLOCKS, NAT, PICKS_ZONE, READS_ZONE, STARTS_SEGMENT, WRITES_INDEX, Opcode
from gpupipe_kernels.program.program import Call, Program, has_wide_edges
from gpupipe_kernels.reference import bearing, central_angle, degrees, in_float32, sine, yeo_johnson
from gpupipe_kernels.threads import run_blocks
from gpupipe_kernels.typing import Array

BLOCK_ROWS = 65_536  # shorter blocks lose time to the interpreter lock
MOST_BLOCK_ROWS = 131_072  # and longer ones to cache misses
PART_ROWS = 8_192  # a calendar part makes many passes over temporaries, which should stay in the cache


def run(
    program: Program,
    blocks: Mapping[str, Array],
    out: Array,
    fold: Array | None = None,
    n_threads: int = 1,
) -> None:
    """Run `program` over a table and write every column of `out`.

    Raise ValueError if the shape or dtype of `out` does not match the program.

    Parameters
    ----------
    blocks : mapping of str to ndarray, shape (columns, rows)
        dtype name to block (see `gpupipe_kernels.program.opcodes.BLOCKS`).
    out : ndarray of float32, shape (rows, program.n_columns), column-major
    fold : ndarray of int8, shape (rows,), optional
        The out-of-fold table that each row reads; 0, or None for all rows, means the full statistics.
    n_threads : int
        Number of blocks that run in parallel.
    """
    n_rows = out.shape[0]
    if out.dtype != np.float32 or out.shape != (n_rows, program.n_columns):
        raise ValueError(f"expected a float32 matrix with {program.n_columns} columns, got {out.dtype} {out.shape}")
    steps, index = [], tuple[Any, ...]()
    for row in program.instructions.tolist():
        index = () if row[0] in STARTS_SEGMENT else index
        steps.append(_Step(row, program, blocks, out, fold, index))
        if row[0] in WRITES_INDEX:
            index += (tuple(row if row[-1] else row[:5]),)  # PARAM and LUT matter if there is a table
    block_rows = min(max(n_rows // (4 * n_threads), BLOCK_ROWS), MOST_BLOCK_ROWS)
    run_blocks(lambda start, stop: _run_block(steps, start, stop), n_rows, block_rows, n_threads)


class _Step:
    """An instruction with its operands resolved once for all blocks."""

    def __init__(
        self,
        row: list[int],
        program: Program,
        blocks: Mapping[str, Array],
        out: Array,
        fold: Array | None,
        index: tuple[Any, ...],
    ):
        op, dst, block, source, self.arg, param, lut, self.size = row
        self.act = ACTIONS[op]
        self.source = blocks[BLOCKS[block]][source] if block >= 0 else None
        self.other = blocks[BLOCKS[block]][self.arg] if op == Opcode.BETWEEN else None
        self.call: Call | None = program.calls[self.size] if op == Opcode.CALL else None
        self.out = out[:, dst] if dst >= 0 else None
        self.params = program.params[param : param + 2].tolist()
        is_wide = has_wide_edges(row)
        self.lut = program.params[param : param + self.size] if is_wide else program.luts[lut : lut + self.size]
        self.picks = op in PICKS_ZONE
        self.zone = TimeZone.of(tuple(self.lut.tolist()), self.picks) if op in READS_ZONE else None
        self.local = (block, source, param, index if self.picks else ())  # identifies the local times
        self.fold = fold


class _Registers:
    """Registers of the machine for one block of rows; threads share no state that they write."""

    def __init__(self, start: int, stop: int) -> None:
        self.rows = slice(start, stop)
        self.index = np.empty(stop - start, np.intp)
        self.mask = np.empty(stop - start, bool)
        self.stack: list[Array] = []
        self.local: tuple[Any, Array] | None = None

    def pop(self, n: int) -> list[Array]:
        """Pop and return the last `n` registers of the stack."""
        at = len(self.stack) - n
        taken = self.stack[at:]
        del self.stack[at:]
        return taken


def _run_block(steps: list[_Step], start: int, stop: int) -> None:
    at = _Registers(start, stop)
    # log(1 + x) below -1, division by 0 and float32 overflow have a defined result here: NaN.
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for step in steps:
            x = None if step.source is None else step.source[start:stop]
            acc = None if step.out is None else step.out[start:stop]
            step.act(step, x, acc, at)


def _load(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    shift = step.params[0]
    if shift == 0.0:
        np.copyto(acc, x, casting="same_kind")
    else:
        np.subtract(x, x.dtype.type(shift), out=acc, casting="same_kind")


def _equal(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    np.equal(x, step.arg, out=at.mask)
    np.copyto(acc, at.mask)


def _is_null(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    if x.dtype == np.int64:
        np.equal(x, NAT, out=at.mask)
    else:
        np.isnan(x, out=at.mask)
    np.copyto(acc, at.mask)


def _elapsed(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    np.equal(x, NAT, out=at.mask)
    origin, factor = step.params
    np.multiply(x.astype(np.float64) - origin, factor, out=acc, casting="same_kind")
    np.copyto(acc, np.nan, where=at.mask)


def _part(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    x = _local(step, x, at)
    np.equal(x, NAT, out=at.mask)
    _calendar(x, step.arg, acc)
    np.copyto(acc, np.nan, where=at.mask)


def _local(step: _Step, x: Any, at: _Registers) -> Any:
    """Return times in the zone of an instruction; consecutive parts of a column share them."""
    if step.zone is None:
        return x
    if at.local is None or at.local[0] != step.local:
        found = np.empty_like(x)
        for low in range(0, len(x), PART_ROWS):
            rows = slice(low, low + PART_ROWS)
            found[rows] = local_times(x[rows], step.zone, index=at.index[rows] if step.picks else None)
        at.local = step.local, found
    return at.local[1]


def _calendar(x: Any, which: int, out: Any) -> None:
    for low in range(0, len(x), PART_ROWS):
        out[low : low + PART_ROWS] = part(x[low : low + PART_ROWS], which)


def _fill(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    np.isnan(acc, out=at.mask)
    if at.mask.any():  # the check is cheaper than an empty masked copy
        np.copyto(acc, step.params[0], where=at.mask)


def _log1p(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    np.log1p(acc, out=acc)
    _infinite_is_null(acc, at)


def _infinite_is_null(acc: Any, at: _Registers) -> None:
    np.isfinite(acc, out=at.mask)
    if not at.mask.all():
        np.copyto(acc, np.nan, where=~at.mask)


def _clip(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    np.clip(acc, np.float32(step.params[0]), np.float32(step.params[1]), out=acc)


def _scale(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    factor, offset = step.params
    np.multiply(acc, np.float32(factor), out=acc)
    if offset != 0.0:
        np.add(acc, np.float32(offset), out=acc)
    _infinite_is_null(acc, at)


def _sine(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    factor, offset = step.params
    acc[:] = sine(acc, factor, offset)


def _take(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    # mode "clip" lets NumPy write directly to `acc`; `Program.check` guarantees that indices are in range.
    np.take(step.lut, at.index, out=acc, mode="clip")


def _index(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    np.copyto(at.index, x)


def _index_pair(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    np.multiply(at.index, step.arg, out=at.index)
    np.add(at.index, x, out=at.index)


def _index_fold(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    if step.fold is not None:
        np.add(at.index, step.fold[at.rows] * np.intp(step.arg), out=at.index)


def _index_part(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    np.equal(x, NAT, out=at.mask)
    _calendar(x, step.arg, at.index)
    np.copyto(at.index, step.size, where=at.mask)


def _index_local_part(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    x = _local(step, x, at)
    np.equal(x, NAT, out=at.mask)
    _calendar(x, step.arg, at.index)
    at.index += 1
    np.copyto(at.index, 0, where=at.mask)


def _index_bin(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    np.isnan(x, out=at.mask)
    np.add(np.searchsorted(step.lut, x, side="right"), step.arg, out=at.index)
    np.copyto(at.index, 0, where=at.mask)


def _store(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    at.stack.append(acc.copy())


def _combine(ufunc: np.ufunc) -> Action:
    def apply(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
        ufunc(at.stack.pop(), acc, out=acc)
        _infinite_is_null(acc, at)

    return apply


def _haversine(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    radius, origin = step.params
    acc[:] = radius * central_angle(*_points(at, acc, origin))


def _bearing(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    acc[:] = bearing(*_points(at, acc, step.params[1]))


def _points(at: _Registers, acc: Any, origin: float) -> tuple[Any, Any, Any, Any]:
    """Return two points in float64 degrees, with absolute latitudes."""
    lat1, lon1, lat2 = at.pop(3)
    return degrees(lat1, lon1, lat2, acc, origin)


def _yeo_johnson(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    acc[:] = in_float32(yeo_johnson(np.asarray(acc, np.float64), step.params[0]))


def _between(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    y = step.other[at.rows]  # type: ignore[index]
    np.equal(x, NAT, out=at.mask)
    np.logical_or(at.mask, y == NAT, out=at.mask)
    np.multiply(x.astype(np.float64) - y, step.params[0], out=acc, casting="same_kind")
    np.copyto(acc, np.nan, where=at.mask)


def _call(step: _Step, x: Any, acc: Any, at: _Registers) -> None:
    assert step.call is not None
    step.call.host(*at.pop(step.call.n_inputs - 1), acc, out=acc)


Action = Callable[[_Step, Any, Any, _Registers], None]

ACTIONS: dict[int, Action] = {
    Opcode.LOAD: _load,
    Opcode.EQUAL: _equal,
    Opcode.IS_NULL: _is_null,
    Opcode.ELAPSED: _elapsed,
    Opcode.PART: _part,
    Opcode.FILL: _fill,
    Opcode.LOG1P: _log1p,
    Opcode.CLIP: _clip,
    Opcode.SCALE: _scale,
    Opcode.SINE: _sine,
    Opcode.TAKE: _take,
    Opcode.INDEX: _index,
    Opcode.INDEX_PAIR: _index_pair,
    Opcode.INDEX_FOLD: _index_fold,
    Opcode.INDEX_PART: _index_part,
    Opcode.INDEX_BIN: _index_bin,
    Opcode.STORE: _store,
    Opcode.ADD: _combine(np.add),
    Opcode.SUBTRACT: _combine(np.subtract),
    Opcode.MULTIPLY: _combine(np.multiply),
    Opcode.DIVIDE: _combine(np.divide),
    Opcode.HAVERSINE: _haversine,
    Opcode.BEARING: _bearing,
    Opcode.YEO_JOHNSON: _yeo_johnson,
    Opcode.BETWEEN: _between,
    Opcode.CALL: _call,
    Opcode.LOCAL_PART: _part,
    Opcode.INDEX_LOCAL_PART: _index_local_part,
    Opcode.ZONED_PART: _part,
    Opcode.INDEX_ZONED_PART: _index_local_part,
}
