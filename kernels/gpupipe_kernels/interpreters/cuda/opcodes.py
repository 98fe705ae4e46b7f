"""Instruction table in the device's format: a flat array with one opcode per op and source dtype.

An opcode that includes the source dtype needs one jump only. `schedule` orders the instructions; this module only
encodes them.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.interpreters import schedule
from gpupipe_kernels.interpreters.schedule import Schedule
from gpupipe_kernels.program.opcodes import BLOCKS, Field, Opcode


class DeviceOpcode(IntEnum):
    """An `Opcode` combined with its source dtype if the op reads several dtypes."""

    LOAD_FLOAT32 = 0
    LOAD_FLOAT64 = 1
    EQUAL_INT8 = 2
    EQUAL_INT16 = 3
    EQUAL_INT32 = 4
    IS_NULL_FLOAT32 = 5
    IS_NULL_FLOAT64 = 6
    IS_NULL_INT64 = 7
    INDEX_INT8 = 8
    INDEX_INT16 = 9
    INDEX_INT32 = 10
    INDEX_PAIR_INT8 = 11
    INDEX_PAIR_INT16 = 12
    INDEX_PAIR_INT32 = 13
    INDEX_BIN_FLOAT32 = 14
    INDEX_BIN_FLOAT64 = 15
    INDEX_PART = 16
    INDEX_FOLD = 17
    TAKE = 18
    FILL = 19
    SCALE = 20
    CLIP = 21
    LOG1P = 22
    STORE = 23
    ADD = 24
    SUBTRACT = 25
    MULTIPLY = 26
    DIVIDE = 27
    SINE = 28
    PART = 29
    ELAPSED = 30
    BETWEEN = 31
    YEO_JOHNSON = 32
    HAVERSINE = 33
    BEARING = 34
    CALL = 35


OP, TO, ROW, ARG, LUT, SIZE = range(6)
"""Positions in a table line; TO is -1 if the instruction does not finish a cell."""
LINE = 6


def device_op(op: Opcode, block: int) -> DeviceOpcode:
    """Return the opcode of an instruction.

    Parameters
    ----------
    op : Opcode
    block : int
        Its source block, an index into `BLOCKS`; -1 if it has none.
    """
    name = f"{op.name}_{BLOCKS[block].upper()}" if block >= 0 else op.name
    return DeviceOpcode[name if name in DeviceOpcode.__members__ else op.name]


def device_table(plan: Schedule) -> npt.NDArray[np.int32]:
    """Return the instructions of a schedule in the device's format, shape (n, `LINE`)."""
    rows = plan.instructions
    ops = [device_op(Opcode(row[Field.OP]), row[Field.BLOCK]) for row in rows.tolist()]
    to = np.where(rows[:, schedule.LAST] != 0, rows[:, Field.DST], -1)
    columns = [
        np.array(ops, np.int32),
        to,
        *(rows[:, field] for field in (Field.ROW, Field.ARG, Field.LUT, Field.SIZE)),
    ]
    return np.stack(columns, axis=1).astype(np.int32)
