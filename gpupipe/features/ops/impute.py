"""Imputation of nulls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field, FiniteFloat, model_validator

from gpupipe.errors import ConfigError
from gpupipe.features.ops.base import OPS, InPlaceOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr, NumericExpr, Producer

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


@OPS.register("impute")
class Impute(InPlaceOp[NumericExpr | CategoryExpr]):
    """Fill nulls: numbers with the median, the mean, the mode or a constant; categories with the mode or a constant.

    The statistics are those of the training rows. Ties of ``most_frequent`` go to the smallest number or the first
    level. A constant for a category must be one of its levels. Row weights (``source.weight``) count.

    Output: replaces each selected column, or adds one with ``as``; with ``indicator``, also ``age_missing``, which is 1
    where the value was null. Filled numbers are float32. A category stays categorical, for a later op to encode; a
    level that was not in the training rows stays unseen.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"age": [20.0, None, 40.0, 60.0]})
        >>> program = FeatureProgram([{"impute": {"columns": "age", "indicator": True}}]).set_output(transform="pandas")
        >>> program.fit_transform(frame)
            age  age_missing
        0  20.0          0.0
        1  40.0          1.0
        2  40.0          0.0
        3  60.0          0.0
    """

    strategy: Literal["median", "mean", "most_frequent", "constant"] = Field(
        "median", description="Value that replaces nulls; categories take most_frequent or constant."
    )
    value: bool | FiniteFloat | str | None = Field(None, description="The constant, for strategy: constant.")
    indicator: bool = Field(False, description="Add the column NAME_missing, 1 where the value was null, else 0.")

    @model_validator(mode="after")
    def _constant_has_a_value(self) -> Impute:
        if (self.strategy == "constant") != (self.value is not None):
            raise ValueError("strategy: constant requires value, and value requires strategy: constant")
        return self

    def select(self, builder: ProgramBuilder) -> list[NumericExpr | CategoryExpr]:
        columns: list[NumericExpr | CategoryExpr] = []
        for column in builder.select_any(self.columns, "impute"):
            numeric = isinstance(column, NumericExpr)
            if not isinstance(column, (NumericExpr, CategoryExpr)) or (
                not numeric and self.strategy in ("median", "mean")
            ):
                raise ConfigError(
                    f"impute: strategy {self.strategy} does not apply to {column.name!r}, which is {column.kind}",
                    fix="select @numeric, or use strategy: most_frequent",
                    names=[column.name],
                )
            columns.append(column)
        return columns

    def fit(self, columns: list[NumericExpr | CategoryExpr], statistics: Statistics) -> list[State]:
        numbers = [c for c in columns if isinstance(c, NumericExpr)]
        codes = [c for c in columns if isinstance(c, CategoryExpr)]
        values: dict[str, float | str | None] = {}
        values |= dict(zip([c.name for c in numbers], self._numbers(numbers, statistics), strict=True))
        values |= dict(zip([c.name for c in codes], self._levels(codes, statistics), strict=True))
        return [{"value": values[c.name]} for c in columns]

    def _numbers(self, columns: list[NumericExpr], statistics: Statistics) -> list[float]:
        if self.strategy == "constant":
            return [self._number(c) for c in columns]
        if self.strategy == "mean":
            return [mean for mean, _ in statistics.moments(columns)]
        if self.strategy == "most_frequent":
            return statistics.modes(columns)
        return [median for (median,) in statistics.quantiles(columns, [0.5])]

    def _number(self, column: NumericExpr) -> float:
        try:
            return float(self.value or 0)
        except ValueError:
            raise ConfigError(
                f"impute: expected a number for the numeric column {column.name!r}; got {self.value!r}",
                fix="such as value: 0",
                names=[column.name],
            ) from None

    def _levels(self, columns: list[CategoryExpr], statistics: Statistics) -> list[str | None]:
        if self.strategy == "constant":
            return [_as_level(self.value) for _ in columns]
        found = statistics.frequent_codes(columns)
        return [None if code is None else c.labels[code - 3] for c, code in zip(columns, found, strict=True)]

    def emit(self, column: NumericExpr | CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        if isinstance(column, CategoryExpr):
            self._emit_codes(column, state["value"], builder)
            return
        builder.replace(column.then("FILL", state["value"]), "impute")
        if self.indicator:
            builder.put(null_indicator(column, f"{column.name}_missing"), "impute")

    def _emit_codes(self, column: CategoryExpr, level: str | None, builder: ProgramBuilder) -> None:
        if level is None:
            builder.note(f"{column.name}: all values are null, so nothing is imputed")
            return
        if level not in column.labels:
            error = ConfigError(
                f"impute: {level!r} is not a level of {column.name!r}",
                fix=f"use one of {', '.join(column.labels[:20])}",
                names=[column.name],
            )
            error.depends_on_rows = True
            raise error
        builder.change(column.with_null_as(3 + column.labels.index(level)))
        if self.indicator:
            name = f"{column.name}_missing"
            made = builder.look_up(column, [1.0] + [0.0] * (column.n_codes - 1), name)
            builder.put(replace(made, root=name), "impute")  # the category itself is still to be encoded


def _as_level(value: object) -> str:
    """Return a constant in the text form of a level: 17850.0 becomes ``17850``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return str(value)


def null_indicator(column: NumericExpr, name: str) -> NumericExpr:
    """Return the column `name` that is 1 where `column` was null before any op filled it, else 0."""
    start = column.producer
    if start.operands or start.other:  # several sources: map numbers to 0 and nulls to 1
        indicator = replace(column, name=name, transforms=(), root=name)
        return indicator.then("CLIP", 0.0, 0.0).then("FILL", 1.0)
    if start.op != "TAKE":
        return NumericExpr(name, column.inputs, Producer("IS_NULL", start.source), may_be_null=False, root=name)

    import numpy as np

    assert start.table is not None  # TAKE has a table
    nulls = np.isnan(start.table).astype(np.float32)
    return NumericExpr(name, column.inputs, replace(start, table=nulls), may_be_null=False, root=name)
