"""Programs in which a fused multiplication and addition of two instructions would change the result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpupipe_kernels.program.opcodes import Opcode
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.user.kernel import kernel
from tests.kernels.programs import F32, Writer


@kernel(nulls="pass")
def product(x, y):
    return x * y


def two_products() -> Program:
    """Return the program of x * y - z, the product by a user's kernel and by MULTIPLY."""
    writer = Writer()
    for dst, op in enumerate((Opcode.CALL, Opcode.MULTIPLY)):
        writer.put(Opcode.LOAD, dst, (F32, 0), params=(0.0,))
        writer.put(Opcode.STORE, dst, arg=0)
        writer.put(Opcode.LOAD, dst, (F32, 1), params=(0.0,))
        writer.put(op, dst, arg=0)
        writer.put(Opcode.STORE, dst, arg=0)
        writer.put(Opcode.LOAD, dst, (F32, 2), params=(0.0,))
        writer.put(Opcode.SUBTRACT, dst, arg=0)
    return replace(writer.program(), calls=(product,))


def near_products(n: int) -> Any:
    """Return three columns: x, y, and z near x * y, so that x * y - z cancels."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(1, 2, (2, n)).astype(np.float32)
    return np.stack([x, y, (x * y * rng.normal(1, 1e-6, n)).astype(np.float32)])
