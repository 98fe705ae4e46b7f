"""The ``source:`` and ``tables:`` sections. Imports none of the libraries that read: ``gpupipe check`` starts fast."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from gpupipe.errors import ConfigError, SchemaError
from gpupipe.io.compute_formula import parse_formula
from gpupipe.io.event_settings import Entities, GroupBy
from gpupipe.io.filter_expression import parse_where
from gpupipe.io.formats.registry import GENERATORS
from gpupipe.io.in_memory import FrameField, InMemoryTable, is_in_memory
from gpupipe.names import duplicates, enumerate_names
from gpupipe.settings import Label, Names, Settings
from gpupipe.table.schema import DeclaredColumn, declare

Format = Literal["auto", "csv", "parquet", "jsonl", "orc", "arrow"]
PREDICTION_COLUMNS = ("row", "fold", "target", "prediction")  # of predictions.parquet

WHITESPACE = r"\s+"
"""The ``delimiter`` of files whose fields are separated by runs of blanks and tabs."""


class CsvSettings(Settings):
    """How CSV files are written."""

    delimiter: str | None = Field(
        None,
        json_schema_extra={"pattern": r"^(?:.|\\s\+)$"},
        description=r"One character, or \s+ for runs of blanks and tabs; detected among , ; tab | if absent.",
    )
    names: tuple[str, ...] | None = Field(None, min_length=1, description="The columns of files without a header.")
    null_values: tuple[str, ...] = Field((), description="Texts that mean 'missing', besides the usual ones.")
    encoding: str = Field("utf8", description="Any encoding that Python knows: utf8, latin-1, cp1252, utf-16...")
    strip: bool = Field(True, description="Trim the blanks around text.")
    bad_rows: Literal["error", "skip"] = Field("error", description="Rows with another number of fields.")
    decimal: str = Field(".", min_length=1, max_length=1, description="The decimal point.")
    thousands: str | None = Field(
        None,
        min_length=1,
        max_length=1,
        description="What sets thousands apart, as in 1.234,56 or 1'234.",
    )
    quote: str | None = Field('"', min_length=1, max_length=1, description="The quotation mark; null for none.")

    @field_validator("delimiter")
    @classmethod
    def _is_one_character_or_whitespace(cls, delimiter: str | None) -> str | None:
        if delimiter is not None and len(delimiter) != 1 and delimiter != WHITESPACE:
            raise ValueError(f"expected one character, or {WHITESPACE} for runs of blanks and tabs; got {delimiter!r}")
        return delimiter

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, encoding: str) -> str:
        try:
            "".encode(encoding)  # which what is no encoding of text (hex, zip...) refuses
        except LookupError:
            raise ValueError(f"unknown encoding {encoding!r}; for example utf8, latin-1, cp1252, utf-16") from None
        return encoding

    @field_validator("names")
    @classmethod
    def _are_distinct(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if twice := duplicates(names or ()):
            raise ValueError(f"named twice: {enumerate_names(twice)}")
        return names

    @model_validator(mode="after")
    def _tells_marks_apart(self) -> CsvSettings:
        blanks = (" ", "\t") if self.delimiter == WHITESPACE else ()
        if self.thousands is not None and self.thousands in (self.decimal, self.delimiter, self.quote, *blanks):
            raise ValueError(f"thousands: {self.thousands!r} is a mark of something else already")
        return self


class ColumnSettings(Settings):
    """What a column holds: ``float``, or ``{kind: datetime, format: "%m/%d/%Y"}``."""

    kind: str = Field(
        description="A kind (numeric, categorical, datetime, boolean, text) or a dtype (int, float32...)."
    )
    format: str | None = Field(None, description="Of times: a strptime pattern, or s, ms, us, ns for numbers.")

    @model_validator(mode="before")
    @classmethod
    def _a_word_is_the_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        try:
            declare(kind)
        except SchemaError as error:
            raise ValueError(f"{error.what}: {error.fix}") from None
        return kind

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler(core)]}

    def declared(self) -> DeclaredColumn:
        """Return the declaration that the table encoder understands."""
        return declare(self.kind, self.format)


class TableSource(Settings):
    """One table: where it is, how it is written, and which rows and columns of it are wanted."""

    model_config = ConfigDict(populate_by_name=True)

    path: str | tuple[str, ...] | None = Field(
        None, description="A file, a glob, a folder (also a hive-partitioned one), an fsspec URL, or a list of these."
    )
    frame: FrameField | None = Field(
        None,
        description="A table in memory, given from Python. A written configuration keeps its description, and the "
        "table has to be given again.",
    )
    format: Format = Field("auto", description="How the files are written; by their suffix if auto.")
    generate: str | None = Field(None, description=f"A built-in generator instead of files: {', '.join(GENERATORS)}.")
    rows: int = Field(100_000, ge=1, description="Rows to generate.")
    seed: int = Field(7, ge=0, description="Seed of the generator.")
    columns: Names | None = Field(None, min_length=1, description="Keep only these: names and globs.")
    drop: Names = Field((), description="Columns to leave out: names, globs, selectors such as @text.")
    declared: dict[str, ColumnSettings] = Field(
        {}, alias="schema", description="Column to kind or dtype; what is not listed is inferred."
    )
    where: str | None = Field(None, description='Rows to keep, such as "2.5 <= fare <= 100 and miles is not None".')
    prepare: str | None = Field(
        None,
        pattern=r"^.+\.py:[A-Za-z_]\w*$",
        description='"file.py:function": takes and returns a pandas.DataFrame, for what the configuration cannot say. '
        "Runs on the table as read, before the row filter and before kinds are inferred.",
    )
    csv: CsvSettings = Field(CsvSettings(), description="How CSV files are written.")
    isolate: bool = Field(
        False,
        description="Read the files in a child process first, within limits of time and memory: one that crashes, "
        "hangs or floods its reader is an error that names it. For files from untrusted sources; they are read twice. "
        "Models keep it for the tables that they score.",
    )

    @model_validator(mode="before")
    @classmethod
    def _a_frame_is_no_path(cls, value: Any) -> Any:
        """Take a frame that was given as the path as the frame, and drop a description of one beside a path."""
        if not isinstance(value, Mapping):
            return value
        path, frame = value.get("path"), value.get("frame")
        if frame is None and is_in_memory(path):
            return {**value, "path": None, "frame": path}
        described = isinstance(frame, str) or (isinstance(frame, InMemoryTable) and not frame.has_rows)
        if described and (path is not None or value.get("generate") is not None):
            return {**value, "frame": None}
        return value

    @field_validator("path", mode="before")
    @classmethod
    def _may_be_a_path_object(cls, path: Any) -> Any:
        if isinstance(path, list | tuple):
            return [os.fspath(item) if isinstance(item, os.PathLike) else item for item in path]
        return os.fspath(path) if isinstance(path, os.PathLike) else path

    @field_validator("path")
    @classmethod
    def _is_not_empty(cls, path: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if path is not None and (not path or not all(path)):
            raise ValueError("an empty path names no file")
        return path

    @field_validator("columns")
    @classmethod
    def _are_known_before_reading(cls, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        kinds = [name for name in columns or () if name.startswith("@")]
        if kinds:
            raise ValueError(f"{', '.join(kinds)}: kinds are known after reading only; name the columns, or use drop")
        return columns

    @field_validator("generate")
    @classmethod
    def _is_a_generator(cls, name: str | None) -> str | None:
        if name is not None and name not in GENERATORS:
            raise ValueError(f"unknown generator {name!r}; one of {', '.join(GENERATORS)}")
        return name

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
    def _has_one_origin(self) -> TableSource:
        if (
            not self.is_made_of_events
            and sum(origin is not None for origin in (self.path, self.frame, self.generate)) != 1
        ):
            generators = ", ".join(GENERATORS)
            raise ValueError(f"give one of path (a file, folder or URL), frame (in Python) and generate ({generators})")
        return self

    @property
    def is_made_of_events(self) -> bool:
        """True if its rows are made of another table instead of being read."""
        return False

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths, as a tuple even where there is one."""
        return (self.path,) if isinstance(self.path, str) else self.path or ()

    @property
    def label(self) -> str:
        """Name of the table in messages."""
        return self.frame.label if self.frame is not None else self.generate or ", ".join(self.paths)

    def declarations(self) -> dict[str, DeclaredColumn]:
        """Return what ``schema:`` says, for `gpupipe.table.encode.encode`."""
        return {name: column.declared() for name, column in self.declared.items()}


