"""Scaling to mean 0 and standard deviation 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.features.ops.base import OPS, State
from gpupipe.features.ops.scaling import Scaling, reciprocal
from gpupipe.features.program.expressions import NumericExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("standardize")
class Standardize(Scaling):
    """Give a column mean 0 and standard deviation 1 over the training rows, as scikit-learn's StandardScaler."""

    with_mean: bool = True
    with_std: bool = True

    def fit(self, columns: list[NumericExpr], statistics: Statistics) -> list[State]:
        moments = statistics.moments(columns)
        return [
            {"center": mean if self.with_mean else 0.0, "factor": reciprocal(std) if self.with_std else 1.0}
            for mean, std in moments
        ]
