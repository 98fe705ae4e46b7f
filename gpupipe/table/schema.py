"""Schema of an encoded table: column names, kinds and levels. Standard library only, so that ``check`` starts fast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

from gpupipe.errors import SchemaError, did_you_mean
from gpupipe.units import ISO_EXAMPLE, TICKS_PER_SECOND
from gpupipe_kernels.program.opcodes import NAT as NAT  # a missing time, as in `gpupipe_kernels`

Kind = Literal["numeric", "boolean", "categorical", "datetime", "text", "list"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TEXT_KINDS: tuple[Kind, ...] = ("categorical", "text")
RAW_KINDS = {"text": "is free text", "list": "is a list"}  # not encoded, as only derived ops read them; for messages

# Reserved codes of every categorical column, in training and serving, on every device. Levels start at FIRST_LEVEL.
NULL = 0
UNSEEN = 1
RARE = 2
FIRST_LEVEL = 3
UNSEEN_TEXT = "\0unseen"  # equal to no level: Arrow strings from files do not start with NUL

TIME_TYPES = ("timestamp", "date", "time", "duration")  # prefixes of the names of Arrow types

LARGEST = 2.0**125  # the difference of two numbers up to this, and its reciprocal, fit into float32 (4e37)

# Texts that mean a missing value, apart from surrounding blanks, in every format; as in pandas.
NULL_VALUES = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip

# Texts of a boolean value, in lower case and without surrounding blanks, and its code less FIRST_LEVEL.
BOOLEAN_WORDS = {"false": 0, "no": 0, "n": 0, "f": 0, "0": 0, "true": 1, "yes": 1, "y": 1, "t": 1, "1": 1}


def expected_time(time_format: str | None) -> str:
    """Return the description of a valid time, for messages."""
    if time_format in TICKS_PER_SECOND:
        return f"a number of {time_format} since 1970-01-01 UTC"
    return f"a time in the format {time_format!r}" if time_format else f"an ISO 8601 time such as {ISO_EXAMPLE}"


@dataclass(frozen=True)
class Column:
    """One column of a table.

    - `kind`: numeric: float32 or float64, NaN is null. boolean: codes with levels ``false`` and ``true``. categorical:
      codes. datetime: int64 microseconds since 1970-01-01 UTC, `NAT` is null. text: Arrow strings, never encoded. list:
      Arrow lists, see `gpupipe.table.list_columns`.
    - `dtype`: the Arrow type of the input (``"int64"``, ``"string"``…), for messages and the frozen schema;
      ``"list<number>"`` or ``"list<text>"`` for lists
    - `nullable`: whether the input contained a null
    - `storage`: the block of the encoded column: ``"int8"``, ``"float64"``…; ``""`` for text and lists
    - `levels`: categorical and boolean columns only: the level of code ``FIRST_LEVEL + i`` is ``levels[i]``
    - `time_format`: format of a datetime column: of texts and integers (a ``strptime`` pattern) or of numbers (a unit
      such as ``"s"``). None: texts are ISO 8601. See `gpupipe.table.time_texts`.
    - `number_format`: notation of numbers in texts, for a numeric column that declares one: see
      `gpupipe.table.number_texts.NumberFormat`. None: texts are numbers as Python writes them.
    - `hash_of`: the column whose levels are hashed into this one. Code ``FIRST_LEVEL + len(levels) + h`` is bucket h,
      after the codes of the `levels` that an op gives, if any
    - `n_buckets`: number of buckets of a hashed column; 0: all but the given levels are unseen
    - `derived`: whether an op derived it, so that it is not in the input
    - `has_scale`: whether a derived column has the scale that models of scaled numbers expect, such as a hashed text or
      a flag
    - `has_normal_form`: whether a text that writes a value in another way is the same level: see
      `gpupipe.table.level_text`. False in models of earlier versions, whose levels are compared as they are.
    - `unread`: what the texts were that are not in the `number_format`, for a warning; not part of a stored schema
    """

    name: str
    kind: Kind
    dtype: str
    nullable: bool = True
    storage: str = ""
    levels: tuple[str, ...] | None = None
    time_format: str | None = None
    hash_of: str | None = None
    n_buckets: int = 0
    derived: bool = False
    has_scale: bool = False
    has_normal_form: bool = False
    number_format: str | None = None
    unread: str = field(default="", compare=False)

    def __repr__(self) -> str:
        levels = "" if self.levels is None else f", {len(self.levels):,} levels"
        return f"Column({self.name!r}, {self.kind}, {self.dtype!r}{levels}{', nullable' if self.nullable else ''})"

    @property
    def n_codes(self) -> int:
        """Number of codes, including the reserved ones (0 for a column without codes)."""
        if self.hash_of is not None:
            return FIRST_LEVEL + len(self.levels or ()) + self.n_buckets
        return 0 if self.levels is None else FIRST_LEVEL + len(self.levels)

    @property
    def expected(self) -> str:
        """Description of a valid cell, for messages."""
        if self.kind == "datetime":
            return expected_time(self.time_format)
        if self.kind == "list":
            return f"a list of {self.item_kind}s"
        return {"numeric": "a number", "boolean": "a boolean (true/false, yes/no, 1/0)"}.get(self.kind, "a text")

    @property
    def item_kind(self) -> str:
        """Kind of the items of a list column: ``number`` or ``text``."""
        return self.dtype.removeprefix("list<").removesuffix(">")

    @property
    def source(self) -> str:
        """The input column that this one is encoded from."""
        return self.hash_of or self.name

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values, without defaults, and without levels, which have a separate file."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("levels", "unread")}
        defaults = {f.name: f.default for f in fields(self)}
        return {name: value for name, value in values.items() if value != defaults[name] or name == "nullable"}


@dataclass(frozen=True)
class Schema:
    """The columns of a table, in order."""

    columns: tuple[Column, ...]

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.names[:5])) + (", …" if len(self) > 5 else "")
        return f"Schema({len(self)} columns: {names})"

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Column:
        if name in self._by_name:
            return self._by_name[name]
        hint = did_you_mean(name, self.names) or f"use one of the columns {', '.join(self.names[:20])}"
        raise SchemaError(f"no column {name!r}", fix=hint, names=[name])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def lists(self) -> tuple[str, ...]:
        """Names of the list columns."""
        return tuple(column.name for column in self.columns if column.kind == "list")

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def select(self, names: Sequence[str]) -> Schema:
        """Return the schema with only these columns, in the given order."""
        return Schema(tuple(self[name] for name in names))

    def without(self, names: Iterable[str]) -> Schema:
        """Return the schema without these columns."""
        gone = set(names)
        return Schema(tuple(column for column in self.columns if column.name not in gone))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the columns as JSON values, without levels."""
        return [column.to_json() for column in self.columns]

    def levels_to_json(self) -> dict[str, list[str]]:
        """Return the levels by column, in code order; columns without levels are absent."""
        return {column.name: list(column.levels) for column in self.columns if column.levels}

    @staticmethod
    def from_json(columns: list[dict[str, Any]], levels: dict[str, tuple[str, ...]]) -> Schema:
        """Return the schema from the result of `to_json` and the levels of each categorical column."""
        return Schema(tuple(replace(Column(**c), levels=levels.get(c["name"])) for c in columns))


