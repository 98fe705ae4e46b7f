"""The device operation that Numba has no function for: a store of 16 bytes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gpupipe_kernels.launch import is_simulated

if is_simulated():

    def write_four(array: Any, at: Any, a: Any, b: Any, c: Any, d: Any) -> None:
        """Write four neighbouring cells; the first must be aligned to 16 bytes."""
        array[at], array[at + 1], array[at + 2], array[at + 3] = a, b, c, d

else:

    @intrinsic
    def write_four(typing_context: Any, array: Any, at: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        """Write four neighbouring float32 cells in one instruction; the first must be aligned to 16 bytes.

        LLVM merges four stores only if it can prove their alignment, which no array type declares.
        """

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            line, first, *cells = arguments
            address = builder.gep(context.make_array(signature.args[0])(context, builder, value=line).data, [first])
            vector = ir.VectorType(ir.FloatType(), 4)
            quad = ir.Constant(vector, ir.Undefined)
            for i, cell in enumerate(cells):
                quad = builder.insert_element(quad, cell, ir.Constant(ir.IntType(32), i))
            builder.store(quad, builder.bitcast(address, vector.as_pointer()), align=16)
            return context.get_dummy_value()

        return types.void(array, types.uint64, *[types.float32] * 4), emit
