"""Run a feature program on one row or a few, with the digits of the NumPy interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.formulas.calendar import TimeZone, local_times, part
from gpupipe_kernels.program.opcodes import NAT, PICKS_ZONE, READS_ZONE, Opcode
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.reference import bearing, central_angle, degrees, in_float32, sine, yeo_johnson
from gpupipe_kernels.rows.lowering import FINITE, InstructionGroup, LoweredInstruction, LoweredProgram, Positions, lower
from gpupipe_kernels.rows.records import SINGLE, TIME, Cells, RecordLayout, Records, cells_of, flat_cells
from gpupipe_kernels.typing import HostArray

Floats = npt.NDArray[np.float32]


class Registers(NamedTuple):
    """Registers of a lowered program: float32 (values, n), and int64 (indices, n)."""

    values: Floats
    indices: npt.NDArray[np.int64]


class RowProgram:
    """A feature program compiled for single rows. Threads may share it: each call has its own registers.

    Parameters
    ----------
    program : Program
        A program that `Program.check` accepts.
    positions : mapping of (block, row) to int
        Position of each source column among the cells of its kind.
    engine : {"numpy", "numba"}
        What runs the exact instructions: one NumPy call for each group of equal instructions, or a compiled loop over
        all of them. Both give the same bits.
    """

    def __init__(
        self, program: Program, positions: Positions, layout: RecordLayout, engine: Literal["numpy", "numba"] = "numpy"
    ) -> None:
        self.lowered = lower(program, positions)
        self.engine = engine
        is_compiled = engine == "numba"
        self._cells_of = flat_cells if is_compiled else cells_of
        self._steps = _numba_steps(self.lowered, layout) if is_compiled else _numpy_steps(self.lowered)

    def __repr__(self) -> str:
        n = len(self.lowered.instructions)
        return f"RowProgram({n} instructions in {len(self._steps)} steps, {self.engine})"

    @property
    def n_columns(self) -> int:
        """Number of columns of the matrix."""
        return len(self.lowered.outputs)

    def run(self, records: Records) -> Floats:
        """Return the feature matrix of records: float32, shape (n, n_columns), column-major."""
        n_rows, cells = len(records), self._cells_of(records)
        registers = Registers(
            np.empty((self.lowered.n_registers, n_rows), np.float32),
            np.empty((self.lowered.n_indices, n_rows), np.int64),
        )
        # log(1 + x) below -1, division by 0 and float32 overflow have a defined result here: NaN.
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            for step in self._steps:
                step(cells, registers)
        return registers.values.take(self.lowered.outputs, axis=0).T


Step = Callable[[Cells, Registers], None]


def _numba_steps(lowered: LoweredProgram, layout: RecordLayout) -> list[Step]:
    """Return the library groups as NumPy steps, and the exact groups between two of them as one compiled step.

    Library instructions read registers only, so all steps can have the cells as flat arrays.
    """
    from gpupipe_kernels.rows.row_loops import compiled_step

    steps: list[Step] = []
    run: list[InstructionGroup] = []
    table = lowered.table(layout)

    def close() -> None:
        if run:
            steps.append(compiled_step(table, lowered.luts, layout, run[0].start, run[-1].stop))
            run.clear()

    for group in lowered.groups:
        if group.is_library:
            close()
            steps.append(_numpy_step(group, lowered))
        else:
            run.append(group)
    close()
    return steps


def _numpy_steps(lowered: LoweredProgram) -> list[Step]:
    return [_numpy_step(group, lowered) for group in lowered.groups]


def _numpy_step(group: InstructionGroup, lowered: LoweredProgram) -> Step:
    return _GroupStep(group, lowered)


class _GroupStep:
    """A group of equal instructions with its operands resolved once."""

    def __init__(self, group: InstructionGroup, lowered: LoweredProgram) -> None:
        members, first = group.members, group.members[0]
        self.members: Sequence[LoweredInstruction] = members
        self.first = first
        self.luts = lowered.luts
        self.out = slice(members[0].dst, members[-1].dst + 1)
        self.cell = np.array([each.cell for each in members], np.intp)
        self.other = np.array([each.other for each in members], np.intp)
        self.index = np.array([each.index for each in members], np.intp)
        n_operands = len(first.operands)
        self.operands = [np.array([each.operands[i] for each in members], np.intp) for i in range(n_operands)]
        self.arg = np.array([[each.arg] for each in members], np.int64)
        self.lut = np.array([[each.lut] for each in members], np.int64)
        self.size = np.array([[each.size] for each in members], np.int64)
        n_params = 0 if first.has_wide_edges else len(first.params)
        self.wide = [np.array([[each.params[i]] for each in members], np.float64) for i in range(n_params)]
        with np.errstate(over="ignore"):
            self.narrow = [values.astype(np.float32) for values in self.wide]
        self.zone = TimeZone.of(first.params, first.op in PICKS_ZONE) if first.op in READS_ZONE else None
        self.act = ACTIONS[first.op]

    def __call__(self, cells: Cells, registers: Registers) -> None:
        out = (registers.indices if self.first.writes_index else registers.values)[self.out]
        self.act(self, cells, registers, out)

    def source(self, cells: Cells) -> HostArray:
        """Return the source cells, shape (members, n)."""
        kind = self.first.kind
        of_kind = (cells.single, cells.double, cells.times, cells.codes)[kind]
        found: HostArray = of_kind.T.take(self.cell, axis=0)
        return found

    def times(self, cells: Cells, registers: Registers) -> HostArray:
        """Return the source cells, in the time zone of the members if they have one."""
        found = self.source(cells)
        if self.zone is not None:
            index = registers.indices.take(self.index, axis=0) if self.first.op in PICKS_ZONE else None
            found = local_times(found, self.zone, index=index)
        return found

    def operand(self, registers: Registers, i: int = 0) -> Floats:
        """Return operand `i` of each member, shape (members, n)."""
        return registers.values.take(self.operands[i], axis=0)


def _load(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    shift = step.narrow[0] if step.first.kind == SINGLE else step.wide[0]
    np.subtract(step.source(cells), shift, out=out, casting="same_kind")


def _equal(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    np.copyto(out, step.source(cells) == step.arg)


def _is_null(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    x = step.source(cells)
    np.copyto(out, x == NAT if step.first.kind == TIME else np.isnan(x))


def _elapsed(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    x = step.source(cells)
    origin, factor = step.wide
    np.multiply(x.astype(np.float64) - origin, factor, out=out, casting="same_kind")
    np.copyto(out, np.nan, where=x == NAT)


def _between(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    x, y = step.source(cells), cells.times.T.take(step.other, axis=0)
    np.multiply(x.astype(np.float64) - y, step.wide[0], out=out, casting="same_kind")
    np.copyto(out, np.nan, where=(x == NAT) | (y == NAT))


def _part(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    x = step.times(cells, at)
    out[:] = part(x, step.first.arg)
    np.copyto(out, np.nan, where=x == NAT)


def _fill(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    x = step.operand(at)
    np.copyto(out, np.where(np.isnan(x), step.narrow[0], x))


def _log1p(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    np.log1p(step.operand(at), out=out)


def _finite(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    x = step.operand(at)
    np.copyto(out, np.where(np.isfinite(x), x, np.float32(np.nan)))


def _clip(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    # One by one: with arrays of bounds, `np.clip` may return the other of two zeros of different sign.
    for x, low, high, row in zip(step.operand(at), *step.narrow, out, strict=True):
        np.clip(x, low[0], high[0], out=row)


def _scale(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    x = step.operand(at) * step.narrow[0] + step.narrow[1]
    np.copyto(out, np.where(np.isfinite(x), x, np.float32(np.nan)))


def _sine(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    out[:] = sine(step.operand(at), *step.wide)


def _take(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    last = step.size - 1
    index = np.minimum(np.maximum(at.indices.take(step.index, axis=0), 0), last)
    np.take(step.luts, index + step.lut, out=out, mode="clip")


def _index(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    np.copyto(out, step.source(cells))


def _index_pair(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    np.add(at.indices.take(step.index, axis=0) * step.arg, step.source(cells), out=out)


def _index_part(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    x = step.source(cells)
    np.copyto(out, np.where(x == NAT, step.size, part(x, step.first.arg)))


def _index_local_part(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    x = step.times(cells, at)
    np.copyto(out, np.where(x == NAT, 0, part(x, step.first.arg) + 1))


def _index_bin(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    for each, x, row in zip(step.members, step.source(cells), out, strict=True):
        edges: Any = each.params if each.has_wide_edges else step.luts[each.lut : each.lut + each.size]
        found = np.searchsorted(edges, x, side="right") + each.arg
        np.copyto(row, np.where(np.isnan(x), 0, found))


def _combine(ufunc: np.ufunc) -> Action:
    def apply(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
        x = ufunc(step.operand(at, 0), step.operand(at, 1))
        np.copyto(out, np.where(np.isfinite(x), x, np.float32(np.nan)))

    return apply


def _points(step: _GroupStep, at: Registers) -> tuple[Any, Any, Any, Any]:
    """Return two points in float64 degrees, with absolute latitudes."""
    lat1, lon1, lat2, lon2 = (step.operand(at, i) for i in range(4))
    return degrees(lat1, lon1, lat2, lon2, step.wide[1])


def _haversine(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    out[:] = step.wide[0] * central_angle(*_points(step, at))


def _bearing(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    out[:] = bearing(*_points(step, at))


def _yeo_johnson(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    for each, x, row in zip(step.members, step.operand(at), out, strict=True):  # the exponent decides the formula
        row[:] = in_float32(yeo_johnson(x.astype(np.float64), each.params[0]))


def _call(step: _GroupStep, cells: Cells, at: Registers, out: Any) -> None:
    assert step.first.call is not None
    for each, row in zip(step.members, out, strict=True):
        step.first.call.host(*(at.values[operand] for operand in each.operands), out=row)


Action = Callable[[_GroupStep, Cells, Registers, Any], None]

ACTIONS: dict[int, Action] = {
    Opcode.LOAD: _load,
    Opcode.EQUAL: _equal,
    Opcode.IS_NULL: _is_null,
    Opcode.ELAPSED: _elapsed,
    Opcode.PART: _part,
    Opcode.FILL: _fill,
    Opcode.LOG1P: _log1p,
    FINITE: _finite,
    Opcode.CLIP: _clip,
    Opcode.SCALE: _scale,
    Opcode.SINE: _sine,
    Opcode.TAKE: _take,
    Opcode.INDEX: _index,
    Opcode.INDEX_PAIR: _index_pair,
    Opcode.INDEX_PART: _index_part,
    Opcode.INDEX_BIN: _index_bin,
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
