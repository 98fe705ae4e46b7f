"""The instruction set of the feature program. Standard library only.

An instruction is one row of int32: ``op, dst, block, row, arg, param, lut, size`` (see `Field`). For each table row,
the machine has one float32 accumulator, which *is* the cell of the destination column, one integer register, the index,
and a small stack of float32 registers. Value instructions write the accumulator. Index instructions write the index,
which ``TAKE`` looks up. ``STORE`` pushes the accumulator onto the stack; an instruction with several operands pops all
but the last from the stack, and the last operand is the accumulator.

A *segment* starts at an instruction that does not read the accumulator or index (`STARTS_SEGMENT`) while the stack is
empty. Segments are independent, so a GPU can run each in a separate row of the grid.
"""

from __future__ import annotations

from enum import IntEnum

BLOCKS = ("int8", "int16", "int32", "float32", "float64", "int64")
"""The dtypes of an encoded table's blocks; instructions refer to a block by its position here."""

NAT = -(2**63)
"""A missing time."""

N_REGISTERS = 7
"""Number of stack registers; an instruction has at most one more operand."""


class Field(IntEnum):
    """The columns of the instruction table."""

    OP = 0  # an `Opcode`
    DST = 1  # destination column of the matrix; -1 for index instructions
    BLOCK = 2  # source block, an index into `BLOCKS`
    ROW = 3  # source column: row of that block
    ARG = 4  # an immediate integer: a code, a stride, a calendar part, a register
    PARAM = 5  # offset into `Program.params`
    LUT = 6  # offset into `Program.luts`
    SIZE = 7  # number of lookup entries or bin edges, or the position of one of the program's calls


class Opcode(IntEnum):
    """The operation of an instruction.

    ``x`` is the source cell, ``acc`` the accumulator, ``p`` the parameters at PARAM, ``r`` the registers from ARG on.
    NaN in an operand gives NaN unless stated otherwise. The instructions of `IS_FINITE` also replace infinite results
    by NaN, whether from float32 overflow or from an infinite operand.
    """

    LOAD = 0  # acc = float32(x - p[0]), subtracted in the source's precision
    EQUAL = 1  # acc = 1 if x == arg else 0; codes
    IS_NULL = 2  # acc = 1 if x is NaN (numbers) or NAT (times) else 0
    ELAPSED = 3  # acc = float32((x - p[0]) * p[1]); times; NAT gives NaN
    PART = 4  # acc = calendar part `arg` of x; times; NAT gives NaN
    FILL = 5  # acc = p[0] if acc is NaN
    LOG1P = 6  # acc = log(1 + acc); NaN for acc <= -1
    CLIP = 7  # acc = min(max(acc, p[0]), p[1])
    SCALE = 8  # acc = acc * p[0] + p[1]
    SINE = 9  # acc = sin(acc * p[0] + p[1]); NaN where acc * p[0] is more than `MAX_TURNS` turns
    TAKE = 10  # acc = luts[lut + index]
    INDEX = 11  # index = x; codes
    INDEX_PAIR = 12  # index = index * arg + x; codes
    INDEX_FOLD = 13  # index = index + fold * arg; fold 0 is the full statistics
    INDEX_PART = 14  # index = calendar part `arg` of x, or `size` where x is NAT; times
    # Edges are luts[lut:lut+size] for float32, and params[param:param+size] for float64.
    INDEX_BIN = 15  # index = arg + number of edges that are <= x, or 0 where x is NaN
    STORE = 16  # r[0] = acc
    ADD = 17  # acc = r[0] + acc
    SUBTRACT = 18  # acc = r[0] - acc
    MULTIPLY = 19  # acc = r[0] * acc
    DIVIDE = 20  # acc = r[0] / acc, NaN if acc is 0
    # Latitude and longitude in degrees; NaN where one of them is outside of `MAX_DEGREES`.
    HAVERSINE = 21  # acc = p[0] * angle between (r[0] + p[1], r[1]) and (r[2] + p[1], acc)
    BEARING = 22  # acc = initial course, 0..360, from (r[0] + p[1], r[1]) to (r[2] + p[1], acc)
    YEO_JOHNSON = 23  # acc = the power transformation of acc with exponent p[0]
    BETWEEN = 24  # acc = float32((x - y) * p[0]), y the time in row `arg` of the same block; a NAT gives NaN
    CALL = 25  # acc = the program's call number `size` on r[0], r[1], ..., acc; the call has its own null policy
    # The time zone is params[param:param+size]: n transitions (UTC), then the n + 1 offsets from UTC between them.
    LOCAL_PART = 26  # acc = calendar part `arg` of x in a time zone; times; NAT gives NaN
    INDEX_LOCAL_PART = 27  # index = 1 + calendar part `arg` of x in a time zone, or 0 where x is NAT; times
    # The time zone is number `index` of those in params[param:param+size]: the n + 1 bounds of n zones, as positions in
    # this table, then the zones as above. An empty zone is unknown, as if x were NAT.
    ZONED_PART = 28  # acc = calendar part `arg` of x in time zone `index`; times
    INDEX_ZONED_PART = 29  # index = 1 + calendar part `arg` of x in time zone `index`, or 0; times


