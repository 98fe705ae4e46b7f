"""Min-max scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, FiniteFloat, field_validator

from gpupipe.features.ops.base import OPS, State
from gpupipe.features.ops.scaling import Scaling, reciprocal
from gpupipe.features.program.expressions import NumericExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("min_max")
class MinMax(Scaling):
    """Scale numbers so that the training rows span `feature_range`, by default 0 to 1: ``(x - min) / (max - min)``.

    As scikit-learn's MinMaxScaler: later values outside the training range give results outside of `feature_range`.
    Nulls stay null. A constant column becomes its minimum, 0. Row weights (``source.weight``) do not change it.

    Output: replaces each selected column, or adds one with ``as``; float32.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"age": [20.0, 30.0, 40.0]})
        >>> program = FeatureProgram([{"min_max": "age"}]).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           age
        0  0.0
        1  0.5
        2  1.0
    """

    feature_range: tuple[FiniteFloat, FiniteFloat] = Field(
        (0.0, 1.0), description="Results of the minimum and the maximum of the training rows."
    )

    @field_validator("feature_range")
    @classmethod
    def _ascend(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1]:
            raise ValueError(f"expected minimum < maximum; got {list(value)}")
        return value

    def fit(self, columns: list[NumericExpr], statistics: Statistics) -> list[State]:
        first, last = self.feature_range
        factors = [(low, (last - first) * reciprocal(high - low)) for low, high in statistics.extremes(columns)]
        return [{"center": low - first / factor, "factor": factor} for low, factor in factors]
