"""Scaling by median and quantile range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from gpupipe.features.ops.base import OPS, State
from gpupipe.features.ops.scaling import Scaling, reciprocal
from gpupipe.features.program.expressions import NumericExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("robust_scale")
class RobustScale(Scaling):
    """Subtract the median and divide by the distance of two quantiles, as scikit-learn's RobustScaler."""

    quantiles: tuple[float, float] = Field((0.25, 0.75), description="Lower and upper quantile, in 0..1.")

    @model_validator(mode="after")
    def _quantiles_in_order(self) -> RobustScale:
        low, high = self.quantiles
        if not 0 <= low < high <= 1:
            raise ValueError(f"quantiles must be 0 <= low < high <= 1, got {low}, {high}")
        return self

    def fit(self, columns: list[NumericExpr], statistics: Statistics) -> list[State]:
        found = statistics.quantiles(columns, [0.5, *self.quantiles])
        return [{"center": median, "factor": reciprocal(high - low)} for median, low, high in found]
