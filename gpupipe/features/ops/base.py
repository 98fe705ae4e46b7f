"""Base classes of the feature ops: settings, a fit that asks for statistics, and emitted expressions."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from gpupipe.errors import ConfigError
from gpupipe.registry import Registry
from gpupipe.settings import Settings

if TYPE_CHECKING:
    from gpupipe.features.program.builder import ProgramBuilder
    from gpupipe.features.program.expressions import Expr
    from gpupipe.features.statistics.training import Statistics

OPS: Registry[type[FeatureOp]] = Registry("feature op")

Column = TypeVar("Column", bound="Expr")  # the kind of expression that an op takes

State = dict[str, Any]
"""What an op learned of one column: JSON values, kept in the model for people to read."""


class FeatureOp(Settings):
    """One entry of ``features:``. What an op is, is one of three:

    - `Op` works on each column of a selection, row by row;
    - an op of several columns (a distance, a ratio) is its own subclass of this, row by row as well;
    - `DerivedOp` makes columns that cannot be computed from a row alone: of a history, of a text.
    """

    @abstractmethod
    def apply(self, builder: ProgramBuilder) -> None:
        """Add the op's expressions and columns of the matrix to `builder`."""

    @classmethod
    def title(cls) -> str:
        """Return the name of the op in a configuration."""
        return next((name for name, op in OPS.items() if op is cls), cls.__name__)

    def named_inputs(self) -> tuple[str, ...]:
        """Return the columns that the op names as its inputs; globs and selectors are among them, as written."""
        return ()


class SelectingOp(FeatureOp):
    """A feature op of the columns that a selection names.

    A list or a string in place of the settings is the selection alone: ``standardize: [tenure, age]``.
    """

    columns: str | list[str] = Field(
        description="Names, globs (usage_*), @numeric @categorical @datetime @boolean @text @all; !name excludes one."
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

    ``Op[NumericExpr]`` is an op of numbers. A subclass names the columns it takes in `select`, learns in `fit`, and
    adds expressions in `emit`. None of them ever sees a row: `fit` asks `Statistics` for reductions over the training
    rows, `emit` adds expressions to the `ProgramBuilder`. So the same op works on a device, and on a cluster.
    """

    @abstractmethod
    def select(self, builder: ProgramBuilder) -> list[Column]:
        """Return the columns to work on, checked to be of the kind that the op takes."""

    def fit(self, columns: list[Column], statistics: Statistics) -> list[State]:
        """Return what was learned of each column; ops that learn nothing keep this."""
        return [{} for _ in columns]

    @abstractmethod
    def emit(self, column: Column, state: State, builder: ProgramBuilder) -> None:
        """Add the expressions that the op makes of `column` to `builder`."""

    def summary(self, state: State) -> State:
        """Return what of a state people should read; kept with the model."""
        return state

    def apply(self, builder: ProgramBuilder) -> None:
        """Select, fit and emit."""
        columns = self.select(builder)
        states = self.fit(columns, builder.statistics)
        for column, state in zip(self.results(columns, builder), states, strict=True):
            builder.record_state(type(self).__name__, column.name, self.summary(state))
            self.emit(column, state, builder)

    def results(self, columns: list[Column], builder: ProgramBuilder) -> list[Column]:
        """Return the columns that `emit` writes to: those that were selected."""
        return columns


class InPlaceOp(Op[Column]):
    """A feature op whose result replaces the column, or is added beside it with ``as``.

    ``log1p: {columns: fare, as: fare_log}`` keeps ``fare``. Results of several columns take ``as: "{column}_log"``.
    """

    name: str | None = Field(
        None,
        alias="as",
        min_length=1,
        description="Keep the column and add the result under this name; {column} stands for the name of the column.",
    )

    def results(self, columns: list[Column], builder: ProgramBuilder) -> list[Column]:
        """Return the columns themselves, or with ``as`` a copy of each under its new name.

        Raises
        ------
        ConfigError
            If two results would have the same name, or one has the name of a column.
        """
        if self.name is None:
            return columns
        names = [self.name.replace("{column}", column.name) for column in columns]
        if len(set(names)) < len(names):
            raise ConfigError(
                f"{self.title()}: {len(names)} columns cannot all be called {self.name!r}",
                fix=f"name each by its column, as: '{{column}}_{self.title()}', or select one column",
                names=[self.name],
            )
        return [builder.copy(column, name) for column, name in zip(columns, names, strict=True)]
