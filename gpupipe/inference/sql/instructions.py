"""The feature program in SQL: an interpreter that writes expressions instead of numbers.

It reads the register form of a program (`gpupipe_kernels.rows.lowering`). The formulas are those of
`gpupipe_kernels.rows.row_program`: float32 numbers are computed in float64 and rounded, which gives the same bits for a
sum, difference, product and quotient. A register that only trees read is not rounded; see `SqlDialect.is_left`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sqlglot import exp

from gpupipe.inference.sql import formulas
from gpupipe.inference.sql.dialect import INFINITE, Expr, all_of, case, column, integer, is_null, number
from gpupipe.inference.sql.inputs import Cell
from gpupipe.inference.targets.calendar import calendar_part
from gpupipe_kernels.program.opcodes import (
    IS_FINITE,
    MAX_DEGREES,
    MAX_TURNS,
    PICKS_ZONE,
    READS_ZONE,
    CalendarPart,
    Opcode,
)
from gpupipe_kernels.program.time_zones import split_zones
from gpupipe_kernels.rows.lowering import FINITE
from gpupipe_kernels.rows.records import DOUBLE, SINGLE

if TYPE_CHECKING:
    from gpupipe.inference.sql.query import SqlQuery
    from gpupipe.typing import HostArray
    from gpupipe_kernels.rows.lowering import LoweredInstruction, LoweredProgram

MOVES = (Opcode.FILL, Opcode.CLIP)  # they commute with rounding
# Results may be above the largest float32 number, and are null then.
LARGE = IS_FINITE - {Opcode.LOG1P}


class Value(NamedTuple):
    """The result of an instruction, and whether it is a float32 number already."""

    expression: Expr
    is_rounded: bool = True


def write_program(
    query: SqlQuery, lowered: LoweredProgram, cells: Sequence[Sequence[Cell]], rounds: bool
) -> tuple[list[Cell], list[Cell]]:
    """Define the registers of a program without calls; return the columns of its matrix, and its value registers.

    - `cells`: by kind: float32, float64, times and codes
    - `rounds`: whether all columns are rounded to float32, also those that only trees read
    """
    instructions = lowered.instructions
    wanted = set(lowered.outputs.tolist()) if rounds else set()
    for each in reversed(instructions):
        if not each.writes_index and (each.op not in MOVES or each.dst in wanted):
            wanted |= set(each.operands)
    values: list[Cell] = []
    indices: list[str] = []
    for each in instructions:
        step = _Instruction(query, each, cells, values, indices, lowered.luts)
        found, is_rounded = WRITERS[each.op](step)
        if each.writes_index:
            indices.append(query.define(found).name)
        elif not is_rounded and each.dst in wanted:
            values.append(Cell(query.define(query.dialect.rounded(query.define(found))).name))
        elif each.op in LARGE:
            x = query.define(found)
            is_finite = query.dialect.call("ABS", x) < number(INFINITE)
            values.append(Cell(query.define(case([(is_finite, x.copy())], None)).name, is_rounded))
        else:
            values.append(Cell(query.define(found).name, is_rounded))
    return [values[register] for register in lowered.outputs.tolist()], values


class _Instruction:
    """An instruction with its operands."""

    def __init__(
        self,
        query: SqlQuery,
        own: LoweredInstruction,
        cells: Sequence[Sequence[Cell]],
        values: Sequence[Cell],
        indices: Sequence[str],
        luts: HostArray,
    ) -> None:
        self.query, self.dialect = query, query.dialect
        self.own, self.luts = own, luts
        self._cells = cells
        self._values, self._indices = values, indices

    @property
    def source(self) -> Cell:
        """The source cell."""
        return self._cells[self.own.kind][self.own.cell]

    @property
    def x(self) -> Expr:
        """The source cell as an expression."""
        return column(self.source.name)

    @property
    def other(self) -> Expr:
        """The second source cell of BETWEEN."""
        return column(self._cells[self.own.kind][self.own.other].name)

    def operand(self, i: int = 0) -> Expr:
        """Return operand `i`."""
        return column(self._values[self.own.operands[i]].name)

    @property
    def is_operand_rounded(self) -> bool:
        """True if the first operand is a float32 number."""
        return self._values[self.own.operands[0]].is_rounded

    @property
    def index(self) -> Expr:
        """The index that it reads."""
        return column(self._indices[self.own.index])

    def rounded(self, found: Expr) -> Expr:
        """Return a result in float32, named."""
        return self.query.define(self.dialect.rounded(self.query.define(found)))

    def single(self, i: int) -> float:
        """Return parameter `i` in float32."""
        with np.errstate(over="ignore"):
            return float(np.float32(self.own.params[i]))


def _load(step: _Instruction) -> Value:
    shift = step.single(0) if step.own.kind == SINGLE else step.own.params[0]
    if not shift:
        return Value(step.x, step.source.is_rounded and step.own.kind == SINGLE)
    x = step.rounded(step.x) if step.own.kind == SINGLE else step.x
    return Value(x - number(shift), False)


def _equal(step: _Instruction) -> Value:
    return Value(_flag(step, step.x.eq(integer(step.own.arg))))


def _is_null(step: _Instruction) -> Value:
    return Value(_flag(step, is_null(step.x)))


def _flag(step: _Instruction, condition: Expr) -> Expr:
    return case([(condition, step.dialect.double(1.0))], number(0.0))


def _elapsed(step: _Instruction) -> Value:
    since = step.dialect.cast(step.x, "double") - number(step.own.params[0])
    return Value(since * number(step.own.params[1]), False)


def _between(step: _Instruction) -> Value:
    apart = step.dialect.cast(step.x, "double") - step.dialect.cast(step.other, "double")
    return Value(apart * number(step.own.params[0]), False)


def _calendar_part(step: _Instruction) -> Expr:
    time = step.x
    if step.own.op in READS_ZONE:
        table, picks = np.array(step.own.params, np.int64), step.own.op in PICKS_ZONE
        zones = [zone.tolist() for zone in (split_zones(table) if picks else [table])]
        offsets = {i: formulas.utc_offset(time, zone, len(zone) // 2) for i, zone in enumerate(zones) if zone}
        known = [(step.index.eq(integer(i)), offset) for i, offset in offsets.items()] if picks else []
        time = step.query.define(time + (case(known, None) if picks else offsets[0]))
    return calendar_part(formulas.IntegerExpressions(step.query), time, CalendarPart(step.own.arg))


def _part(step: _Instruction) -> Value:
    found = _calendar_part(step)
    return Value(step.dialect.cast(found, "double"))


def _fill(step: _Instruction) -> Value:
    filled = exp.Coalesce(this=step.operand(), expressions=[step.dialect.double(step.single(0))])
    return Value(filled, step.is_operand_rounded)


def _log1p(step: _Instruction) -> Value:
    x = step.operand()
    return Value(case([(x > number(-1.0), step.dialect.log1p(x))], None), False)


def _finite(step: _Instruction) -> Value:
    return Value(step.operand(), step.is_operand_rounded)  # no value is infinite


def _clip(step: _Instruction) -> Value:
    low, high = step.single(0), step.single(1)
    x = step.operand()
    if math.isnan(low) or math.isnan(high):
        return Value(step.dialect.double(math.nan))
    branches: list[tuple[Expr, Expr]] = [] if low == -math.inf else [(x < number(low), step.dialect.double(low))]
    branches += [] if high == math.inf else [(x > number(high), step.dialect.double(high))]
    return Value(case(branches, x), step.is_operand_rounded)


def _scale(step: _Instruction) -> Value:
    product = step.operand() * number(step.single(0))
    shift = step.single(1)
    return Value(step.rounded(product) + number(shift) if shift else product, False)


def _sine(step: _Instruction) -> Value:
    x, (factor, offset) = step.operand(), step.own.params
    with np.errstate(over="ignore"):
        per_turn = float(np.float32(factor / (2 * math.pi)))
    turns = step.dialect.call("ABS", x * number(per_turn))
    found = step.dialect.call("SIN", x * number(factor) + number(offset))
    return Value(case([(turns <= number(MAX_TURNS + 0.5), found)], None), False)  # float32 rounds + 0.5 down


def _take(step: _Instruction) -> Value:
    table = step.luts[step.own.lut : step.own.lut + step.own.size].astype(np.float64)
    texts, counts = np.unique(table, return_counts=True)
    default = float(texts[counts.argmax()])
    entries = {integer(i): number(found) for i, found in enumerate(table.tolist()) if not _is_same(found, default)}
    return Value(step.query.look_up(step.index, entries, step.dialect.double(default)))


def _is_same(x: float, y: float) -> bool:
    return x == y or (math.isnan(x) and math.isnan(y))


def _index(step: _Instruction) -> Value:
    return Value(step.x)


def _index_pair(step: _Instruction) -> Value:
    return Value(step.index * integer(step.own.arg) + step.x)


def _index_part(step: _Instruction) -> Value:
    found = _calendar_part(step)
    return Value(exp.Coalesce(this=found, expressions=[integer(step.own.size)]))


def _index_local_part(step: _Instruction) -> Value:
    following = exp.Paren(this=_calendar_part(step)) + integer(1)
    return Value(exp.Coalesce(this=following, expressions=[integer(0)]))


def _index_bin(step: _Instruction) -> Value:
    """Return the number of edges at most x: a number is left of an edge if it is at most the one before."""
    x, arg = step.x, step.own.arg
    branches: list[tuple[Expr, Expr]] = [(is_null(x), integer(0))]
    if step.own.kind == DOUBLE:
        edges = list(step.own.params)
        conditions: list[Expr | None] = [x < number(edge) for edge in edges]
    else:
        before = np.nextafter(step.luts[step.own.lut : step.own.lut + step.own.size], np.float32(-np.inf))
        conditions = [step.dialect.is_left(x, float(limit), step.source.is_rounded) for limit in before]
    branches += [(found, integer(arg + i)) for i, found in enumerate(conditions) if found is not None]
    return Value(case(branches, integer(arg + len(conditions))))


def _combine(node: type[exp.Binary]) -> Writer:
    def write(step: _Instruction) -> Value:
        return Value(node(this=step.operand(0), expression=step.operand(1)), False)

    return write


def _divide(step: _Instruction) -> Value:
    x, y = step.operand(0), step.operand(1)
    return Value(case([(exp.NEQ(this=y, expression=number(0.0)), step.dialect.divide(x, y))], None), False)


def _points(step: _Instruction) -> tuple[Expr, Expr, Expr, Expr]:
    """Return two points in degrees, with absolute latitudes."""
    origin = number(step.own.params[1])
    lat1, lon1, lat2, lon2 = (step.operand(i) for i in range(4))
    return lat1 + origin, lon1, lat2 + origin, lon2


def _null_outside(step: _Instruction, found: Expr) -> Value:
    """Return the result of two points; null where `gpupipe_kernels.reference.degrees` is."""
    pole, most = map(np.float32, MAX_DEGREES)
    origin = np.float32(step.own.params[1])
    lat1, lon1, lat2, lon2 = (step.operand(i) for i in range(4))
    top, bottom = number(float(pole - origin)), number(float(-pole - origin))
    conditions: list[Expr] = [exp.And(this=each <= top, expression=each >= bottom) for each in (lat1, lat2)]
    longitudes = (lon1, lon2, step.rounded(lon2 - lon1))
    conditions += [step.dialect.call("ABS", each.copy()) <= number(float(most)) for each in longitudes]
    return Value(case([(all_of(conditions), found)], None), False)


def _haversine(step: _Instruction) -> Value:
    angle = formulas.central_angle(step.query, *_points(step))
    return _null_outside(step, angle * number(step.own.params[0]))


def _bearing(step: _Instruction) -> Value:
    return _null_outside(step, formulas.bearing(step.query, *_points(step)))


def _yeo_johnson(step: _Instruction) -> Value:
    return Value(formulas.yeo_johnson(step.query, step.operand(), step.own.params[0]), False)


Writer = Callable[[_Instruction], Value]

# CALL is absent: `gpupipe.inference.targets.refusals` refuses programs with a user's kernel.
WRITERS: dict[int, Writer] = {
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
    Opcode.LOCAL_PART: _part,
    Opcode.INDEX_LOCAL_PART: _index_local_part,
    Opcode.ZONED_PART: _part,
    Opcode.INDEX_ZONED_PART: _index_local_part,
    Opcode.ADD: _combine(exp.Add),
    Opcode.SUBTRACT: _combine(exp.Sub),
    Opcode.MULTIPLY: _combine(exp.Mul),
    Opcode.DIVIDE: _divide,
    Opcode.HAVERSINE: _haversine,
    Opcode.BEARING: _bearing,
    Opcode.YEO_JOHNSON: _yeo_johnson,
    Opcode.BETWEEN: _between,
}
