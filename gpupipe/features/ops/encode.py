"""Encoding of categories by the view of the model."""

from __future__ import annotations

from pydantic import Field

from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.ops.categorify import Categorify
from gpupipe.features.ops.frequency_encode import FrequencyEncode
from gpupipe.features.ops.one_hot import OneHot
from gpupipe.features.ops.target_encode import Smoothing, TargetEncode
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr


@OPS.register("encode")
class Encode(Op[CategoryExpr]):
    """Encode categories in the way that suits the model: integer ids for trees and embeddings, one-hot columns for
    others.

    A column with more than `max_one_hot` levels (one-hot) or `max_levels` levels (ids) is target-encoded, or, without a
    target, frequency-encoded. Nulls and unseen levels are handled by the chosen op: `one_hot`, `categorify`,
    `target_encode` or `frequency_encode`, as are row weights. Output columns are those of that op, float32.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"plan": ["basic", "plus", "basic"]})
        >>> program = FeatureProgram([{"encode": "plan"}]).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           plan=basic  plan=plus
        0         1.0        0.0
        1         0.0        1.0
        2         1.0        0.0
        >>> program.set_params(view="codes").fit_transform(frame)
           plan
        0   3.0
        1   4.0
        2   3.0
    """

    max_one_hot: int = Field(64, ge=1, description="Maximum number of one-hot columns for each column.")
    max_levels: int = Field(250, ge=1, description="Maximum number of integer ids for each column.")
    folds: int = Field(5, ge=2, le=100, description="Number of folds of the target encoding.")
    smoothing: Smoothing = Field(20.0, description="Weight of the prior in the target encoding, in rows, or auto.")

    def select(self, builder: ProgramBuilder) -> list[CategoryExpr]:
        return builder.select_categories(self.columns, "encode")

    def apply(self, builder: ProgramBuilder) -> None:
        """Apply the suitable op to each column."""
        for column in self.select(builder):
            self.choose(column, builder).apply(builder)

    def choose(self, column: CategoryExpr, builder: ProgramBuilder) -> Op[CategoryExpr]:
        """Return the suitable op for a column."""
        limit = self.max_one_hot if builder.view == "dense" else self.max_levels
        if len(column.labels) > limit and builder.statistics.target is not None:
            return TargetEncode(columns=[column.name], folds=self.folds, smoothing=self.smoothing)
        if len(column.labels) > limit:
            return FrequencyEncode(columns=[column.name])
        if builder.view == "dense":
            return OneHot(columns=[column.name], max_categories=self.max_one_hot)
        return Categorify(columns=[column.name])

    def emit(self, column: CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        """Do nothing: the chosen op emits the column."""
