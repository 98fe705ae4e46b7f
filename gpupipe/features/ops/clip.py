"""Clipping of numbers to bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from gpupipe.features.ops.base import OPS, InPlaceOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("clip")
class Clip(InPlaceOp[NumericExpr]):
    """Limit numbers to bounds, given as values or as quantiles of the training rows: ``min(max(x, lower), upper)``.

    Nulls stay null. Row weights (``source.weight``) count in quantiles.

    Output: replaces each selected column, or adds one with ``as``; float32.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"fare": [3.0, 250.0, None]})
        >>> ops = [{"clip": {"columns": "fare", "upper": 100}}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
            fare
        0    3.0
        1  100.0
        2    NaN
    """

    lower_bound: float | None = Field(None, alias="lower", description="Lower bound.")
    upper_bound: float | None = Field(None, alias="upper", description="Upper bound.")
    quantiles: tuple[float, float] | None = Field(
        None, description="Bounds as two quantiles of the training rows, each in [0, 1]: [0.01, 0.99]."
    )

    @model_validator(mode="after")
    def _bounds(self) -> Clip:
        values = self.lower_bound is not None or self.upper_bound is not None
        if values == (self.quantiles is not None):
            raise ValueError("set either lower and/or upper, or quantiles")
        low, high = self.quantiles or (self.lower_bound, self.upper_bound)
        if low is not None and high is not None and low > high:
            raise ValueError(f"expected lower <= upper; got {low} and {high}")
        if self.quantiles and not (self.quantiles[0] >= 0 and self.quantiles[1] <= 1):
            raise ValueError(f"quantiles: expected values in [0, 1]; got {list(self.quantiles)}")
        return self

    def select(self, builder: ProgramBuilder) -> list[NumericExpr]:
        return builder.select_numbers(self.columns, "clip")

    def fit(self, columns: list[NumericExpr], statistics: Statistics) -> list[State]:
        if self.quantiles:
            found = statistics.quantiles(columns, list(self.quantiles))
            return [{"lower": low, "upper": high} for low, high in found]
        low = -math.inf if self.lower_bound is None else self.lower_bound
        high = math.inf if self.upper_bound is None else self.upper_bound
        return [{"lower": low, "upper": high} for _ in columns]

    def emit(self, column: NumericExpr, state: State, builder: ProgramBuilder) -> None:
        builder.replace(column.then("CLIP", state["lower"], state["upper"]), "clip")
