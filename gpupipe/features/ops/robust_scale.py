"""Robust scaling by median and quantile range."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from gpupipe.features.ops.base import OPS, State
from gpupipe.features.ops.scaling import Scaling, reciprocal
from gpupipe.features.program.expressions import NumericExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("robust_scale")
class RobustScale(Scaling):
    """Scale numbers by median and quantile range: ``(x - median) / (upper quantile - lower quantile)``.

    As scikit-learn's RobustScaler. Outliers hardly change the statistics. Nulls are ignored in the statistics and stay
    null. A column whose quantiles are equal is only centered. Row weights (``source.weight``) count.

    Output: replaces each selected column, or adds one with ``as``; float32.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"income": [1.0, 2.0, 3.0, 4.0, 100.0]})
        >>> program = FeatureProgram([{"robust_scale": "income"}]).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           income
        0    -1.0
        1    -0.5
        2     0.0
        3     0.5
        4    48.5
    """

    quantiles: tuple[float, float] = Field((0.25, 0.75), description="Lower and upper quantile, each in [0, 1].")

    unit_variance: bool = Field(False, description="Scale so that normally distributed numbers have the variance 1.")

    @model_validator(mode="after")
    def _quantiles_in_order(self) -> RobustScale:
        low, high = self.quantiles
        if not 0 <= low < high <= 1:
            raise ValueError(f"quantiles: expected 0 <= low < high <= 1; got {low}, {high}")
        if self.unit_variance and (low == 0 or high == 1):
            raise ValueError("unit_variance: expected quantiles above 0 and below 1, which normal numbers have")
        return self

    def fit(self, columns: list[NumericExpr], statistics: Statistics) -> list[State]:
        found = statistics.quantiles(columns, [0.5, *self.quantiles])
        normal_low, normal_high = map(NormalDist().inv_cdf, self.quantiles) if self.unit_variance else (0.0, 1.0)
        spread = normal_high - normal_low
        return [{"center": median, "factor": spread * reciprocal(high - low)} for median, low, high in found]
