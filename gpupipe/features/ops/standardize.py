"""Standardization of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from gpupipe.features.ops.base import OPS, State
from gpupipe.features.ops.scaling import Scaling, reciprocal
from gpupipe.features.program.expressions import NumericExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("standardize")
class Standardize(Scaling):
    """Scale numbers to mean 0 and standard deviation 1 over the training rows: ``(x - mean) / std``.

    As scikit-learn's StandardScaler, with the population standard deviation (``ddof=0``). Nulls are ignored in the
    statistics and stay null. A constant column becomes 0. Row weights (``source.weight``) count.

    Output: replaces each selected column, or adds one with ``as``; float32.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"age": [20.0, 30.0, 40.0]})
        >>> program = FeatureProgram([{"standardize": "age"}]).set_output(transform="pandas")
        >>> program.fit_transform(frame)
                age
        0 -1.224745
        1  0.000000
        2  1.224745
    """

    with_mean: bool = Field(True, description="Subtract the mean.")
    with_std: bool = Field(True, description="Divide by the standard deviation.")

    def fit(self, columns: list[NumericExpr], statistics: Statistics) -> list[State]:
        moments = statistics.moments(columns)
        return [
            {"center": mean if self.with_mean else 0.0, "factor": reciprocal(std) if self.with_std else 1.0}
            for mean, std in moments
        ]
