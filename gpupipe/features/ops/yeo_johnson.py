"""Yeo-Johnson power transformation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from gpupipe.features.ops.base import OPS, InPlaceOp, State
from gpupipe.features.ops.scaling import reciprocal
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("yeo_johnson")
class YeoJohnson(InPlaceOp[NumericExpr]):
    """Transform skewed numbers of either sign towards a normal distribution, as scikit-learn's PowerTransformer.

    With exponent λ, ``y = ((1 + x)**λ - 1) / λ`` for x >= 0 (``log(1 + x)`` if λ is 0), and ``y = -((1 - x)**(2 - λ) -
    1) / (2 - λ)`` for x < 0 (``-log(1 - x)`` if λ is 2). λ maximizes the likelihood of the training rows, or of a
    sample of about 131,000 of them; 1 leaves the shape unchanged. Nulls stay null; so do results that exceed float32.
    Row weights (``source.weight``) count.

    Output: replaces each selected column, or adds one with ``as``; float32.

    After Yeo and Johnson, "A new family of power transformations to improve normality or symmetry", Biometrika 87
    (2000).

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"income": [1.0, 2.0, 4.0, 8.0, 100.0]})
        >>> program = FeatureProgram([{"yeo_johnson": "income"}]).set_output(transform="pandas")
        >>> program.fit_transform(frame)
             income
        0 -1.317513
        1 -0.692496
        2 -0.066687
        3  0.479856
        4  1.596840
    """

    standardize: bool = Field(True, description="Scale the result to mean 0 and standard deviation 1.")

    def select(self, builder: ProgramBuilder) -> list[NumericExpr]:
        return builder.select_numbers(self.columns, "yeo_johnson")

    def fit(self, columns: list[NumericExpr], statistics: Statistics) -> list[State]:
        found = statistics.exponents(columns)
        states: list[State] = [{"exponent": each.exponent, "is_limited": each.is_limited} for each in found]
        if self.standardize:
            made = zip(columns, states, found, strict=True)
            others = [_transform(column, state) for column, state, each in made if each.moments is None]
            reduced = iter(statistics.moments(others))
            for state, each in zip(states, found, strict=True):
                mean, std = each.moments or next(reduced)
                state |= {"center": mean, "factor": reciprocal(std)}
        return states

    def emit(self, column: NumericExpr, state: State, builder: ProgramBuilder) -> None:
        if state["is_limited"]:
            builder.note(
                f"{column.name}: yeo_johnson uses exponent {state['exponent']:.3g}: float32 cannot represent the "
                "result of the optimal one; standardize the column first"
            )
        transformed = _transform(column, state)
        if "center" in state:
            transformed = transformed.then("CENTER", state["center"], state["factor"])
        builder.replace(transformed, "yeo_johnson")


def _transform(column: NumericExpr, state: State) -> NumericExpr:
    exponent = state["exponent"]
    return column if exponent == 1 else column.then("YEO_JOHNSON", exponent)
