"""Settings of the ``source:`` and ``tables:`` sections. Imports no reader library, so ``gpupipe check`` starts fast."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PrivateAttr,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from gpupipe.errors import ConfigError
from gpupipe.io.column_settings import ColumnSettings
from gpupipe.io.compute_formula import parse_formula
from gpupipe.io.csv_settings import CsvSettings
from gpupipe.io.event_settings import Entities, GroupBy
from gpupipe.io.filter_expression import parse_where
from gpupipe.io.origin_settings import TableOrigin
from gpupipe.names import SELECTORS
from gpupipe.settings import Label, Names, Settings
from gpupipe.table.schema import TEXT_KINDS, DeclaredColumn, declare_lists
from gpupipe.table.time_texts import is_strict
from gpupipe.units import TICKS_PER_SECOND

DEFAULT_QUANTILES = (0.1, 0.5, 0.9)
PREDICTION_COLUMNS = ("row", "fold", "target", "prediction")  # columns of predictions.parquet


class TableSource(TableOrigin):
    """One input table: its location and format, and the rows and columns to keep."""

    model_config = ConfigDict(populate_by_name=True)

    columns: Names | None = Field(
        None, min_length=1, description="Columns to keep: names and globs. Default: all columns."
    )
    drop: Names = Field((), description="Columns to drop: names, globs and selectors such as @text.")
    declared: dict[str, ColumnSettings] = Field(
        {}, alias="schema", description="Kind or dtype by column name; columns that are not listed are inferred."
    )
    where: str | None = Field(
        None, description='Row filter, such as "2.5 <= fare <= 100 and miles is not None". Default: keep all rows.'
    )
    prepare: str | None = Field(
        None,
        pattern=r"^.+\.py:[A-Za-z_]\w*$",
        description='Hook "file.py:function" that takes and returns a pandas.DataFrame, for steps that cannot be '
        "configured. It runs on the table as read, before the row filter and before kinds are inferred.",
    )
    csv: CsvSettings = Field(CsvSettings(), description="CSV dialect; used for CSV files only.")
    isolate: bool = Field(
        False,
        description="Read each file in a child process first, under time and memory limits: a file that crashes the "
        "reader, hangs it or exhausts memory raises an error that names the file. For untrusted files; each file is "
        "read twice. An exported model applies the same setting to the tables it scores.",
    )

    _keys: tuple[str, ...] = PrivateAttr(default=())
    _keeps_blanks: bool = PrivateAttr(default=False)
    _lists: tuple[str, ...] = PrivateAttr(default=())

    @field_validator("columns")
    @classmethod
    def _have_no_selectors(cls, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        kinds = [name for name in columns or () if name in SELECTORS]
        if kinds:
            raise ValueError(
                f"{', '.join(kinds)}: columns takes names and globs only, as kinds are inferred after reading; list "
                "the columns, or use drop"
            )
        return columns

    @field_validator("where")
    @classmethod
    def _can_be_parsed(cls, where: str | None) -> str | None:
        if where is not None:
            try:
                parse_where(where)
            except ConfigError as error:
                raise ValueError(str(error)) from None
        return where

    @model_validator(mode="after")
    def _isolates_files(self) -> Self:
        if self.isolate and self.is_external:
            raise ValueError("isolate: it is for files that gpupipe did not write; remove it")
        return self

    def declarations(self) -> dict[str, DeclaredColumn]:
        """Return the columns declared in ``schema:``, as `gpupipe.table.encode.encode` takes them, and the `lists`."""
        return {**declare_lists(self._lists), **{name: column.declared() for name, column in self.declared.items()}}

    def read_as(self, keys: Iterable[str] = (), keeps_blanks: bool = False, lists: Iterable[str] = ()) -> Self:
        """Return these settings for a reader of keys and lists.

        `keys`: columns that are compared with those of another table, or with other rows: their texts are read as
        numbers only if that loses nothing, so that ``01`` is not 1. `keeps_blanks`: whether only CSV is stripped, as
        versions did whose models do not record it. `lists`: columns whose lists an op reads.
        """
        other = self.model_copy()
        other._keys, other._keeps_blanks = tuple(dict.fromkeys(keys)), keeps_blanks
        other._lists = tuple(lists)
        return other

    @property
    def lists(self) -> tuple[str, ...]:
        """The columns that are read as lists because an op names them."""
        return self._lists

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that are keys, unless ``schema:`` declares what their texts mean."""
        return tuple(name for name in self._keys if name not in self.declared)

    @property
    def strips_typed_files(self) -> bool:
        """True if texts of frames, and of files of other formats than CSV, are stripped."""
        return self.csv.strip and not self._keeps_blanks


def declared_texts(source: TableSource) -> set[str]:
    """Return the columns that are text, JSON arrays, or times or numbers in a format that parsers do not know."""
    return {name for name, column in source.declarations().items() if is_read_as_text(column)}


def is_read_as_text(column: DeclaredColumn) -> bool:
    """Return whether a parser must leave a column as text: Arrow would read its times as ISO 8601, for example."""
    has_format = column.kind == "datetime" and is_strict(column.time_format)
    return column.kind in (*TEXT_KINDS, "list") or has_format or column.number_format is not None


