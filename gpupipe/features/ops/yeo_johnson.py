"""A power transformation that brings a number nearest to a normal distribution."""

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
    """Bend a skewed number, of either sign, towards a normal distribution, as scikit-learn's PowerTransformer.

    The exponent is that of the greatest likelihood over the training rows (over some 131,000 of them where there are
    more): 1 changes nothing, 0 is a logarithm. Null stays null, and so is what becomes too large for float32.
    """

    standardize: bool = Field(True, description="Give the result mean 0 and standard deviation 1.")

    def select(self, builder: ProgramBuilder) -> list[NumericExpr]:
        return builder.select_numbers(self.columns, "yeo_johnson")

    def fit(self, columns: list[NumericExpr], statistics: Statistics) -> list[State]:
        found = statistics.exponents(columns)
        states: list[State] = [{"exponent": exponent, "is_limited": is_limited} for exponent, is_limited in found]
        if self.standardize:
            transformed = [_transform(column, state) for column, state in zip(columns, states, strict=True)]
            for state, (mean, std) in zip(states, statistics.moments(transformed), strict=True):
                state |= {"center": mean, "factor": reciprocal(std)}
        return states

    def emit(self, column: NumericExpr, state: State, builder: ProgramBuilder) -> None:
        if state["is_limited"]:
            builder.note(
                f"{column.name}: yeo_johnson with exponent {state['exponent']:.3g}: float32 does not hold the result of"
                " the best one; standardize it before"
            )
        transformed = _transform(column, state)
        if "center" in state:
            transformed = transformed.then("CENTER", state["center"], state["factor"])
        builder.replace(transformed, "yeo_johnson")


def _transform(column: NumericExpr, state: State) -> NumericExpr:
    exponent = state["exponent"]
    return column if exponent == 1 else column.then("YEO_JOHNSON", exponent)
