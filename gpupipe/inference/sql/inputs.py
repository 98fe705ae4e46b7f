"""Raw columns of a table as cells: the rules of `gpupipe.table.cell_encoders` in SQL.

Numbers are columns of numbers, also those that are categories or flags in training. Flags are BOOLEAN columns if they
were. Times are TIMESTAMP columns in UTC; SQLite has texts in ISO 8601 instead. Other columns are texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sqlglot import exp

from gpupipe.inference.sql.dialect import (
    BLANKS,
    Expr,
    SqlDialect,
    case,
    integer,
    is_in,
    is_null,
    number,
    text,
)
from gpupipe.inference.targets.columns import NUMBER_TYPES, as_number, number_codes, takes_numbers
from gpupipe.table.level_text import NULL_TEXTS, LevelLookup
from gpupipe.table.schema import BOOLEAN_WORDS, FIRST_LEVEL, LARGEST, NULL, UNSEEN, Column
from gpupipe.units import TICKS_PER_SECOND
from gpupipe_kernels.program.program import block_id
from gpupipe_kernels.rows.records import CODE, DOUBLE, KIND_OF_BLOCK, SINGLE, TIME

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.inference.sql.query import SqlQuery

InputType = Literal["number", "text", "boolean", "time"]
MICROSECONDS = 1_000_000


class Cell(NamedTuple):
    """A cell: a float64 number that is rounded to float32 already, or is not; an integer code or time."""

    name: str  # of the value in the query
    is_rounded: bool = True


@dataclass(frozen=True)
class SqlInput:
    """A raw column that the query reads."""

    column: Column
    type: InputType

    @staticmethod
    def of(column: Column) -> SqlInput:
        """Return the input of a column."""
        if column.kind == "datetime":
            return SqlInput(column, "number" if column.time_format in TICKS_PER_SECOND else "time")
        if column.dtype == "bool":
            return SqlInput(column, "boolean")
        return SqlInput(column, "number" if takes_numbers(column) else "text")

    def values(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the column of a table with the type that the query takes."""
        import pyarrow as pa

        from gpupipe.table.string_columns import as_dictionary
        from gpupipe.table.time_columns import as_times

        values = rows.column(self.column.source)
        if self.type == "time":
            return as_times(self.column.source, values, self.column.time_format)
        if self.type == "text":
            return as_dictionary(values).cast(pa.string())
        if self.type == "boolean":
            flags = {"true": True, "false": False}
            texts = as_dictionary(values).cast(pa.string()).to_pylist()
            return pa.chunked_array([pa.array([flags.get(each or "") for each in texts], pa.bool_())])
        if self.column.kind == "datetime":
            return values.cast(pa.int64())
        found = [as_number(self.column, each) for each in values.to_pylist()]
        return pa.chunked_array([pa.array(found, pa.float64(), from_pandas=True)])


def refused_columns(schema: Sequence[Column], dialect: SqlDialect) -> list[str]:
    """Return what SQL, or a dialect, cannot express of the columns of a schema."""
    found = []
    for column in schema:
        if column.kind == "datetime" and column.time_format == "ns":
            found.append(f"the time unit ns of {column.source}")
    if not dialect.is_postgres:  # others compare names without case, also quoted ones
        names = [column.source for column in schema]
        lower = [name.lower() for name in dict.fromkeys(names)]
        found += [f"columns that differ only by case: {name}" for name in names if lower.count(name.lower()) > 1]
    return found


def write_inputs(
    query: SqlQuery, schema: Sequence[Column], positions: Mapping[tuple[int, int], int], places: Mapping[str, Any]
) -> tuple[list[SqlInput], list[list[Cell]]]:
    """Define the cells of the columns of a schema; return the inputs, and the cells by kind.

    - `schema`: the columns that the program reads; none is derived, hashed or a text
    - `positions`: position of each column among the cells of its kind
    - `places`: block name and row of each column
    """
    inputs = [SqlInput.of(column) for column in schema]
    cells: list[dict[int, Cell]] = [{}, {}, {}, {}]
    for each in inputs:
        block, row = places[each.column.name]
        kind = KIND_OF_BLOCK[block_id(block)]
        found = WRITERS[kind](query, each)
        cells[kind][positions[block_id(block), row]] = Cell(query.define(found).name, kind != SINGLE)
    return inputs, [[own for _, own in sorted(of_kind.items())] for of_kind in cells]


def number_value(query: SqlQuery, column: Column) -> Expr:
    """Return a column of numbers as float64: null where it is not a number, infinite or too large."""
    dialect, raw = query.dialect, query.raw(column.source)
    found = query.define(_as_double(dialect, raw))
    return case([(dialect.call("ABS", found) <= number(LARGEST), found.copy())], None)


def _as_double(dialect: SqlDialect, raw: Expr) -> Expr:
    """Return a raw column as float64; a text that is not a number is an error of the database."""
    found = dialect.cast(raw, "double")
    if not dialect.is_sqlite:
        return found
    # SQLite converts a text to the number at its beginning, or to 0.
    is_missing = is_in(exp.Trim(this=raw.copy(), expression=text(BLANKS)), map(text, sorted(NULL_TEXTS)))
    is_number = is_in(dialect.call("TYPEOF", raw.copy()), [text("integer"), text("real")])
    is_written = is_in(dialect.call("JSON_TYPE", raw.copy()), [text("integer"), text("real")])
    malformed = dialect.call("JSON_VALID", raw.copy()).eq(integer(0))
    error = dialect.error("not a number: ", raw)
    branches = [(is_number, found), (is_missing, exp.Null()), (malformed, error), (is_written, found.copy())]
    return case(branches, error.copy())


