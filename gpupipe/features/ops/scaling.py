"""Ops that move and stretch numbers: standardize, min_max, robust_scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from gpupipe.features.ops.base import OPS, InPlaceOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import Expr, NumericExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


LEAST = 2.0**-126  # the least float32 of full precision


class Scaling(InPlaceOp):
    """Base of the ops whose result is ``(x - center) * factor``."""

    def select(self, builder: ProgramBuilder) -> list[Expr]:
        return list(builder.select_numbers(self.columns, self.title()))

    def emit(self, column: Expr, state: State, builder: ProgramBuilder) -> None:
        assert isinstance(column, NumericExpr)
        builder.replace(column.then("CENTER", state["center"], state["factor"]), self.title())


def reciprocal(spread: float) -> float:
    """Return 1 / spread, or 1 for a column without any that float32 can tell from none: it becomes 0, not NaN."""
    return 1.0 / spread if spread > LEAST else 1.0


@OPS.register("standardize")
class Standardize(Scaling):
    """Give a column mean 0 and standard deviation 1 over the training rows, as scikit-learn's StandardScaler."""

    with_mean: bool = True
    with_std: bool = True

    def fit(self, columns: list[Expr], statistics: Statistics) -> list[State]:
        moments = statistics.moments(columns)  # type: ignore[arg-type]
        return [
            {"center": mean if self.with_mean else 0.0, "factor": reciprocal(std) if self.with_std else 1.0}
            for mean, std in moments
        ]


@OPS.register("min_max")
class MinMax(Scaling):
    """Map the training rows' smallest and largest value to 0 and 1; what lies beyond at serve lies beyond."""

    def fit(self, columns: list[Expr], statistics: Statistics) -> list[State]:
        extremes = statistics.extremes(columns)  # type: ignore[arg-type]
        return [{"center": low, "factor": reciprocal(high - low)} for low, high in extremes]


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

    def fit(self, columns: list[Expr], statistics: Statistics) -> list[State]:
        found = statistics.quantiles(columns, [0.5, *self.quantiles])  # type: ignore[arg-type]
        return [{"center": median, "factor": reciprocal(high - low)} for median, low, high in found]
