"""Numbers that mark missing values."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from gpupipe.features.ops.base import OPS, InPlaceOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.column_arithmetic import FLOAT32, ColumnArithmetic
from gpupipe.features.program.expressions import NumericExpr


@OPS.register("null_if")
class NullIf(InPlaceOp[NumericExpr]):
    """Replace numbers that mark missing values, such as -999, by null; put it before the ops that impute or scale.

    A number is compared in float32: 16777217 equals 16777216.

    Output: replaces each selected column, or adds one with ``as``; float32.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"nox": [21.5, -999.0, 18.0], "co": [-999, 2, -998]})
        >>> ops = [{"null_if": {"columns": ["nox", "co"], "values": [-999, -998]}}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
            nox   co
        0  21.5  NaN
        1   NaN  2.0
        2  18.0  NaN
    """

    values: list[Annotated[float, Field(ge=-FLOAT32[1], le=FLOAT32[1], allow_inf_nan=False)]] = Field(
        min_length=1, max_length=16, description="Numbers that become null."
    )

    def select(self, builder: ProgramBuilder) -> list[NumericExpr]:
        return builder.select_numbers(self.columns, "null_if")

    def emit(self, column: NumericExpr, state: State, builder: ProgramBuilder) -> None:
        arithmetic = ColumnArithmetic(column.name, lambda columns: columns)
        differs = arithmetic.all([arithmetic.compare(ast.NotEq, column, value) for value in self.values])
        made = arithmetic.divide(column, differs)  # null where the divisor is 0
        assert isinstance(made, NumericExpr)
        builder.replace(replace(made, name=column.name, root=column.represents), "null_if")
