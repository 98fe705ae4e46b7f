"""Base classes of the feature ops: settings, fit and emitted expressions."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from gpupipe.entry_points import OPS as PLUGINS
from gpupipe.errors import ConfigError
from gpupipe.registry import Registry
from gpupipe.settings import Settings

if TYPE_CHECKING:
    from gpupipe.features.program.builder import ProgramBuilder
    from gpupipe.features.program.expressions import Expr
    from gpupipe.features.statistics.training import Statistics

# In the order that `gpupipe schema` lists.
MODULES = (
    "auto", "null_if", "impute", "standardize", "min_max", "robust_scale", "log1p", "yeo_johnson", "clip",
    "bucketize", "encode", "one_hot", "categorify", "frequency_encode", "target_encode", "hash_bucket", "cross",
    "group_stats", "datetime_parts", "cyclic", "haversine", "bearing", "arithmetic", "polynomial", "expression",
    "aggregate", "lag", "difference", "rolling", "decay", "sessions", "time_since", "rfm", "last_events",
    "drop", "kernel", "text_hash", "text_counts", "text_vectors", "parse_number", "multi_hot", "list_stats",
    "list_hash", "list_columns", "bag_ids", "generate",
)  # fmt: skip

OPS: Registry[type[FeatureOp]] = Registry(
    "feature op", [f"gpupipe.features.ops.{name}" for name in MODULES], PLUGINS, "gpupipe.features.ops.plugin:adapt_op"
)

Column = TypeVar("Column", bound="Expr")  # kind of expression that an op takes

State = dict[str, Any]
"""State that an op learned from one column: JSON values, stored in the model for users to read."""


class FeatureOp(Settings):
    """One entry of ``features:``.

    There are three families of ops:

    - `Op` transforms each column of a selection, row by row;
    - an op that combines several columns (a distance, a ratio) subclasses `FeatureOp` directly, row by row as well;
    - `DerivedOp` adds columns that cannot be computed from a row alone: from a history, or from texts.
    """

    @abstractmethod
    def apply(self, builder: ProgramBuilder) -> None:
        """Add the expressions and matrix columns of the op to `builder`."""

    @classmethod
    def title(cls) -> str:
        """Return the configuration name of the op."""
        try:
            return OPS.name_of(cls)
        except ConfigError:
            return cls.__name__

    def named_inputs(self) -> tuple[str, ...]:
        """Return the input columns as written, globs and selectors included."""
        return ()


class SelectingOp(FeatureOp):
    """A feature op with a selection of columns.

    A list or a string instead of the settings is the selection alone: ``standardize: [tenure, age]``.
    """

    columns: str | list[str] = Field(
        description="Names, globs (usage_*), @numeric @categorical @datetime @boolean @text @list @all; !name excludes "
        "one."
    )

    def named_inputs(self) -> tuple[str, ...]:
        """Return the items of the selection."""
        return (self.columns,) if isinstance(self.columns, str) else tuple(self.columns)

    @model_validator(mode="before")
    @classmethod
    def _accept_a_bare_selection(cls, value: Any) -> Any:
        return {"columns": value} if isinstance(value, (str, list)) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        full = handler.resolve_ref_schema(handler(core_schema))
        selection = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
        return {"title": full.get("title", cls.__name__), "description": cls.__doc__ or "", "anyOf": [full, selection]}


class Op(SelectingOp, Generic[Column]):
    """A feature op that is applied to each column of a selection.

    ``Op[NumericExpr]`` takes numeric columns. A subclass selects columns in `select`, learns a state in `fit`, and adds
    expressions in `emit`. None of these methods accesses rows: `fit` requests reductions over the training rows from
    `Statistics`, and `emit` adds expressions to the `ProgramBuilder`. The same op therefore runs on a GPU and on a
    cluster.
    """

    @abstractmethod
    def select(self, builder: ProgramBuilder) -> list[Column]:
        """Return the selected columns; raise `ConfigError` if the op does not take their kind."""

    def fit(self, columns: list[Column], statistics: Statistics) -> list[State]:
        """Return the learned state of each column; by default there is none."""
        return [{} for _ in columns]

    @abstractmethod
    def emit(self, column: Column, state: State, builder: ProgramBuilder) -> None:
        """Add the expressions for `column` to `builder`."""

    def summary(self, state: State) -> State:
        """Return the part of a state that is stored in the model for users to read."""
        return state

    def apply(self, builder: ProgramBuilder) -> None:
        """Select columns, fit, and emit expressions."""
        columns = self.select(builder)
        states = self.fit(columns, builder.statistics)
        for column, state in zip(self.results(columns, builder), states, strict=True):
            builder.record_state(type(self).__name__, column.name, self.summary(state))
            self.emit(column, state, builder)

    def results(self, columns: list[Column], builder: ProgramBuilder) -> list[Column]:
        """Return the columns that `emit` receives: by default, the selected ones."""
        return columns


class InPlaceOp(Op[Column]):
    """A feature op whose result replaces the column, or with ``as`` is added as a new column.

    ``log1p: {columns: fare, as: fare_log}`` keeps ``fare``. For several columns, use ``as: "{column}_log"``.
    """

    name: str | None = Field(
        None,
        alias="as",
        min_length=1,
        description="Keep the column and add the result under this name; {column} stands for the name of the column.",
    )

    def results(self, columns: list[Column], builder: ProgramBuilder) -> list[Column]:
        """Return the columns, or with ``as`` a copy of each under its new name.

        Raise ConfigError if two results would have the same name, or the name of an existing column.
        """
        if self.name is None:
            return columns
        names = [self.name.replace("{column}", column.name) for column in columns]
        if len(set(names)) < len(names):
            raise ConfigError(
                f"{self.title()}: {len(names)} columns cannot all be named {self.name!r}",
                fix=f"use {{column}} in the name, as: '{{column}}_{self.title()}', or select one column",
                names=[self.name],
            )
        return [builder.copy(column, name) for column, name in zip(columns, names, strict=True)]