class Source(TableSource):
    """The ``source:`` section: the main table, and its target."""

    entities: Entities | None = Field(
        None, description="Make the rows and their labels of an event table instead of reading a file."
    )
    target: str | None = Field(None, description="The column to predict.")
    id: Names = Field(
        (), description="Columns that name a row: never features, copied beside the predictions of runs and `predict`."
    )
    positive: Label | tuple[Label, ...] | None = Field(None, description="Label, or labels, of the positive class.")
    cache: Literal["auto"] | bool | str = Field(
        "auto", description="Keep the encoded table on disk: auto (64 MiB and more), true, false, or a folder."
    )

    @field_validator("id")
    @classmethod
    def _are_exact_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if patterns := [name for name in names if name.startswith(("@", "!")) or "*" in name]:
            raise ValueError(f"{', '.join(patterns)}: identifiers are exact names")
        if taken := [name for name in names if name in PREDICTION_COLUMNS]:
            raise ValueError(f"{taken[0]!r} is a column of predictions.parquet already: rename it in the source")
        return names

    @model_validator(mode="after")
    def _reads_no_file_for_entities(self) -> Source:
        if self.entities is None:
            return self
        for_files = self.model_fields_set - {"entities", "target", "positive", "cache"}
        if given := sorted(name for name in for_files if getattr(self, name) != type(self).model_fields[name].default):
            raise ValueError(
                f"{', '.join(given)}: the rows are made of the table {self.entities.table!r}; say there what it holds"
            )
        if self.entities.label is not None and self.target is None:
            raise ValueError("name the column that the label makes: target: churned")
        return self

    @model_validator(mode="after")
    def _keeps_its_target(self) -> Source:
        for section, names in (("drop", self.drop), ("id", self.id)):
            if self.target is not None and self.target in names:
                raise ValueError(f"{section}: {self.target} is the target")
        return self

    @property
    def positives(self) -> tuple[Label, ...]:
        """The labels of the positive class, as a tuple even where there is one."""
        if self.positive is None:
            return ()
        return self.positive if isinstance(self.positive, tuple) else (self.positive,)

    @property
    def is_made_of_events(self) -> bool:
        """True if its rows are made of another table instead of being read."""
        return self.entities is not None

    @property
    def label(self) -> str:
        """Name of the table in messages."""
        return super().label if self.entities is None else f"the keys of table {self.entities.table!r}"

    @property
    def checked(self) -> tuple[str, ...]:
        """Columns that are read though it may leave them out."""
        return ()