@dataclass(frozen=True)
class DeclaredColumn:
    """A column's declaration in ``schema:``: its kind and, if relevant, its storage, time format or number format.

    `is_recorded` is whether a model has recorded it, so that no time format is inferred: None is ISO 8601.
    `is_implied` is whether an op that names the column implies it, so that the column may be absent.
    """

    kind: Kind
    storage: str | None = None
    time_format: str | None = None
    is_recorded: bool = False
    number_format: str | None = None
    is_implied: bool = False


DECLARATIONS: dict[str, DeclaredColumn] = {
    **{
        name: DeclaredColumn("numeric")
        for name in ("numeric", "number", "float", "double", "float64", "int", "integer")
    },
    **{name: DeclaredColumn("numeric") for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")},
    "float32": DeclaredColumn("numeric", storage="float32"),
    **{name: DeclaredColumn("categorical") for name in ("categorical", "category", "string", "str")},
    **{name: DeclaredColumn("boolean") for name in ("boolean", "bool")},
    **{name: DeclaredColumn("datetime") for name in ("datetime", "date", "timestamp")},
    "text": DeclaredColumn("text"),
    "list": DeclaredColumn("list"),
}


def declare_lists(names: Iterable[str]) -> dict[str, DeclaredColumn]:
    """Return the declarations of columns that list ops name."""
    return dict.fromkeys(names, DeclaredColumn("list", is_implied=True))


def stated(declared: Mapping[str, DeclaredColumn]) -> list[str]:
    """Return the columns that ``schema:`` declares, which must exist."""
    return [name for name, column in declared.items() if not column.is_implied]


def declare(value: str, time_format: str | None = None, number_format: str | None = None) -> DeclaredColumn:
    """Return the declaration for a name in ``schema:``, such as ``"float"`` or ``"category"``.

    Raise SchemaError if it is not the name of a kind or dtype.
    """
    if value not in DECLARATIONS:
        hint = did_you_mean(value, DECLARATIONS) or f"use one of {', '.join(DECLARATIONS)}"
        raise SchemaError(f"unknown dtype {value!r}", fix=hint)
    return replace(DECLARATIONS[value], time_format=time_format, number_format=number_format)
