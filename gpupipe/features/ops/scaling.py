"""Base class of the ops that shift and scale numbers."""

from __future__ import annotations

from gpupipe.features.ops.base import InPlaceOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr

SMALLEST_NORMAL = 2.0**-126  # of float32


class Scaling(InPlaceOp[NumericExpr]):
    """Base class of the ops whose result is ``(x - center) * factor``."""

    def select(self, builder: ProgramBuilder) -> list[NumericExpr]:
        return builder.select_numbers(self.columns, self.title())

    def emit(self, column: NumericExpr, state: State, builder: ProgramBuilder) -> None:
        builder.replace(column.then("CENTER", state["center"], state["factor"]), self.title())


def reciprocal(spread: float) -> float:
    """Return 1 / spread, or 1 if float32 cannot represent the spread, so that a constant column becomes 0, not NaN."""
    return 1.0 / spread if spread > SMALLEST_NORMAL else 1.0
