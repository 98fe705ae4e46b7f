"""Encoding of Arrow tables: the schema is inferred, or a frozen one is enforced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.arrow_numpy import scalar, to_numpy
from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError, did_you_mean
from gpupipe.names import MOST_HINTS, duplicates, enumerate_names
from gpupipe.table.arrange import move_table
from gpupipe.table.blocks import Table, allocate
from gpupipe.table.cell_checks import check_cells, refuse_served
from gpupipe.table.column_summary import ColumnSummary
from gpupipe.table.exact_values import is_number
from gpupipe.table.level_text import normal_text
from gpupipe.table.list_columns import READ_LISTS, is_list, read_lists
from gpupipe.table.numeric_columns import as_numbers, write_numbers
from gpupipe.table.schema import BOOLEAN_WORDS, FIRST_LEVEL, NULL, TIME_TYPES, Column, DeclaredColumn, Schema, stated
from gpupipe.table.string_columns import (
    as_dictionary,
    dictionaries,
    refuse,
    remap,
    remap_hashed,
    used_texts,
    write_codes,
)
from gpupipe.table.time_columns import as_times, write_times


@dataclass(frozen=True)
class EncodePlan:
    """The description of a column and the function that writes its rows to a block.

    `write` writes the encoded rows to an array of the column's storage dtype, shape (rows,); None for text and lists.
    `text` has the rows of such a column: a pyarrow.ChunkedArray or DeviceText.
    """

    column: Column
    write: Callable[[Any], None] | None
    text: Any = None


def encode(
    arrow: pa.Table,
    backend: Backend,
    declared: Mapping[str, DeclaredColumn] | None = None,
    frozen: Schema | None = None,
) -> Table:
    """Encode an Arrow table.

    Strings may be dictionary-encoded, in any number of chunks, each with its own dictionary. Columns that are not
    `declared` are inferred. With `frozen`, encode to exactly these columns, in this layout, with these levels; other
    levels become UNSEEN. Raise SchemaError if a declared or frozen column is absent, or contains values of another
    kind; the message lists the rows.
    """
    require_distinct(arrow.column_names)
    if frozen is not None:
        require(arrow.column_names, [column.source for column in frozen], "the model needs")
        plans = backend.map(lambda column: enforce(column, plain_values(arrow, column.source, column.kind)), frozen)
    else:
        declared = declared or {}
        require(arrow.column_names, stated(declared), "schema: declares")
        plans = backend.map(
            lambda name: infer(name, plain_values(arrow, name, declared_kind(declared, name)), declared.get(name)),
            arrow.column_names,
        )
    schema = Schema(tuple(plan.column for plan in plans))
    blocks, places = allocate(schema, arrow.num_rows, np)

    def write(plan: EncodePlan) -> None:
        if plan.write is not None:
            block, row = places[plan.column.name]
            plan.write(blocks[block][row])

    backend.map(write, plans)
    texts = {plan.column.name: plan.text for plan in plans if plan.text is not None}
    return move_table(Table(schema, arrow.num_rows, blocks, places, texts), backend)


def encode_served(arrow: pa.Table, backend: Backend, schema: Schema) -> Table:
    """Encode rows for a fitted model: `encode` with `schema` frozen, and errors worded for the user of the model.

    Raise SchemaError if a column is absent or cells do not match its kind; the message lists every such column, with
    values and rows.
    """
    try:
        return encode(arrow, backend, frozen=schema)
    except SchemaError as error:
        raise refuse_served(_refused(arrow, schema), error) from None


def _refused(arrow: pa.Table, schema: Schema) -> list[tuple[Column, pa.ChunkedArray]]:
    """Return the columns of a table that do not match `schema`."""
    found = []
    names = frozenset(arrow.column_names)
    for column in schema:
        if column.source in names:
            values = arrow.column(column.source)
            try:
                enforce(column, plain_values(arrow, column.source, column.kind))
                is_wrong = (
                    column.kind == "boolean" and check_cells(column, values) is not None
                )  # otherwise detected when writing
            except SchemaError:
                is_wrong = True
            if is_wrong:
                found.append((column, values))
    return found


def declared_kind(declared: Mapping[str, DeclaredColumn], name: str) -> str | None:
    """Return the declared kind of a column; None if it is to be inferred."""
    return declared[name].kind if name in declared else None


def plain_values(arrow: pa.Table, name: str, kind: str | None = None) -> pa.ChunkedArray:
    """Return a column prepared for encoding, whose `kind` may be known.

    Raise SchemaError unless it has a single value per row, or a list if this is its kind.
    """
    column = arrow.column(name)
    found = column.type
    if pa.types.is_string_view(found):
        return column.cast(pa.string())
    if kind == "list" and is_list(found):
        return column
    if pa.types.is_nested(found) or pa.types.is_interval(found):
        way_out = f"{READ_LISTS.format(name=name)}, or " if is_list(found) else ""
        raise SchemaError(
            f"column {name!r} contains {found}: expected a single value per row",
            fix=f"{way_out}drop it: drop: [{name}], or frame.drop(columns=[{name!r}])",
            names=[name],
        )
    return column


def require_distinct(names: list[str]) -> None:
    """Raise SchemaError if two columns have the same name."""
    if twice := duplicates(names):
        what = f"column names are not unique: {enumerate_names(twice, quoted=True)}"
        raise SchemaError(what, fix="rename or drop one of them", names=twice)


def require(found: list[str], names: Iterable[str], who: str) -> None:
    """Raise SchemaError, with `who` as its subject, if one of `names` is not among the columns `found`."""
    known = frozenset(found)
    absent = [name for name in dict.fromkeys(names) if name not in known]
    if absent:
        hints = [did_you_mean(name, found) for name in absent[:MOST_HINTS]]
        raise SchemaError(
            f"{who} {'columns that are' if len(absent) > 1 else 'a column that is'} not in the data: "
            + enumerate_names(absent),
            where=f"columns found: {enumerate_names(found)}",
            fix="; ".join(hint for hint in hints if hint) or "add the column, or correct its name",
        )


def infer(name: str, column: pa.ChunkedArray, declared: DeclaredColumn | None) -> EncodePlan:
    """Return the inferred plan of a column, by its declaration, type and values."""
    summary = ColumnSummary(name, column.type, declared, len(column))
    if summary.kind == "numeric":
        numbers = summary.add_numbers(column)
        return EncodePlan(summary.column(len(column)), lambda out: write_numbers(numbers, out))
    summary.add(column)
    return enforce(summary.column(len(column)), column)


def is_time(kind: pa.DataType) -> bool:
    """Return whether a type represents points in time."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def enforce(column: Column, values: pa.ChunkedArray) -> EncodePlan:
    """Return the plan of a known column for `values`; raise SchemaError if they do not match its kind."""
    if column.kind == "numeric":
        numbers = numbers_of(column, values)
        return EncodePlan(column, lambda out: write_numbers(numbers, out))
    if column.kind == "datetime":
        times = as_times(column.name, values, column.time_format)
        return EncodePlan(column, lambda out: write_times(times, out))
    if column.kind == "boolean":
        return EncodePlan(column, lambda out: _write_booleans(column.name, values, out))
    if column.kind == "categorical":
        return EncodePlan(column, lambda out: _write_levels(column, values, out))
    if column.kind == "list":
        return EncodePlan(column, None, read_lists(column, values))
    if pa.types.is_floating(values.type):  # NaN is not a text either
        values = pc.if_else(pc.is_nan(values), scalar(None, values.type), values)
    return EncodePlan(column, None, values)


