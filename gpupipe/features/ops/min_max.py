"""Min-max scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.features.ops.base import OPS, State
from gpupipe.features.ops.scaling import Scaling, reciprocal
from gpupipe.features.program.expressions import NumericExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("min_max")
class MinMax(Scaling):
    """Scale numbers so that the training rows span 0 to 1: ``(x - min) / (max - min)``.

    As scikit-learn's MinMaxScaler: later values outside the training range give results outside [0, 1]. Nulls stay
    null. A constant column becomes 0. Row weights (``source.weight``) do not change it.

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

    def fit(self, columns: list[NumericExpr], statistics: Statistics) -> list[State]:
        extremes = statistics.extremes(columns)
        return [{"center": low, "factor": reciprocal(high - low)} for low, high in extremes]
