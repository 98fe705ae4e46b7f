"""Logarithm of 1 + x."""

from __future__ import annotations

from gpupipe.features.ops.base import OPS, InPlaceOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr


@OPS.register("log1p")
class Log1p(InPlaceOp[NumericExpr]):
    """Replace x by ``log(1 + x)``, for counts and amounts with a long right tail.

    Null where x is null, and where x is -1 or less.

    Output: replaces each selected column, or adds one with ``as``; float32.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"visits": [0, 9, 99]})
        >>> ops = [{"log1p": {"columns": "visits", "as": "visits_log"}}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           visits_log  visits
        0    0.000000     0.0
        1    2.302585     9.0
        2    4.605170    99.0
    """

    def select(self, builder: ProgramBuilder) -> list[NumericExpr]:
        return builder.select_numbers(self.columns, "log1p")

    def emit(self, column: NumericExpr, state: State, builder: ProgramBuilder) -> None:
        builder.replace(column.then("LOG1P"), "log1p")