def numbers_of(column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return `values` of a known numeric column as Arrow numbers; raise SchemaError if they are not numbers."""
    if is_time(values.type) and not column.dtype.startswith(TIME_TYPES):
        # Microseconds since 1970 would be accepted as numbers.
        what = f"expected numbers in column {column.name!r}; found times"
        raise SchemaError(what, fix="convert it to numbers", names=[column.name])
    return as_numbers(column.name, values, column.number_format)


def _write_levels(column: Column, values: pa.ChunkedArray, out: Any) -> None:
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    values, tables = as_dictionary(values), []
    for dictionary in dictionaries(values):
        if column.hash_of is not None:
            tables.append((dictionary, remap_hashed(dictionary, column)))
        else:
            tables.append((dictionary, remap(dictionary, column, is_number(kind))))
    write_codes(values, tables, out)


def _write_booleans(name: str, values: pa.ChunkedArray, out: Any) -> None:
    if pa.types.is_boolean(values.type):
        flags = values.cast(pa.int8())
        out[:] = to_numpy(pc.fill_null(pc.add(flags, scalar(FIRST_LEVEL, pa.int8())), scalar(NULL, pa.int8())))
        return
    coded = as_dictionary(values)
    bad = [v for v in used_texts(coded) if v.strip() and normal_text(v).lower() not in BOOLEAN_WORDS]
    if bad:
        raise refuse(name, coded, bad, "a boolean (true/false, yes/no, 1/0)")
    tables = []
    for dictionary in dictionaries(coded):
        flags = [BOOLEAN_WORDS.get(normal_text(v or "").lower()) for v in dictionary.to_pylist()]
        codes = [NULL if flag is None else FIRST_LEVEL + flag for flag in flags]
        tables.append((dictionary, np.array(codes, "int8")))
    write_codes(coded, tables, out)