def _cell_of_number(query: SqlQuery, each: SqlInput) -> Expr:
    return number_value(query, each.column)


def time_value(query: SqlQuery, each: SqlInput) -> Expr:
    """Return microseconds since 1970-01-01 UTC."""
    dialect, raw = query.dialect, query.raw(each.column.source)
    if each.type == "number":
        ticks = dialect.cast(raw, "bigint")
        return ticks * integer(MICROSECONDS // TICKS_PER_SECOND[each.column.time_format or "us"])
    if dialect.is_sqlite:
        seconds = dialect.call("STRFTIME", text("%s"), dialect.call("SUBSTR", raw, integer(1), integer(19)))
        rest = dialect.call("SUBSTR", dialect.call("RTRIM", raw.copy(), text("Z")), integer(21), integer(6))
        padded = dialect.call("SUBSTR", exp.DPipe(this=rest, expression=text("000000")), integer(1), integer(6))
        known = dialect.cast(seconds, "bigint") * integer(MICROSECONDS) + dialect.cast(padded, "bigint")
        is_time = exp.Glob(this=raw.copy(), expression=text("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*"))
        is_missing = is_in(exp.Trim(this=raw.copy(), expression=text(BLANKS)), map(text, sorted(NULL_TEXTS)))
        return case([(is_time, known), (is_missing, exp.Null())], dialect.error("not an ISO 8601 time: ", raw))
    if dialect.is_postgres:
        epoch = exp.Extract(this=exp.var("EPOCH"), expression=raw)
        return dialect.cast(dialect.call("ROUND", epoch * integer(MICROSECONDS)), "bigint")
    return exp.UnixMicros(this=raw)


def code_value(query: SqlQuery, each: SqlInput) -> Expr:
    """Return the code of a category or flag."""
    if each.type == "boolean":
        raw = query.raw(each.column.source)
        flags = ("false", "true")
        codes = [FIRST_LEVEL, FIRST_LEVEL + 1]
        if each.column.kind == "categorical":
            known = LevelLookup(each.column)
            codes = [UNSEEN if (code := known(flag)) is None else code for flag in flags]
        branches = [(raw, integer(codes[1])), (exp.Not(this=raw.copy()), integer(codes[0]))]
        return case(branches, integer(NULL))
    if each.type == "number":
        return _code_of_number(query, each.column)
    return _code_of_text(query, each.column)


def _code_of_number(query: SqlQuery, column: Column) -> Expr:
    codes, other = number_codes(column)
    x, is_missing = level_number(query, column)
    found = query.look_up(x, {number(known): integer(code) for known, code in codes.items()}, integer(other))
    return case([(is_missing, integer(NULL))], found)


def level_number(query: SqlQuery, column: Column) -> tuple[Expr, Expr]:
    """Return a column of numbers that are levels or flags, named, and whether it is missing."""
    dialect = query.dialect
    x: Expr = query.define(_as_double(dialect, query.raw(column.source)))
    if column.kind == "categorical" and column.dtype == "float":
        x = query.define(dialect.rounded(x))
    if dialect.is_sqlite:
        return x, is_null(x)
    is_nan = dialect.call("ABS", x.copy()) > number(1.7e308)  # NaN and infinity are above all numbers
    return x, exp.Or(this=is_null(x), expression=is_nan)


def _code_of_text(query: SqlQuery, column: Column) -> Expr:
    x, is_missing = level_text(query, column)
    if column.kind == "boolean":
        lower = query.define(exp.Lower(this=x))
        words = {**BOOLEAN_WORDS, "0.0": 0, "1.0": 1}
        of_flag = [[text(word) for word, own in words.items() if own == flag] for flag in (0, 1)]
        branches = [(is_in(lower, own), integer(FIRST_LEVEL + flag)) for flag, own in enumerate(of_flag)]
        return case(branches, integer(NULL))
    codes = LevelLookup(column).spellings()
    found = query.look_up(x, {text(known): integer(code) for known, code in codes.items()}, integer(UNSEEN))
    return case([(is_missing, integer(NULL))], found)


def level_text(query: SqlQuery, column: Column) -> tuple[Expr, Expr]:
    """Return a column of texts without blanks at its ends, named, and whether it is missing."""
    dialect, raw = query.dialect, query.raw(column.source)
    if column.dtype.startswith(NUMBER_TYPES):
        # Numbers above 2^53; of other types, a cast would write other texts than gpupipe.
        raw = dialect.cast(raw, "text")
    x = query.define(dialect.stripped(raw))
    return x, exp.Or(this=is_null(x), expression=is_in(x.copy(), map(text, sorted(NULL_TEXTS))))


WRITERS = {SINGLE: _cell_of_number, DOUBLE: _cell_of_number, TIME: time_value, CODE: code_value}