class CheckedSource(Source):
    """A source of which columns are read that it leaves out: rules are about them. No section of a configuration."""

    also: tuple[str, ...] = ()

    @property
    def checked(self) -> tuple[str, ...]:
        """Columns that are read though it may leave them out."""
        return self.also


class KeyPair(Settings):
    """Key columns that are called differently on the two sides: ``{left: customer, right: customer_id}``."""

    left: Names = Field(min_length=1, description="Key columns of the main table.")
    right: Names = Field(min_length=1, description="Key columns of the joined table, in the same order.")

    @model_validator(mode="after")
    def _pair_up(self) -> KeyPair:
        if len(self.left) != len(self.right):
            raise ValueError(f"left has {len(self.left)} key columns, right has {len(self.right)}")
        return self


class JoinedTable(TableSource):
    """An entry of ``tables:``. Its columns are looked up by key and joined to every row of the main table; or, where a
    row of the main one has many here (``one_to_many``), feature ops aggregate them."""

    on: KeyPair = Field(description="Key column or columns, or {left: ..., right: ...} where their names differ.")
    cardinality: Literal["many_to_one", "one_to_one", "one_to_many"] = Field(
        description="many_to_one: a key is at most once in this table. one_to_one: nor twice in the main one. Checked. "
        "one_to_many: not joined; its rows are events, for aggregate, rolling, decay, rfm and the like."
    )
    prefix: str = Field("", description="Put before the name of every column of this table but the keys.")
    time: str | None = Field(
        None, description="The datetime column of a table of events; what feature ops use that name none themselves."
    )
    compute: dict[str, str] = Field(
        {},
        description="New column to a formula over numeric columns: {spend: Quantity * UnitPrice}. Before where.",
    )
    group_by: GroupBy | None = Field(
        None, description="Aggregate the rows that pass where, such as the lines of an order to one row."
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
        """True if its rows are computed or grouped after reading, which only the host does."""
        return bool(self.compute) or self.group_by is not None

    @property
    def is_joined(self) -> bool:
        """Whether its columns are joined to the main table."""
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
