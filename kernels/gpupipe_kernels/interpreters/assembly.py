"""Hand-assembled small programs, one per kind of instruction, to test and measure the interpreters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from gpupipe_kernels.program.opcodes import BLOCKS, CalendarPart, Opcode
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.program.time_zones import join_zones

Instruction = tuple[int, ...]


def load(dtype: str, row: int = 0, to: int = 0, param: int = 0) -> Instruction:
    """Return an instruction that loads row `row` of a block into column `to`, minus the parameter at `param`."""
    return (Opcode.LOAD, to, BLOCKS.index(dtype), row, 0, param, 0, 0)


def store(register: int, to: int = 0) -> Instruction:
    """Return an instruction that pushes the cell of column `to` onto the stack, as register `register`."""
    return (Opcode.STORE, to, -1, -1, register, 0, 0, 0)


def apply(op: Opcode, to: int = 0, param: int = 0) -> Instruction:
    """Return an instruction on the cell of column `to` and the stack from register 0 on."""
    return (op, to, -1, -1, 0, param, 0, 0)


def assemble(rows: Any, params: Sequence[float], luts: Any = (), n_columns: int = 1) -> Program:
    """Return the program with these instructions and tables."""
    return Program(np.array(rows, np.int32), np.array(params, np.float64), np.array(luts, np.float32), n_columns)


def of_number(op: Opcode, *params: float) -> Program:
    """Return the program of one instruction on a float32 column; LOAD subtracts 0."""
    return assemble([load("float32"), apply(op, param=1)], [0.0, *params])


def of_points(op: Opcode, radius: float, origin: float) -> Program:
    """Return the program of one instruction on two points: four float32 columns, latitude and longitude of each."""
    loads = chain.from_iterable((load("float32", i), store(i)) for i in range(3))
    return assemble([*loads, load("float32", 3), apply(op, param=1)], [0.0, radius, origin])


def arithmetic() -> Program:
    """Return the program of sum, difference, product and quotient of two float32 columns."""
    rows: list[Instruction] = []
    for to, op in enumerate((Opcode.ADD, Opcode.SUBTRACT, Opcode.MULTIPLY, Opcode.DIVIDE)):
        rows += [load("float32", 0, to), store(0, to), load("float32", 1, to), apply(op, to)]
    return assemble(rows, [0.0], n_columns=4)


def impute(fill: float, low: float, high: float, factor: float, offset: float) -> Program:
    """Return the program of a float32 column's null flag, and of the column filled, clipped and scaled."""
    null = (Opcode.IS_NULL, 0, BLOCKS.index("float32"), 0, 0, 0, 0, 0)
    chain = [load("float32", 0, 1), apply(Opcode.FILL, 1, 1), apply(Opcode.CLIP, 1, 2), apply(Opcode.SCALE, 1, 4)]
    return assemble([null, *chain], [0.0, fill, low, high, factor, offset], n_columns=2)


def standardize(mean: float, scale: float) -> Program:
    """Return the program of ``(x - mean) * scale`` of a float64 column."""
    return assemble([load("float64"), apply(Opcode.SCALE, param=1)], [mean, scale, 0.0])


def bins(*edges: float) -> Program:
    """Return the program of the bin number of a float32 column, from 1; 0 for null."""
    n = len(edges)
    rows = [(Opcode.INDEX_BIN, -1, BLOCKS.index("float32"), 0, 1, 0, 0, n), (Opcode.TAKE, 0, -1, -1, 0, 0, n, n + 2)]
    return assemble(rows, [], [*edges, *range(n + 2)])


def calendar_parts() -> Program:
    """Return the program of every calendar part of a time."""
    return assemble(
        [(Opcode.PART, part, BLOCKS.index("int64"), 0, part, 0, 0, 0) for part in CalendarPart],
        [],
        n_columns=len(CalendarPart),
    )


def local_parts() -> Program:
    """Return the program of the hour, day and hour as an index of a time, in a time zone with two transitions."""
    zone, block = [0.0, 1e15, -17_762e6, -4 * 3600e6, 5.5 * 3600e6], BLOCKS.index("int64")
    parts = [
        (Opcode.LOCAL_PART, i, block, 0, part, 0, -1, 5) for i, part in enumerate((CalendarPart.HOUR, CalendarPart.DAY))
    ]
    index = (Opcode.INDEX_LOCAL_PART, -1, block, 0, CalendarPart.HOUR, 0, -1, 5)
    return assemble([*parts, index, (Opcode.TAKE, 2, -1, -1, 0, 0, 0, 25)], zone, range(25), n_columns=3)


def zoned_parts(n_codes: int) -> Program:
    """Return the program of the hour, and the hour as an index, of a time in the time zone of an int16 code.

    Every third one is unknown, has two transitions, or is UTC.
    """
    zones = join_zones([((), tuple(local_parts().params.tolist()), (0.0,))[code % 3] for code in range(n_codes)])
    pick = (Opcode.INDEX, -1, BLOCKS.index("int16"), 0, 0, 0, 0, 0)
    hour = (BLOCKS.index("int64"), 0, CalendarPart.HOUR, 0, -1, len(zones))
    take = (Opcode.TAKE, 1, -1, -1, 0, 0, 0, 25)
    rows = [pick, (Opcode.ZONED_PART, 0, *hour), (Opcode.INDEX_ZONED_PART, -1, *hour), take]
    return assemble(rows, zones, range(25), n_columns=2)


def elapsed(origin: float, unit: float) -> Program:
    """Return the program of the time since `origin` in `unit` microseconds, and the microseconds between two times."""
    block = BLOCKS.index("int64")
    since, between = (Opcode.ELAPSED, 0, block, 0, 0, 0, 0, 0), (Opcode.BETWEEN, 1, block, 0, 1, 1, 0, 0)
    return assemble([since, between], [origin, 1 / unit], n_columns=2)


def lookup(n_codes: int) -> Program:
    """Return the program of a flag for int16 code 1, and of the table entry of a pair of codes below `n_codes`."""
    block = BLOCKS.index("int16")
    equal = (Opcode.EQUAL, 0, block, 0, 1, 0, 0, 0)
    pair = [(Opcode.INDEX, -1, block, 0, 0, 0, 0, 0), (Opcode.INDEX_PAIR, -1, block, 1, n_codes, 0, 0, 0)]
    take = (Opcode.TAKE, 1, -1, -1, 0, 0, 0, n_codes * n_codes)
    return assemble([equal, *pair, take], [], np.arange(n_codes * n_codes) * 0.5, n_columns=2)
