"""Frequency of a level in the training rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("frequency_encode")
class FrequencyEncode(Op[CategoryExpr]):
    """Replace a level by its share of the training rows, in 0..1; null has its own share, a level never seen has 0."""

    def select(self, builder: ProgramBuilder) -> list[CategoryExpr]:
        return builder.select_categories(self.columns, "frequency_encode")

    def fit(self, columns: list[CategoryExpr], statistics: Statistics) -> list[State]:
        counts = statistics.counts(columns)
        return [{"shares": (count / max(1, statistics.n_rows)).tolist()} for count in counts]

    def emit(self, column: CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        builder.put(builder.look_up(column, state["shares"], f"{column.name}_frequency"), "frequency_encode")
