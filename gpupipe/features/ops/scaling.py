"""Base of the ops that shift and scale a number."""

from __future__ import annotations

from gpupipe.features.ops.base import InPlaceOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr

LEAST = 2.0**-126  # the least float32 of full precision


class Scaling(InPlaceOp[NumericExpr]):
    """Base of the ops whose result is ``(x - center) * factor``."""

    def select(self, builder: ProgramBuilder) -> list[NumericExpr]:
        return builder.select_numbers(self.columns, self.title())

    def emit(self, column: NumericExpr, state: State, builder: ProgramBuilder) -> None:
        builder.replace(column.then("CENTER", state["center"], state["factor"]), self.title())


def reciprocal(spread: float) -> float:
    """Return 1 / spread, or 1 for a column without any that float32 can tell from none: it becomes 0, not NaN."""
    return 1.0 / spread if spread > LEAST else 1.0
