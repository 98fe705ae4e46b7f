"""The feature program as ONNX nodes: an interpreter that writes nodes instead of numbers.

It reads the register form of a program (`gpupipe_kernels.rows.lowering`): equal instructions are one group of nodes on
a matrix with one column per instruction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpupipe.inference.onnx import formulas
from gpupipe.inference.targets.calendar import calendar_part
from gpupipe_kernels.program.opcodes import MAX_DEGREES, MAX_TURNS, NAT, PICKS_ZONE, READS_ZONE, CalendarPart, Opcode
from gpupipe_kernels.program.time_zones import split_zones
from gpupipe_kernels.rows.lowering import FINITE
from gpupipe_kernels.rows.records import DOUBLE, SINGLE, TIME

if TYPE_CHECKING:
    import numpy.typing as npt

    from gpupipe.inference.onnx.graph import OnnxGraph
    from gpupipe_kernels.rows.lowering import LoweredInstruction, LoweredProgram


class CellMatrix(NamedTuple):
    """The cells of one kind, and their number of columns."""

    name: str
    width: int


class RegisterColumn(NamedTuple):
    """A register: a column of a matrix with `width` columns."""

    matrix: str
    column: int
    width: int

    def select(self, graph: OnnxGraph) -> str:
        """Return the register, shape (rows, 1)."""
        return graph.select(self.matrix, [self.column], self.width)


def write_program(
    graph: OnnxGraph, lowered: LoweredProgram, cells: Sequence[CellMatrix | None]
) -> tuple[str, list[RegisterColumn]]:
    """Write a program without calls; return its matrix, float32, and its value registers.

    `cells`: by kind: float32, float64, int64 times and int64 codes; None without columns.
    """
    values: list[RegisterColumn] = []
    indices: list[RegisterColumn] = []
    for group in lowered.groups:
        step = _InstructionNodes(graph, group.members, cells, values, indices, lowered.luts)
        made, width = WRITERS[step.members[0].op](step), len(step.members)
        registers = indices if step.members[0].writes_index else values
        registers += [RegisterColumn(made, column, width) for column in range(width)]
    return _gather(graph, [values[register] for register in lowered.outputs.tolist()]), values


def _gather(graph: OnnxGraph, registers: Sequence[RegisterColumn]) -> str:
    """Return registers as the columns of one matrix."""
    widths = {register.matrix: register.width for register in registers}
    starts = dict(zip(widths, np.cumsum([0, *widths.values()]).tolist(), strict=False))
    columns = [starts[register.matrix] + register.column for register in registers]
    return graph.select(graph.join(list(widths)), columns, sum(widths.values()))


class _InstructionNodes:
    """A group of equal instructions with its operands."""

    def __init__(
        self,
        graph: OnnxGraph,
        members: Sequence[LoweredInstruction],
        cells: Sequence[CellMatrix | None],
        values: Sequence[RegisterColumn],
        indices: Sequence[RegisterColumn],
        luts: npt.NDArray[np.float32],
    ) -> None:
        self.graph = graph
        self.members = members
        self.luts = luts
        self.first = members[0]
        self._cells = cells
        self._values = values
        self._indices = indices

    def source(self) -> str:
        """Return the source cells."""
        return self._of_cells([each.cell for each in self.members])

    def other(self) -> str:
        """Return the second source cells of BETWEEN."""
        return self._of_cells([each.other for each in self.members])

    def _of_cells(self, columns: Sequence[int]) -> str:
        matrix = self._cells[self.first.kind]
        assert matrix is not None
        return self.graph.select(matrix.name, columns, matrix.width)

    def operand(self, i: int = 0) -> str:
        """Return operand `i`, float32."""
        return _gather(self.graph, [self._values[each.operands[i]] for each in self.members])

    def index(self) -> str:
        """Return the indices, int64."""
        return _gather(self.graph, [self._indices[each.index] for each in self.members])

    def param(self, i: int, dtype: Any) -> str:
        """Return parameter `i` of each instruction as a constant."""
        with np.errstate(over="ignore"):
            return self.graph.constant(np.array([each.params[i] for each in self.members]).astype(dtype))

    def arg(self, dtype: Any = np.int64) -> str:
        """Return the immediate integers as a constant."""
        return self.graph.constant([each.arg for each in self.members], dtype)

    def lut_start(self) -> str:
        """Return the offsets of the lookup tables as a constant."""
        return self.graph.constant([each.lut for each in self.members], np.int64)

    def null_times(self, x: str, found: str) -> str:
        """Return float32 results with NaN where a time is missing."""
        return self.graph.where(self.is_nat(x), self.graph.constant(math.nan, np.float32), found)

    def is_nat(self, x: str) -> str:
        """Return whether times are missing."""
        return self.graph.add("Equal", x, self.graph.constant(NAT, np.int64))


def _load(step: _InstructionNodes) -> str:
    x, is_single = step.source(), step.first.kind == SINGLE
    if any(each.params[0] for each in step.members):
        x = step.graph.add("Sub", x, step.param(0, np.float32 if is_single else np.float64))
    return x if is_single else step.graph.cast(x, np.float32)


def _equal(step: _InstructionNodes) -> str:
    return step.graph.cast(step.graph.add("Equal", step.source(), step.arg()), np.float32)


def _is_null(step: _InstructionNodes) -> str:
    x = step.source()
    missing = step.is_nat(x) if step.first.kind == TIME else step.graph.add("IsNaN", x)
    return step.graph.cast(missing, np.float32)


def _elapsed(step: _InstructionNodes) -> str:
    graph, x = step.graph, step.source()
    since = graph.add("Sub", graph.cast(x, np.float64), step.param(0, np.float64))
    found = graph.cast(graph.add("Mul", since, step.param(1, np.float64)), np.float32)
    return step.null_times(x, found)


def _between(step: _InstructionNodes) -> str:
    graph = step.graph
    x = step.source()
    y = step.other()
    apart = graph.add("Sub", graph.cast(x, np.float64), graph.cast(y, np.float64))
    found = graph.cast(graph.add("Mul", apart, step.param(0, np.float64)), np.float32)
    return step.null_times(x, step.null_times(y, found))


def _part(step: _InstructionNodes) -> str:
    x = _times(step)
    return step.null_times(x, step.graph.cast(_calendar_part(step, x), np.float32))


def _times(step: _InstructionNodes) -> str:
    """Return the source cells, in the time zone of the instructions if they have one."""
    x, op = step.source(), step.first.op
    if op not in READS_ZONE:
        return x
    table = np.array(step.first.params)
    zones = split_zones(table) if op in PICKS_ZONE else [table]
    found = formulas.local_time(step.graph, x, zones, step.index() if op in PICKS_ZONE else None)
    return step.graph.where(step.is_nat(x), x, found)


def _calendar_part(step: _InstructionNodes, x: str) -> str:
    known = step.graph.where(step.is_nat(x), step.graph.constant(0, np.int64), x)
    return calendar_part(formulas.IntegerNodes(step.graph), known, CalendarPart(step.first.arg))


def _fill(step: _InstructionNodes) -> str:
    x = step.operand()
    return step.graph.where(step.graph.add("IsNaN", x), step.param(0, np.float32), x)


def _log1p(step: _InstructionNodes) -> str:
    x = step.graph.cast(step.operand(), np.float64)
    return step.graph.cast(formulas.log1p(step.graph, x), np.float32)


def _finite(step: _InstructionNodes) -> str:
    return formulas.finite(step.graph, step.operand())


def _clip(step: _InstructionNodes) -> str:
    # Not Max and Min, which do not agree on NaN between runtimes.
    graph = step.graph
    x = step.operand()
    low = step.param(0, np.float32)
    high = step.param(1, np.float32)
    x = graph.where(graph.add("Less", x, low), low, x)
    return graph.where(graph.add("Greater", x, high), high, x)


def _scale(step: _InstructionNodes) -> str:
    graph = step.graph
    scaled = graph.add("Mul", step.operand(), step.param(0, np.float32))
    if any(each.params[1] for each in step.members):
        scaled = graph.add("Add", scaled, step.param(1, np.float32))
    return formulas.finite(graph, scaled)


def _sine(step: _InstructionNodes) -> str:
    graph, x = step.graph, step.operand()
    angle = graph.add("Mul", graph.cast(x, np.float64), step.param(0, np.float64))
    found = graph.cast(graph.add("Sin", graph.add("Add", angle, step.param(1, np.float64))), np.float32)
    with np.errstate(over="ignore"):
        per_turn = np.array([each.params[0] / (2 * math.pi) for each in step.members]).astype(np.float32)
    turns = graph.add("Mul", x, graph.constant(per_turn))
    return formulas.null_unless(graph, found, formulas.is_at_most(graph, turns, MAX_TURNS))


def _take(step: _InstructionNodes) -> str:
    position = step.graph.add("Add", step.index(), step.lut_start())
    return step.graph.add("Gather", step.graph.constant(step.luts), position, axis=0)


def _index(step: _InstructionNodes) -> str:
    return step.source()


def _index_pair(step: _InstructionNodes) -> str:
    return step.graph.add("Add", step.graph.add("Mul", step.index(), step.arg()), step.source())


def _index_part(step: _InstructionNodes) -> str:
    graph, x = step.graph, step.source()
    size = graph.constant([each.size for each in step.members], np.int64)
    return graph.where(step.is_nat(x), size, _calendar_part(step, x))


def _index_local_part(step: _InstructionNodes) -> str:
    graph, x = step.graph, _times(step)
    following = graph.add("Add", _calendar_part(step, x), graph.constant(1, np.int64))
    return graph.where(step.is_nat(x), graph.constant(0, np.int64), following)


def _index_bin(step: _InstructionNodes) -> str:
    """Return the number of edges at most x; the edges of all instructions are padded to one length by NaN."""
    graph, x = step.graph, step.source()
    dtype = np.float64 if step.first.kind == DOUBLE else np.float32
    edges = np.full((len(step.members), max(1, *(each.size for each in step.members))), np.nan, dtype)
    for row, each in zip(edges, step.members, strict=True):
        row[: each.size] = each.params if each.has_wide_edges else step.luts[each.lut : each.lut + each.size]
    value = graph.add("Unsqueeze", x, graph.constant([2], np.int64))
    is_past = graph.cast(graph.add("LessOrEqual", graph.constant(edges), value), np.int64)
    count = graph.add("ReduceSum", is_past, graph.constant([2], np.int64), keepdims=0)
    found = graph.add("Add", count, step.arg())
    return graph.where(graph.add("IsNaN", x), graph.constant(0, np.int64), found)


def _combine(op: str) -> NodeWriter:
    def write(step: _InstructionNodes) -> str:
        return formulas.finite(step.graph, step.graph.add(op, step.operand(0), step.operand(1)))

    return write


def _points(step: _InstructionNodes) -> tuple[str, str, str, str]:
    """Return two points in float64 degrees, with absolute latitudes."""
    graph, origin = step.graph, step.param(1, np.float64)
    lat1, lon1, lat2, lon2 = (graph.cast(step.operand(i), np.float64) for i in range(4))
    return graph.add("Add", lat1, origin), lon1, graph.add("Add", lat2, origin), lon2


def _null_outside(step: _InstructionNodes, found: str) -> str:
    """Return results of two points, float64, as float32; NaN where `gpupipe_kernels.reference.degrees` is."""
    graph, (pole, most) = step.graph, map(np.float32, MAX_DEGREES)
    lat1, lon1, lat2, lon2 = (step.operand(i) for i in range(4))
    origin = np.array([each.params[1] for each in step.members], np.float32)
    top, bottom = graph.constant(pole - origin), graph.constant(-pole - origin)
    conditions = [graph.add("LessOrEqual", latitude, top) for latitude in (lat1, lat2)]
    conditions += [graph.add("GreaterOrEqual", latitude, bottom) for latitude in (lat1, lat2)]
    longitudes = lon1, lon2, graph.add("Sub", lon2, lon1)
    conditions += [formulas.is_at_most(graph, longitude, float(most)) for longitude in longitudes]
    return formulas.null_unless(graph, graph.cast(found, np.float32), *conditions)


def _haversine(step: _InstructionNodes) -> str:
    angle = formulas.central_angle(step.graph, *_points(step))
    return _null_outside(step, step.graph.add("Mul", angle, step.param(0, np.float64)))


def _bearing(step: _InstructionNodes) -> str:
    return _null_outside(step, formulas.bearing(step.graph, *_points(step)))


def _yeo_johnson(step: _InstructionNodes) -> str:
    x = step.graph.cast(step.operand(), np.float64)
    found = formulas.yeo_johnson(step.graph, x, [each.params[0] for each in step.members])
    return formulas.finite(step.graph, step.graph.cast(found, np.float32))


NodeWriter = Callable[[_InstructionNodes], str]

# CALL is absent: `gpupipe.inference.targets.refusals` refuses programs with a user's kernel.
WRITERS: dict[int, NodeWriter] = {
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
    Opcode.ADD: _combine("Add"),
    Opcode.SUBTRACT: _combine("Sub"),
    Opcode.MULTIPLY: _combine("Mul"),
    Opcode.DIVIDE: _combine("Div"),
    Opcode.HAVERSINE: _haversine,
    Opcode.BEARING: _bearing,
    Opcode.YEO_JOHNSON: _yeo_johnson,
    Opcode.BETWEEN: _between,
    Opcode.LOCAL_PART: _part,
    Opcode.INDEX_LOCAL_PART: _index_local_part,
    Opcode.ZONED_PART: _part,
    Opcode.INDEX_ZONED_PART: _index_local_part,
}
