"""Programs in which a fused multiplication and addition of two instructions would change the result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpupipe_kernels.program.opcodes import OPERANDS, Opcode
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
        _difference(writer, dst, op, 2)
    return _with_product(writer)


def products() -> Program:
    """Return the program of the difference of each instruction that may end with a product, and a column."""
    writer = Writer()
    ops = (
        Opcode.CALL, Opcode.MULTIPLY, Opcode.LOG1P, Opcode.SINE, Opcode.YEO_JOHNSON, Opcode.HAVERSINE, Opcode.BEARING,
    )  # fmt: skip
    for dst, op in enumerate(ops):
        _difference(writer, dst, op, 2 if op is Opcode.CALL else OPERANDS.get(op, 1))
    return _with_product(writer)


def near_products(n: int) -> Any:
    """Return three columns: x, y, and z near x * y, so that x * y - z cancels."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(1, 2, (2, n)).astype(np.float32)
    return np.stack([x, y, (x * y * rng.normal(1, 1e-6, n)).astype(np.float32)])


def _difference(writer: Writer, dst: int, op: Opcode, n_operands: int) -> None:
    """Write the result of an instruction minus the third column."""
    for i in range(n_operands):
        writer.put(Opcode.LOAD, dst, (F32, i % 2), params=(0.0,))
        if i < n_operands - 1:
            writer.put(Opcode.STORE, dst, arg=i)
    writer.put(op, dst, arg=0, params=(0.5, 0.25))
    writer.put(Opcode.STORE, dst, arg=0)
    writer.put(Opcode.LOAD, dst, (F32, 2), params=(0.0,))
    writer.put(Opcode.SUBTRACT, dst, arg=0)


def _with_product(writer: Writer) -> Program:
    return replace(writer.program(), calls=(product,))