def names_of_ticks(source: TableSource) -> set[str]:
    """Return the columns that are declared to be numbers of a unit of time, which ISO 8601 texts are not."""
    return {name for name, column in source.declarations().items() if column.time_format in TICKS_PER_SECOND}


class Source(TableSource):
    """The ``source:`` section: the main table and its target."""

    entities: Entities | None = Field(
        None, description="Build the rows and their labels from an event table instead of reading a file."
    )
    target: str | Annotated[tuple[str, ...], Field(min_length=1, max_length=1_000)] | None = Field(
        None,
        description="Column to predict, or a list of columns to predict together: all of them numbers, or all of them "
        "with classes.",
    )
    id: Names = Field(
        (), description="Columns that identify a row. They are never features; they are copied to the predictions."
    )
    positive: Label | tuple[Label, ...] | dict[str, Label | tuple[Label, ...]] | None = Field(
        None,
        description="Label or labels of the positive class. With several targets, a mapping of column to labels; a "
        "column that is not listed keeps its classes.",
    )
    task: Literal["quantile", "ranking"] | None = Field(
        None,
        description="What to predict of the target. quantile: quantiles of a number. ranking: the order of the rows of "
        "each group by their relevance, an integer from 0 to 30. null: by the target, its class or its value.",
    )
    quantiles: Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], Field(min_length=1)] | None = Field(
        None,
        description="Levels of the quantiles that the task quantile predicts, ascending. Default: 0.1, 0.5 and 0.9.",
    )
    weight: str | None = Field(
        None,
        description="Column with the weight of each row, a number from 0: a row with weight 2 counts as two equal rows "
        "in training and evaluation, a row with weight 0 in neither. It is never a feature. Default: all rows weigh 1.",
    )
    cache: Literal["auto"] | bool | str = Field(
        "auto",
        description="Cache the encoded table on disk: true, false, a folder, or auto (tables of at least 64 MiB).",
    )

    @field_validator("id")
    @classmethod
    def _are_exact_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if patterns := [name for name in names if name in SELECTORS or name.startswith("!") or "*" in name]:
            raise ValueError(f"{', '.join(patterns)}: id takes exact column names, not globs or selectors")
        if taken := [name for name in names if name in PREDICTION_COLUMNS]:
            raise ValueError(f"{taken[0]!r} is a reserved column of predictions.parquet: rename it in the source")
        return names

    @model_validator(mode="after")
    def _has_no_file_settings_with_entities(self) -> Source:
        if self.entities is None:
            return self
        if self.weight is not None:
            raise ValueError(f"weight: {self.weight!r} cannot be read, because the rows are built from events")
        for_files = self.model_fields_set - {"entities", "target", "positive", "task", "quantiles", "weight", "cache"}
        if given := sorted(name for name in for_files if getattr(self, name) != type(self).model_fields[name].default):
            raise ValueError(
                f"{', '.join(given)}: the rows are built from table {self.entities.table!r}; set this on that table"
            )
        if self.entities.label is not None and self.target is None:
            raise ValueError("target is missing: name the column that holds the label, as in target: churned")
        if len(self.targets) > 1:
            raise ValueError("target: rows that are built from events have one label; name one column")
        return self

    @field_validator("target")
    @classmethod
    def _is_one_of_one(cls, target: Any) -> Any:
        return target[0] if isinstance(target, tuple) and len(target) == 1 else target

    @model_validator(mode="after")
    def _has_distinct_targets(self) -> Source:
        if "" in self.targets or len(set(self.targets)) < len(self.targets):
            raise ValueError(f"target: expected different names; got {', '.join(map(repr, self.targets))}")
        if self.task is not None and len(self.targets) > 1:
            raise ValueError(f"target: expected one column for task: {self.task}; got {', '.join(self.targets)}")
        written = [name for name in self.targets if name in self.declared and self.declared[name].number_format]
        if written:
            raise ValueError(f"schema: the target {written[0]!r} must have numbers in every table: convert its texts")
        return self

    @model_validator(mode="after")
    def _has_positives_of_its_targets(self) -> Source:
        if isinstance(self.positive, dict):
            if unknown := [name for name in self.positive if name not in self.targets]:
                raise ValueError(f"positive: {unknown[0]!r} is not a target; the targets are {', '.join(self.targets)}")
        elif self.positive is not None and len(self.targets) > 1:
            raise ValueError(
                f"positive: expected the label of each target, as in positive: {{{self.targets[0]}: LABEL}}"
            )
        return self

    @model_validator(mode="after")
    def _keeps_its_targets(self) -> Source:
        for section, names in (("drop", self.drop), ("id", self.id)):
            if taken := [name for name in self.targets if name in names]:
                raise ValueError(f"{section}: {taken[0]!r} is the target and cannot be listed here")
        return self

    @model_validator(mode="after")
    def _has_quantiles_of_a_number(self) -> Source:
        if self.task != "quantile" and self.quantiles is not None:
            raise ValueError("quantiles: they are for the task quantile; add task: quantile")
        if self.task is not None and self.target is None:
            raise ValueError(f"task: {self.task} needs a target; set the column to predict")
        if self.task is not None and self.positive is not None:
            raise ValueError(f"positive: it is for classes; remove it, or task: {self.task}")
        levels = self.quantile_levels
        if list(levels) != sorted(set(levels)):
            raise ValueError(f"quantiles: expected ascending levels; got {', '.join(f'{q:g}' for q in levels)}")
        return self

    @model_validator(mode="after")
    def _keeps_its_weight(self) -> Source:
        if self.weight in self.targets:
            raise ValueError(f"weight: {self.weight!r} is the target; choose another column")
        for section, names in (("drop", self.drop), ("id", self.id)):
            if self.weight is not None and self.weight in names:
                raise ValueError(f"{section}: {self.weight!r} is the weight and cannot be listed here")
        return self

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns to predict, always as a tuple."""
        if self.target is None:
            return ()
        return (self.target,) if isinstance(self.target, str) else self.target

    @property
    def quantile_levels(self) -> tuple[float, ...]:
        """The levels of the quantiles to predict; none unless the task is quantile."""
        return () if self.task != "quantile" else self.quantiles or DEFAULT_QUANTILES

    @property
    def positives(self) -> dict[str, tuple[Label, ...]]:
        """The labels of the positive class of each target that states them."""
        if self.positive is None:
            return {}
        given = self.positive if isinstance(self.positive, dict) else dict.fromkeys(self.targets, self.positive)
        return {name: labels if isinstance(labels, tuple) else (labels,) for name, labels in given.items()}

    @property
    def is_made_of_events(self) -> bool:
        """True if the rows are built from an event table instead of being read."""
        return self.entities is not None

    @property
    def label(self) -> str:
        """Name of the table, for messages."""
        return super().label if self.entities is None else f"keys of table {self.entities.table!r}"

    @property
    def checked(self) -> tuple[str, ...]:
        """Columns to read even if they are dropped from the table."""
        return ()


class CheckedSource(Source):
    """A source that also reads dropped columns that data rules check. Not a section of a configuration."""

    also: tuple[str, ...] = ()

    @property
    def checked(self) -> tuple[str, ...]:
        """Columns to read even if they are dropped from the table."""
        return self.also


class KeyPair(Settings):
    """Key columns with different names in the two tables: ``{left: customer, right: customer_id}``."""

    left: Names = Field(min_length=1, description="Key columns of the main table.")
    right: Names = Field(min_length=1, description="Key columns of the joined table, in the same order.")

    @model_validator(mode="after")
    def _pair_up(self) -> KeyPair:
        if len(self.left) != len(self.right):
            raise ValueError(f"expected as many keys left as right; got {len(self.left)} and {len(self.right)}")
        return self


class JoinedTable(TableSource):
    """An entry of ``tables:``. Its columns are looked up by key and joined to the main table; if a row of the main
    table has many rows here (``one_to_many``), feature ops aggregate them instead."""

    on: KeyPair = Field(
        description="Key column or columns, or {left: ..., right: ...} if their names differ in the two tables."
    )
    cardinality: Literal["many_to_one", "one_to_one", "one_to_many"] = Field(
        description="many_to_one: keys are unique in this table. one_to_one: keys are unique in both tables. Both are "
        "checked. one_to_many: the table is not joined; its rows are events, for ops such as aggregate, rolling, decay "
        "and rfm."
    )
    prefix: str = Field("", description="Prefix for the name of every column of this table except the keys.")
    time: str | None = Field(
        None, description="Datetime column of an event table: the default `time` of the feature ops that read it."
    )
    compute: dict[str, str] = Field(
        {},
        description="New columns by formulas over numeric columns: {spend: Quantity * UnitPrice}. Runs before where.",
    )
    group_by: GroupBy | None = Field(
        None, description="Aggregate the rows that pass where, for example the lines of an order to one row."
    )

    @field_validator("compute")
    @classmethod
    def _are_formulas(cls, compute: dict[str, str]) -> dict[str, str]:
        for text in compute.values():
            try:
                parse_formula(text)
            except ConfigError as error:
                raise ValueError(str(error)) from None
        return compute

    @property
    def has_steps(self) -> bool:
        """True if the rows are computed or grouped after reading, which runs on the CPU only."""
        return bool(self.compute) or self.group_by is not None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that are keys, of this table and of tables that are joined after it."""
        own = (name.removeprefix(self.prefix) for name in self._keys)
        return tuple(name for name in dict.fromkeys([*self.on.right, *own]) if name not in self.declared)

    @property
    def is_joined(self) -> bool:
        """True if the columns are joined to the main table."""
        return self.cardinality != "one_to_many"

    @field_validator("on", mode="before")
    @classmethod
    def _same_names_on_both_sides(cls, on: Any) -> Any:
        return {"left": on, "right": on} if isinstance(on, str | list | tuple) else on

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        names = handler.resolve_ref_schema(schema["properties"]["on"])["properties"]["left"]
        schema["properties"]["on"] = {"anyOf": [*names["anyOf"], schema["properties"]["on"]]}
        return schema
