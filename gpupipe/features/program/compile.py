"""Compiler from expressions to a `Program`; no other module writes instructions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gpupipe.features.program.expressions import CategoryExpr, IndexTerm, NumericExpr, Producer, Transform
from gpupipe_kernels.program.opcodes import (
    PART_SIZES,
    PICKS_ZONE,
    READS_ZONE,
    STARTS_SEGMENT,
    CalendarPart,
    Field,
    Opcode,
)
from gpupipe_kernels.program.program import NO_TABLE, Call, Program, block_id

KEEPS_SHIFT = ("FILL", "CLIP")


def compile_program(
    columns: Iterable[NumericExpr], places: Mapping[str, tuple[str, int]], folds: bool = True
) -> Program:
    """Return the program that computes `columns` in order.

    `places` has the block and row of each table column. With `folds`, each training row reads the lookup table of its
    fold; without, for serving, the program includes the full statistics only.
    """
    writer = _ProgramWriter(places, folds)
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


class _ProgramWriter:
    def __init__(self, places: Mapping[str, tuple[str, int]], folds: bool) -> None:
        self.places, self.folds = places, folds
        self.instructions: list[list[int]] = []
        self.params: list[float] = []
        self.luts: list[np.ndarray] = []
        self.n_luts = 0
        self.index: object = None  # the current contents of the index register
        self.calls: list[Call] = []
        self.zones: dict[tuple[float, ...], int] = {}  # the position of the table of each time zone

    def column(self, column: NumericExpr, dst: int, register: int = 0) -> None:
        """Write the instructions of a column; registers from `register` onwards are free."""
        center = self._produce(column, dst, register)
        for transform in column.transforms:
            self._transform(transform, dst, center)
            if transform.op == "CENTER":
                center = 0.0

    def _produce(self, column: NumericExpr, dst: int, register: int) -> float:
        """Write the producer; return the shift that it has already subtracted."""
        producer = column.producer
        op = Opcode[producer.op]
        if producer.operands:
            self._combine(op, producer, dst, register)
            return 0.0
        if op is Opcode.TAKE:
            assert producer.codes is not None
            table = np.asarray(producer.table)
            center = center_of(column.transforms) if table.dtype == np.float64 else 0.0
            self._take(producer.codes, table - center if center else table, dst)
            return center
        if op is Opcode.LOAD:
            # Centering in the precision of the source avoids the loss of a small spread around a large mean in float32.
            center = center_of(column.transforms)
            if self.places[producer.source][0] == "float32":
                center = float(np.float32(center))  # subtracted exactly; SCALE adds the remainder
            self._put(op, dst, producer.source, params=(center,))
            return center
        if op in PICKS_ZONE:
            self._index((IndexTerm("INDEX", producer.other),), 0, False)
        arg = self.places[producer.other][1] if op is Opcode.BETWEEN else producer.arg
        self._put(op, dst, producer.source, arg=arg, params=producer.params)
        return 0.0

    def _combine(self, op: Opcode, producer: Producer, dst: int, register: int) -> None:
        """Write the operands, the last one excepted to registers, and the instruction that combines them."""
        *stored, last = producer.operands
        for i, operand in enumerate(stored, start=register):
            self.column(operand, dst, i)
            self._put(Opcode.STORE, dst, arg=i)
        self.column(last, dst, register + len(stored))
        size = 0 if producer.call is None else self._call(producer.call)
        self._put(op, dst, arg=register, params=producer.params, size=size)

    def _call(self, call: Call) -> int:
        """Return the position of a user's kernel in the program."""
        if call not in self.calls:
            self.calls.append(call)
        return self.calls.index(call)

    def _transform(self, transform: Transform, dst: int, shift: float) -> None:
        if transform.op == "CENTER":
            center, factor = transform.params
            params = (factor, (shift - center) * factor)
            if params != (1.0, 0.0):
                self._put(Opcode.SCALE, dst, params=params)
        elif transform.op in KEEPS_SHIFT:
            self._put(Opcode[transform.op], dst, params=tuple(p - shift for p in transform.params))
        else:
            self._put(Opcode[transform.op], dst, params=transform.params)

    def _take(self, codes: CategoryExpr, table: np.ndarray, dst: int) -> None:
        by_fold = table.ndim == 2 and self.folds
        self._index(codes.index, codes.size, by_fold)
        values = table.reshape(-1) if by_fold or table.ndim == 1 else table[0]
        self._put(Opcode.TAKE, dst, lut=values)

    def _index(self, terms: tuple[IndexTerm, ...], size: int, by_fold: bool) -> None:
        if self.index == (terms, by_fold):
            return  # already in the register
        for term in terms:
            op = Opcode[term.op]
            if op is Opcode.INDEX_PART:
                self._put(op, -1, term.source, arg=term.part, size=PART_SIZES[CalendarPart(term.part)])
            elif op in READS_ZONE:
                if op in PICKS_ZONE:
                    self._put(Opcode.INDEX, -1, term.other)
                self._put(op, -1, term.source, arg=term.part, params=term.edges)
            elif op is Opcode.INDEX_BIN:
                self._bins(term)
            else:
                self._put(op, -1, term.source, arg=term.stride)
        if by_fold:
            self._put(Opcode.INDEX_FOLD, -1, arg=size)
        self.index = (terms, by_fold)

    def _bins(self, term: IndexTerm) -> None:
        if self.places[term.source][0] == "float32":
            self._put(Opcode.INDEX_BIN, -1, term.source, arg=term.stride, lut=np.array(term.edges, np.float32))
            return
        n = len(term.edges)
        self._put(Opcode.INDEX_BIN, -1, term.source, arg=term.stride, params=term.edges, size=n)
        self.instructions[-1][Field.LUT] = NO_TABLE

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
            self.index = None  # an index is valid within its segment only
        block, row = self.places[source] if source else ("", -1)
        param_at, lut_at = len(self.params), self.n_luts
        if op in READS_ZONE:
            lut_at, size = NO_TABLE, len(params)
            param_at = self.zones.setdefault(params, param_at)
        self.params += params if param_at == len(self.params) else ()
        if lut is not None:
            self.luts.append(np.ascontiguousarray(lut, np.float32))
            self.n_luts += len(lut)
            size = len(lut)
        place = (block_id(block), row) if source else (-1, -1)
        self.instructions.append([int(op), dst, *place, arg, param_at, lut_at, size])


def center_of(transforms: tuple[Transform, ...]) -> float:
    """Return the center of the first CENTER if LOAD may subtract it, that is, if only FILL and CLIP precede it."""
    for transform in transforms:
        if transform.op == "CENTER":
            return transform.params[0]
        if transform.op not in KEEPS_SHIFT:
            return 0.0
    return 0.0
