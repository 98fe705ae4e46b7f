"""Default treatment of columns, by kind and view."""

from __future__ import annotations

from pydantic import Field

from gpupipe.features.ops.advice import advise_texts, written_numbers
from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.ops.cyclic import Cyclic
from gpupipe.features.ops.datetime_parts import DatetimeParts
from gpupipe.features.ops.encode import Encode
from gpupipe.features.ops.impute import Impute
from gpupipe.features.ops.standardize import Standardize
from gpupipe.features.ops.zoned_op import zone_table
from gpupipe.features.program.builder import NAN, ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr, Expr, NumericExpr, TextExpr, TimeExpr
from gpupipe.units import DAY_US

YEAR_US = 365 * DAY_US


@OPS.register("auto")
class Auto(Op[Expr]):
    """Apply the default treatment for a column's kind and the model's view.

    Columns that no op selects are handled by `auto` as well, so it rarely needs to be written down.

    ==================  ========================================  =================================================
    kind                dense and embedding view                  codes view (trees)
    ==================  ========================================  =================================================
    numeric             imputed by the median, standardized       unchanged, nulls included
    hashed text, flag   imputed by the median                     unchanged, nulls included
    categorical         as in `encode`                            as in `encode`
    boolean             0 or 1                                    0 or 1
    datetime            elapsed days, weekend flag, and `cyclic`  `datetime_parts`: elapsed days, month, day, weekday;
                        weekday, hour and month                   and the hour
    text                dropped with a warning                    dropped with a warning
    ==================  ========================================  =================================================

    The dense and embedding views add an indicator column ``age_missing`` to a numeric column that has nulls in the
    training rows. The hour is added if any time is not midnight, the cyclic month if the times span more than a quarter
    of a year. All output columns are float32.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"age": [20.0, None, 40.0], "plan": ["basic", "plus", None]})
        >>> program = FeatureProgram([{"auto": "@all"}]).set_output(transform="pandas")
        >>> program.fit_transform(frame)
                age  age_missing  plan=basic  plan=plus  plan=(null)
        0 -1.224745          0.0         1.0        0.0          0.0
        1  0.000000          1.0         0.0        1.0          0.0
        2  1.224745          0.0         0.0        0.0          1.0
    """

    max_one_hot: int = Field(
        64,
        ge=1,
        description="Maximum number of one-hot columns for each column; with more levels it is target-encoded.",
    )
    max_levels: int = Field(
        250, ge=1, description="Maximum number of integer ids for each column; with more levels it is target-encoded."
    )

    def select(self, builder: ProgramBuilder) -> list[Expr]:
        return builder.select_any(self.columns, "auto")

    def apply(self, builder: ProgramBuilder) -> None:
        """Apply the suitable ops to each column."""
        for column in self.select(builder):
            if isinstance(column, TextExpr):
                if column.name in builder.consumed:
                    continue
                builder.warn(
                    f"{column.kind} column {column.name!r} dropped; {advise_texts(column, builder.statistics)}"
                )
            elif isinstance(column, TimeExpr):
                self._times(column, builder)
            elif isinstance(column, CategoryExpr) and column.kind == "boolean":
                builder.put(builder.look_up(column, [NAN, NAN, NAN, 0.0, 1.0], column.name), "auto")
            elif isinstance(column, CategoryExpr):
                if column.name not in builder.consumed and (numbers := written_numbers(column)):
                    builder.warn(f"column {column.name!r} is categorical, but {numbers}")
                self._codes(column, builder)
            else:
                self._numbers(column, builder)

    def _codes(self, column: CategoryExpr, builder: ProgramBuilder) -> None:
        folds = {"folds": builder.n_folds} if builder.n_folds else {}  # each row has one fold
        limits = {"max_one_hot": self.max_one_hot, "max_levels": self.max_levels}
        Encode(columns=[column.name], **limits, **folds).apply(builder)

    def _numbers(self, column: NumericExpr, builder: ProgramBuilder) -> None:
        if builder.view == "codes":
            builder.put(column, "auto")
            return
        # A product or a distance is null where its inputs are, and these have their own indicators; null_if adds nulls.
        is_changed = column.inputs == (column.name,)
        is_informative = not column.producer.operands or column.producer.op == "CALL" or is_changed
        has_nulls = is_informative and builder.statistics.null_counts([column])[0] > 0
        has_scale = column.producer.op == "LOAD" and builder.statistics.table.schema[column.producer.source].has_scale
        if has_scale and not has_nulls:
            builder.put(column, "auto")
            return
        Impute(columns=[column.name], indicator=has_nulls).apply(builder)
        if not has_scale:
            Standardize(columns=[column.name]).apply(builder)

    def _times(self, column: TimeExpr, builder: ProgramBuilder) -> None:
        first, last = builder.statistics.time_range(column.source)
        names = [column.name]
        zone = zone_table(DatetimeParts(columns=names).zone_state(column, builder.statistics).get("zone", "UTC"))
        has_hours = builder.statistics.has_time_of_day(column.source, zone)
        if builder.view == "codes":
            parts = ["elapsed_days", "month", "day", "weekday", *(["hour"] if has_hours else [])]
            DatetimeParts(columns=names, parts=parts).apply(builder)
            return
        DatetimeParts(columns=names, parts=["elapsed_days", "is_weekend"]).apply(builder)
        Standardize(columns=[f"{column.name}_elapsed_days"]).apply(builder)
        parts = ["weekday", *(["hour"] if has_hours else []), *(["month"] if last - first > YEAR_US // 4 else [])]
        Cyclic(columns=names, parts=parts).apply(builder)

    def emit(self, column: Expr, state: State, builder: ProgramBuilder) -> None:
        """Do nothing: the chosen ops emit the column."""
