"""Scaling of the range of a number to 0..1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.features.ops.base import OPS, State
from gpupipe.features.ops.scaling import Scaling, reciprocal
from gpupipe.features.program.expressions import NumericExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("min_max")
class MinMax(Scaling):
    """Map the training rows' smallest and largest value to 0 and 1; what lies beyond at serve lies beyond."""

    def fit(self, columns: list[NumericExpr], statistics: Statistics) -> list[State]:
        extremes = statistics.extremes(columns)
        return [{"center": low, "factor": reciprocal(high - low)} for low, high in extremes]
