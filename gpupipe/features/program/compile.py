"""Virtual columns to instructions: the only place that writes a `Program`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gpupipe.features.program.expressions import Codes, IndexStep, Numbers, Start, Step
from gpupipe_kernels.program.opcodes import PART_SIZES, STARTS_SEGMENT, CalendarPart, Opcode
from gpupipe_kernels.program.program import Call, Program, block_id

KEEPS_SHIFT = ("FILL", "CLIP")


def lower(columns: Iterable[Numbers], places: Mapping[str, tuple[str, int]], folds: bool = True) -> Program:
    """Return the program that writes `columns`, one behind the other.

    Parameters
    ----------
    columns : iterable of Numbers
    places : mapping of str to (str, int)
        Where each source column lies: block and row.
    folds : bool
        Whether training rows read the table of their own fold; False keeps the full statistics alone, as a served
        model does.
    """
    writer = _Writer(places, folds)
    width = 0
    for width, column in enumerate(columns, start=1):
        writer.column(column, width - 1)
    return Program(
        np.array(writer.instructions, np.int32).reshape(-1, 8),
        np.array(writer.params, np.float64),
        np.concatenate(writer.luts) if writer.luts else np.empty(0, np.float32),
        width,
        tuple(writer.calls),
    )


class _Writer:
    def __init__(self, places: Mapping[str, tuple[str, int]], folds: bool) -> None:
        self.places, self.folds = places, folds
        self.instructions: list[list[int]] = []
        self.params: list[float] = []
        self.luts: list[np.ndarray] = []
        self.n_luts = 0
        self.index: object = None  # what the index register holds at this point
        self.calls: list[Call] = []

    def column(self, column: Numbers, dst: int, register: int = 0) -> None:
        """Write the instructions of a column; registers from `register` on are free."""
        center = self._start(column, dst, register)
        for step in column.steps:
            self._step(step, dst, center)
            if step.op == "CENTER":
                center = 0.0

    def _start(self, column: Numbers, dst: int, register: int) -> float:
        """Write the first value; return the shift that has been subtracted of it already."""
        start = column.start
        op = Opcode[start.op]
        if start.operands:
            self._combine(op, start, dst, register)
            return 0.0
        if op is Opcode.TAKE:
            self._take(start.codes, start.table, dst)  # type: ignore[arg-type]
            return 0.0
        if op is Opcode.LOAD:
            # Centring in the source's precision keeps what float32 would lose of a large mean with a small spread.
            center = _center_of(column.steps)
            if self.places[start.source][0] == "float32":
                center = float(np.float32(center))  # what it subtracts exactly; SCALE adds the rest
            self._put(op, dst, start.source, params=(center,))
            return center
        arg = self.places[start.other][1] if start.other else start.arg
        self._put(op, dst, start.source, arg=arg, params=start.params)
        return 0.0

    def _combine(self, op: Opcode, start: Start, dst: int, register: int) -> None:
        """Write the operands, all but the last to registers, and the instruction that takes them."""
        *stored, last = start.operands
        for i, operand in enumerate(stored, start=register):
            self.column(operand, dst, i)
            self._put(Opcode.STORE, dst, arg=i)
        self.column(last, dst, register + len(stored))
        self._put(op, dst, arg=register, params=start.params, size=0 if start.call is None else self._call(start.call))

    def _call(self, call: Call) -> int:
        """Return the number of a user's kernel in this program."""
        if call not in self.calls:
            self.calls.append(call)
        return self.calls.index(call)

    def _step(self, step: Step, dst: int, shift: float) -> None:
        if step.op == "CENTER":
            center, factor = step.params
            params = (factor, (shift - center) * factor)
            if params != (1.0, 0.0):
                self._put(Opcode.SCALE, dst, params=params)
        elif step.op in KEEPS_SHIFT:
            self._put(Opcode[step.op], dst, params=tuple(p - shift for p in step.params))
        else:
            self._put(Opcode[step.op], dst, params=step.params)

    def _take(self, codes: Codes, table: np.ndarray, dst: int) -> None:
        by_fold = table.ndim == 2 and self.folds
        self._index(codes.index, codes.size, by_fold)
        values = table.reshape(-1) if by_fold or table.ndim == 1 else table[0]
        self._put(Opcode.TAKE, dst, lut=values)

    def _index(self, steps: tuple[IndexStep, ...], size: int, by_fold: bool) -> None:
        if self.index == (steps, by_fold):
            return  # the register holds it already
        for step in steps:
            op = Opcode[step.op]
            if op is Opcode.INDEX_PART:
                self._put(op, -1, step.source, arg=step.part, size=PART_SIZES[CalendarPart(step.part)])
            elif op is Opcode.INDEX_BIN:
                self._put(op, -1, step.source, arg=step.stride, lut=np.array(step.edges, np.float32))
            else:
                self._put(op, -1, step.source, arg=step.stride)
        if by_fold:
            self._put(Opcode.INDEX_FOLD, -1, arg=size)
        self.index = (steps, by_fold)

    def _put(
        self,
        op: Opcode,
        dst: int,
        source: str = "",
        arg: int = 0,
        params: tuple[float, ...] = (),
        lut: np.ndarray | None = None,
        size: int = 0,
    ) -> None:
        if op in STARTS_SEGMENT:
            self.index = None  # segments are independent: an index does not outlive its own
        block, row = self.places[source] if source else ("", -1)
        param_at, lut_at = len(self.params), self.n_luts
        self.params += params
        if lut is not None:
            self.luts.append(np.ascontiguousarray(lut, np.float32))
            self.n_luts += len(lut)
            size = len(lut)
        place = (block_id(block), row) if source else (-1, -1)
        self.instructions.append([int(op), dst, *place, arg, param_at, lut_at, size])


def _center_of(steps: tuple[Step, ...]) -> float:
    """Return the center that a LOAD may subtract: that of the first CENTER, if nothing before it bends the value."""
    for step in steps:
        if step.op == "CENTER":
            return step.params[0]
        if step.op not in KEEPS_SHIFT:
            return 0.0
    return 0.0
