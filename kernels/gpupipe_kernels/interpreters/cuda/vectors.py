"""Device operations that Numba has no function for: a store of 16 bytes, and a product that is not fused."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numpy import float32

from gpupipe_kernels.launch import formula, is_simulated

if is_simulated():

    def write_four(array: Any, at: Any, a: Any, b: Any, c: Any, d: Any) -> None:
        """Write four neighbouring cells; the first must be aligned to 16 bytes."""
        array[at], array[at + 1], array[at + 2], array[at + 3] = a, b, c, d

    def rounded(x: Any) -> Any:
        """Return a number as float32."""
        return float32(x)

else:
    from numba.cuda import libdevice, types
    from numba.cuda.extending import intrinsic

    @intrinsic
    def write_four(typing: Any, array: Any, at: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        """Write four neighbouring float32 cells in one instruction; the first must be aligned to 16 bytes.

        LLVM merges four stores only if it can prove their alignment, which no array type declares.
        """

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            line, first, *cells = values
            address = builder.gep(context.make_array(signature.args[0])(context, builder, value=line).data, [first])
            vector = ir.VectorType(ir.FloatType(), 4)
            quad = ir.Constant(vector, ir.Undefined)
            for i, cell in enumerate(cells):
                quad = builder.insert_element(quad, cell, ir.Constant(ir.IntType(32), i))
            builder.store(quad, builder.bitcast(address, vector.as_pointer()), align=16)
            return context.get_dummy_value()

        return types.void(array, types.uint64, *[types.float32] * 4), generate

    MINUS_ZERO = float32(-0.0)

    @formula
    def rounded(x: Any) -> Any:
        """Return a float32 number, rounded: a product is not fused with an addition that reads the result.

        ptxas fuses the operations of PTX that state no rounding. It removes a multiplication by 1, but not this.
        """
        return libdevice.fadd_rn(x, MINUS_ZERO)
