"""Whatever a column is, the way that suits the model."""

from __future__ import annotations

from pydantic import Field

from gpupipe.features.ops.advice import of_texts
from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.ops.cyclic import Cyclic
from gpupipe.features.ops.datetime_parts import DatetimeParts
from gpupipe.features.ops.encode import Encode
from gpupipe.features.ops.impute import Impute
from gpupipe.features.ops.scaling import Standardize
from gpupipe.features.program.builder import NAN, Builder
from gpupipe.features.program.expressions import Codes, Numbers, Texts, Times, Virtual
from gpupipe.units import DAY_US

YEAR_US = 365 * DAY_US


@OPS.register("auto")
class Auto(Op):
    """Do what suits each column and each model; columns that no other op names are handled so too.

    Trees get numbers as they are, categories as ids, times as their parts. All others get numbers imputed by the
    median (with an indicator where nulls were seen) and standardized, categories one-hot or target-encoded, times on
    a circle. Free text is dropped with a warning.
    """

    max_one_hot: int = Field(64, ge=1, description="See encode.")
    max_levels: int = Field(250, ge=1, description="See encode.")

    def select(self, builder: Builder) -> list[Virtual]:
        return builder.any_kind(self.columns, "auto")

    def apply(self, builder: Builder) -> None:
        """Hand each column to the ops that suit it."""
        for column in self.select(builder):
            if isinstance(column, Texts):
                builder.warn(f"{column.name}: text, so not among the features; {of_texts(column, builder.statistics)}")
            elif isinstance(column, Times):
                self._times(column, builder)
            elif isinstance(column, Codes) and column.kind == "boolean":
                builder.put(builder.take(column, [NAN, NAN, NAN, 0.0, 1.0], column.name), "auto")
            elif isinstance(column, Codes):
                self._codes(column, builder)
            else:
                self._numbers(column, builder)

    def _codes(self, column: Codes, builder: Builder) -> None:
        folds = {"folds": builder.n_folds} if builder.n_folds else {}  # a row belongs to one fold
        Encode(
            columns=[column.name], max_one_hot=self.max_one_hot, max_levels=self.max_levels, **folds
        ).apply(builder)  # fmt: skip

    def _numbers(self, column: Numbers, builder: Builder) -> None:
        if builder.view == "codes":
            builder.put(column, "auto")
            return
        # A product or a distance is null where its columns are, and they have indicators of their own.
        tells_more = not column.start.operands or column.start.op == "CALL"
        has_nulls = tells_more and builder.statistics.null_counts([column])[0] > 0
        Impute(columns=[column.name], indicator=has_nulls).apply(builder)
        Standardize(columns=[column.name]).apply(builder)

    def _times(self, column: Times, builder: Builder) -> None:
        first, last = builder.statistics.time_range(column.source)
        names = [column.name]
        has_hours = builder.statistics.has_time_of_day(column.source)
        if builder.view == "codes":
            parts = ["elapsed_days", "month", "day", "weekday", *(["hour"] if has_hours else [])]
            DatetimeParts(columns=names, parts=parts).apply(builder)
            return
        DatetimeParts(columns=names, parts=["elapsed_days", "is_weekend"]).apply(builder)
        Standardize(columns=[f"{column.name}_elapsed_days"]).apply(builder)
        parts = ["weekday", *(["hour"] if has_hours else []), *(["month"] if last - first > YEAR_US // 4 else [])]
        Cyclic(columns=names, parts=parts).apply(builder)

    def lower(self, column: Virtual, state: State, builder: Builder) -> None:
        """Do nothing: the chosen ops have lowered the column."""
