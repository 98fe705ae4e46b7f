"""The logarithm of one more than a number."""

from __future__ import annotations

from gpupipe.features.ops.base import OPS, InPlaceOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr


@OPS.register("log1p")
class Log1p(InPlaceOp[NumericExpr]):
    """Replace x by ``log(1 + x)``, for counts and amounts; at -1 and below it is null."""

    def select(self, builder: ProgramBuilder) -> list[NumericExpr]:
        return builder.select_numbers(self.columns, "log1p")

    def emit(self, column: NumericExpr, state: State, builder: ProgramBuilder) -> None:
        builder.replace(column.then("LOG1P"), "log1p")
