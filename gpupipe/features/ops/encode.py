"""Categories in the way that suits each model."""

from __future__ import annotations

from pydantic import Field

from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.ops.categorify import Categorify
from gpupipe.features.ops.frequency_encode import FrequencyEncode
from gpupipe.features.ops.one_hot import OneHot
from gpupipe.features.ops.target_encode import TargetEncode
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr


@OPS.register("encode")
class Encode(Op[CategoryExpr]):
    """Encode categories as each model likes them.

    Trees get integer ids with native categorical support, neural models ids to embed, all others one-hot columns. A
    column with more than `max_levels` levels is target-encoded where it would be ids, and beyond `max_one_hot` where it
    would be one-hot (frequency-encoded where there is no target).
    """

    max_one_hot: int = Field(64, ge=1, description="Most one-hot columns of one column.")
    max_levels: int = Field(250, ge=1, description="Most native categories of one column.")
    folds: int = Field(5, ge=2, le=100, description="Folds of the target encoding.")
    smoothing: float = Field(20.0, ge=0.0, description="Smoothing of the target encoding, in rows.")

    def select(self, builder: ProgramBuilder) -> list[CategoryExpr]:
        return builder.select_categories(self.columns, "encode")

    def apply(self, builder: ProgramBuilder) -> None:
        """Hand each column to the op that suits it."""
        for column in self.select(builder):
            self.choose(column, builder).apply(builder)

    def choose(self, column: CategoryExpr, builder: ProgramBuilder) -> Op[CategoryExpr]:
        """Return the op for one column."""
        limit = self.max_one_hot if builder.view == "dense" else self.max_levels
        if len(column.labels) > limit and builder.statistics.target is not None:
            return TargetEncode(columns=[column.name], folds=self.folds, smoothing=self.smoothing)
        if len(column.labels) > limit:
            return FrequencyEncode(columns=[column.name])
        if builder.view == "dense":
            return OneHot(columns=[column.name], max_categories=self.max_one_hot)
        return Categorify(columns=[column.name])

    def emit(self, column: CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        """Do nothing: the chosen op has emitted the column."""
