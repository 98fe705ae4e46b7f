"""Frequency encoding of categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("frequency_encode")
class FrequencyEncode(Op[CategoryExpr]):
    """Replace each level by its share of the training rows, in [0, 1].

    Nulls have their own share. A level that is not in the training rows becomes 0. Row weights (``source.weight``)
    count.

    Output: ``plan_frequency``, float32, never null.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"plan": ["basic", "plus", None, "basic"]})
        >>> program = FeatureProgram([{"frequency_encode": "plan"}]).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           plan_frequency
        0            0.50
        1            0.25
        2            0.25
        3            0.50
    """

    def select(self, builder: ProgramBuilder) -> list[CategoryExpr]:
        return builder.select_categories(self.columns, "frequency_encode")

    def fit(self, columns: list[CategoryExpr], statistics: Statistics) -> list[State]:
        return [{"shares": shares.tolist()} for shares in statistics.shares(columns)]

    def emit(self, column: CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        builder.put(builder.look_up(column, state["shares"], f"{column.name}_frequency"), "frequency_encode")
