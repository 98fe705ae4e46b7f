"""Columns computed from arithmetic expressions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.features.ops.arithmetic import center_jointly
from gpupipe.features.ops.base import OPS, FeatureOp
from gpupipe.features.ops.impute import null_indicator
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr, NumericExpr, Producer, TimeExpr
from gpupipe.features.program.formula import Formula, FormulaError

if TYPE_CHECKING:
    from gpupipe.features.program.expressions import Expr

MOST_COLUMNS = 256


def _parsed(text: str) -> str:
    """Return `text`; raise FormulaError, a ValueError, if it cannot be parsed."""
    Formula(text)
    return text


@OPS.register("expression")
class Expression(FeatureOp):
    """Compute columns from arithmetic expressions: ``expression: {spend_per_visit: "spend / (1 + visits)"}``.

    Expressions consist of numbers, column names (names with spaces or symbols in backticks), ``+ - * /``, ``**`` with a
    whole number, comparisons (1 or 0), ``and``, ``or``, ``not``, and these functions: ``abs(x)``, ``clip(x, low,
    high)``, ``fillna(x, number)``, ``isnull(column)``, ``log(x)``, ``log1p(x)``, ``max(x, y)``, ``min(x, y)`` and
    ``where(condition, x, y)``. An expression may use the columns of the expressions before it.

    Null where a column that it uses is null (unless ``fillna`` or ``isnull`` handles it), where a divisor is 0, where a
    logarithm is undefined, and where an intermediate result exceeds float32 (3.4e38).

    Output: one column for each expression, float32, with the given name or else the text of the expression. The columns
    that it uses remain features.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"spend": [30.0, 50.0, None], "visits": [2, 0, 4]})
        >>> ops = [{"expression": {"per_visit": "spend / visits", "is_regular": "visits >= 2"}}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           spend  visits  per_visit  is_regular
        0   30.0     2.0       15.0         1.0
        1   50.0     0.0        NaN         0.0
        2    NaN     4.0        NaN         1.0
    """

    expressions: dict[Annotated[str, Field(min_length=1)], Annotated[str, AfterValidator(_parsed)]] = Field(
        min_length=1, max_length=MOST_COLUMNS, description="New column names, each with its expression."
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_short_forms(cls, value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"columns"} and isinstance(value["columns"], str | list):
            value = value["columns"]  # the loader's form of a string or a list
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list):
            return {"expressions": {str(text).strip(): text for text in value}}
        if isinstance(value, dict) and not (set(value) == {"expressions"} and isinstance(value["expressions"], dict)):
            return {"expressions": value}
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        full = handler.resolve_ref_schema(handler(core_schema))
        text: dict[str, Any] = {"type": "string"}
        forms = [{"type": "object", "additionalProperties": text}, text, {"type": "array", "items": text}, full]
        return {"title": full.get("title", cls.__name__), "description": cls.__doc__ or "", "anyOf": forms}

    def apply(self, builder: ProgramBuilder) -> None:
        """Add a column for each expression in order; each may use the columns before it."""
        for name, text in self.expressions.items():
            where = f"features: expression: {name}"
            reader, centred = _Reader(builder, where), partial(center_jointly, statistics=builder.statistics)
            try:
                made = Formula(text).column(name, reader.number, reader.null, centred)
            except FormulaError as error:
                raise ConfigError(str(error), where=where, names=[text]) from None
            builder.record_state(type(self).__name__, name, {"expression": text})
            builder.add(made)


class _Reader:
    """Columns that an expression uses, as earlier ops left them."""

    def __init__(self, builder: ProgramBuilder, where: str) -> None:
        self.builder, self.where = builder, where

    def number(self, name: str) -> NumericExpr:
        """Return a numeric or boolean column."""
        column = self._column(name)
        if isinstance(column, TimeExpr):
            raise ConfigError(
                f"expressions take numeric columns; {name!r} is datetime",
                where=self.where,
                fix=f"convert it first: - datetime_parts: {name}, or - arithmetic: {{difference: [{name}, OTHER]}}",
                names=[name],
            )
        return self.builder.select_numbers([name], "expression")[0]

    def null(self, name: str) -> NumericExpr:
        """Return the column that is 1 where a column is null, else 0."""
        column = self._column(name)
        if isinstance(column, NumericExpr):
            return null_indicator(column, name)
        if isinstance(column, TimeExpr):
            return NumericExpr(name, column.inputs, Producer("IS_NULL", column.source), may_be_null=False)
        if isinstance(column, CategoryExpr):
            return self.builder.look_up(column, [1.0] + [0.0] * (column.n_codes - 1), name)
        raise ConfigError(
            f"isnull does not apply to text; {name!r} is text",
            where=self.where,
            fix=f"declare it: schema: {{{name}: categorical}}",
            names=[name],
        )

    def _column(self, name: str) -> Expr:
        column = self.builder.columns.get(name)
        if column is None:
            marked = [f"`{other}`" for other in self.builder.columns if name in other and not other.isidentifier()]
            listed = f"the columns are {', '.join(list(self.builder.columns)[:20])}"
            fix = f"put names with spaces or symbols in backticks: {', '.join(marked[:5])}" if marked else listed
            hint = "" if marked else did_you_mean(name, self.builder.columns)
            raise ConfigError(f"no column {name!r}", where=self.where, fix=hint or fix, names=[name])
        return column
