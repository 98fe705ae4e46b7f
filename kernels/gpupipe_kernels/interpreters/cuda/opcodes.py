"""Instruction table in the device's format: a flat array with one opcode per op and source dtype.

An opcode that includes the source dtype needs one jump only. `schedule` orders the instructions; this module only
encodes them.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.interpreters.cuda import schedule
from gpupipe_kernels.interpreters.cuda.schedule import Schedule
from gpupipe_kernels.program.opcodes import BLOCKS, Field, Opcode


class DeviceOpcode(IntEnum):
    """An `Opcode` combined with its source dtype if the op reads several dtypes.

    Their order is that of `steps.execute`: the most frequent ones, others on float32 and codes, then those that read
    the stack, float64 and times.
    """

    LOAD_FLOAT32 = 0
    FILL = 1
    SCALE = 2
    CLIP = 3
    EQUAL_INT8 = 4
    INDEX_INT8 = 5
    TAKE = 6
    EQUAL_INT16 = 7
    EQUAL_INT32 = 8
    IS_NULL_FLOAT32 = 9
    INDEX_INT16 = 10
    INDEX_INT32 = 11
    INDEX_PAIR_INT8 = 12
    INDEX_PAIR_INT16 = 13
    INDEX_PAIR_INT32 = 14
    INDEX_BIN_FLOAT32 = 15
    INDEX_FOLD = 16
    LOG1P = 17
    SINE = 18
    YEO_JOHNSON = 19
    STORE = 20
    ADD = 21
    SUBTRACT = 22
    MULTIPLY = 23
    DIVIDE = 24
    HAVERSINE = 25
    BEARING = 26
    CALL = 27
    LOAD_FLOAT64 = 28
    IS_NULL_FLOAT64 = 29
    INDEX_BIN_FLOAT64 = 30
    IS_NULL_INT64 = 31
    INDEX_PART = 32
    PART = 33
    ELAPSED = 34
    BETWEEN = 35
    LOCAL_PART = 36
    INDEX_LOCAL_PART = 37
    ZONED_PART = 38
    INDEX_ZONED_PART = 39


OP, TO, ROW, ARG, LUT, SIZE = range(6)
"""Positions in a table line; TO is -1 if the instruction does not finish a cell."""
SCALARS, WIDE = 8, 12
"""Positions of the parameters: three float32, and two float64 of two words each, the low word first."""
LINE = 16


def device_op(op: Opcode, block: int) -> DeviceOpcode:
    """Return the opcode of an instruction.

    Parameters
    ----------
    block : int
        Its source block, an index into `BLOCKS`; -1 if it has none.
    """
    name = f"{op.name}_{BLOCKS[block].upper()}" if block >= 0 else op.name
    return DeviceOpcode[name if name in DeviceOpcode.__members__ else op.name]


def device_table(plan: Schedule) -> npt.NDArray[np.int32]:
    """Return the instructions of a schedule and their parameters in the device's format, shape (n, `LINE`)."""
    rows = plan.instructions
    ops = [device_op(Opcode(row[Field.OP]), row[Field.BLOCK]) for row in rows.tolist()]
    to = np.where(rows[:, schedule.LAST] != 0, rows[:, Field.DST], -1)
    columns = [
        np.array(ops, np.int32),
        to,
        *(rows[:, field] for field in (Field.ROW, Field.ARG, Field.LUT, Field.SIZE)),
    ]
    table = np.zeros((len(rows), LINE), np.int32)
    table[:, : SIZE + 1] = np.stack(columns, axis=1)
    table[:, SCALARS : SCALARS + 3] = plan.scalars.view(np.int32)
    table[:, WIDE : WIDE + 4] = plan.wide.view(np.int32)
    return table