MAX_TURNS = 8_388_608.0
"""Largest angle of a sine, in turns: 2**23, from where on float32 has fewer than two numbers a turn."""
MAX_DEGREES = (90.0, 720.0)
"""Largest latitude; largest longitude, relative to an origin, and difference of two longitudes."""
STARTS_SEGMENT = frozenset(
    {
        Opcode.LOAD,
        Opcode.EQUAL,
        Opcode.IS_NULL,
        Opcode.ELAPSED,
        Opcode.PART,
        Opcode.INDEX,
        Opcode.INDEX_PART,
        Opcode.INDEX_BIN,
        Opcode.BETWEEN,
        Opcode.LOCAL_PART,
        Opcode.INDEX_LOCAL_PART,
    }
)
PICKS_ZONE = frozenset({Opcode.ZONED_PART, Opcode.INDEX_ZONED_PART})
READS_ZONE = frozenset({Opcode.LOCAL_PART, Opcode.INDEX_LOCAL_PART}) | PICKS_ZONE
WRITES_INDEX = frozenset(
    {
        Opcode.INDEX,
        Opcode.INDEX_PAIR,
        Opcode.INDEX_FOLD,
        Opcode.INDEX_PART,
        Opcode.INDEX_BIN,
        Opcode.INDEX_LOCAL_PART,
        Opcode.INDEX_ZONED_PART,
    }
)
READS_ACCUMULATOR = frozenset(Opcode) - STARTS_SEGMENT - WRITES_INDEX - {Opcode.TAKE, Opcode.ZONED_PART}
IS_FINITE = frozenset(
    {Opcode.ADD, Opcode.SUBTRACT, Opcode.MULTIPLY, Opcode.DIVIDE, Opcode.SCALE, Opcode.LOG1P, Opcode.YEO_JOHNSON}
)
"""Instructions whose result is finite or NaN; those that only copy or clip a value preserve infinities."""
OPERANDS = {
    Opcode.ADD: 2,
    Opcode.SUBTRACT: 2,
    Opcode.MULTIPLY: 2,
    Opcode.DIVIDE: 2,
    Opcode.HAVERSINE: 4,
    Opcode.BEARING: 4,
}
"""Number of operands of instructions that pop the stack; a call has as many as its kernel has inputs."""


class CalendarPart(IntEnum):
    """Calendar parts. Those in `PART_SIZES` count from 0 and can be an index; weekday 0 is Monday."""

    YEAR = 0
    QUARTER = 1  # 1-4
    MONTH = 2  # 1-12
    DAY = 3  # 1-31
    DAY_OF_YEAR = 4  # 1-366
    WEEKDAY = 5  # 0-6
    HOUR = 6
    MINUTE = 7
    SECOND = 8
    HOUR_OF_WEEK = 9  # 0-167
    IS_WEEKEND = 10
    IS_MONTH_START = 11
    IS_MONTH_END = 12


PART_SIZES = {
    CalendarPart.QUARTER: 5,
    CalendarPart.MONTH: 13,
    CalendarPart.DAY: 32,
    CalendarPart.DAY_OF_YEAR: 367,
    CalendarPart.WEEKDAY: 7,
    CalendarPart.HOUR: 24,
    CalendarPart.MINUTE: 60,
    CalendarPart.SECOND: 60,
    CalendarPart.HOUR_OF_WEEK: 168,
    CalendarPart.IS_WEEKEND: 2,
}
"""Number of values of each part that can be an index."""
