"""Instructions whose result is finite or null, with float64 NumPy references."""

from __future__ import annotations

import numpy as np

from gpupipe_kernels.program.opcodes import IS_FINITE, OPERANDS, Opcode
from gpupipe_kernels.program.program import Program
from tests.kernels.programs import F32, Writer

FACTOR, OFFSET, EXPONENT = 1e20, -1e30, 1.5
OPS = sorted(IS_FINITE)
EXACT = np.array([op in OPERANDS for op in OPS])
VALUES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1.0, -0.5, 2.0, 1e19, -1e20, 1.7e38, 3e38, -3.4028235e38]


def finite_or_not() -> np.ndarray:
    """Return every pair of some values and both ends of float32, shape (2, pairs)."""
    return np.stack(np.meshgrid(VALUES, VALUES)).reshape(2, -1).astype(np.float32)


def every_finite_instruction() -> Program:
    """Return a program with one column per op in `OPS`, of two float32 columns; unary ops use the first."""
    writer = Writer()
    params = {Opcode.SCALE: (FACTOR, OFFSET), Opcode.YEO_JOHNSON: (EXPONENT,)}
    for dst, op in enumerate(OPS):
        writer.put(Opcode.LOAD, dst, (F32, 0), params=(0.0,))
        if op in OPERANDS:
            writer.put(Opcode.STORE, dst, arg=0)
            writer.put(Opcode.LOAD, dst, (F32, 1), params=(0.0,))
        writer.put(op, dst, params=params.get(op, ()))
    return writer.program()


def in_float64(x: np.ndarray) -> np.ndarray:
    """Return the same in float64, rounded once, with null instead of infinite results."""
    a, b = x.astype(np.float64)
    with np.errstate(all="ignore"):
        up = ((np.maximum(a, 0) + 1) ** EXPONENT - 1) / EXPONENT
        down = -((np.maximum(-a, 0) + 1) ** (2 - EXPONENT) - 1) / (2 - EXPONENT)
        made = {
            Opcode.ADD: a + b,
            Opcode.SUBTRACT: a - b,
            Opcode.MULTIPLY: a * b,
            Opcode.DIVIDE: a / b,
            Opcode.SCALE: a * FACTOR + OFFSET,
            Opcode.LOG1P: np.log1p(a),
            Opcode.YEO_JOHNSON: np.where(np.isnan(a), a, np.where(a < 0, down, up)),
        }
        single = np.stack([made[op] for op in OPS], axis=1).astype(np.float32)
    return np.where(np.isfinite(single), single, np.float32(np.nan))
