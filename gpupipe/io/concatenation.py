"""Concatenation of the tables of several files: columns by name, types widened where that is lossless."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa

from gpupipe.errors import SchemaError
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.missing_values import TEXT
from gpupipe.io.notes import Notes
from gpupipe.names import enumerate_names
from gpupipe.table.time_columns import MICROS

SHOWN = 3


def combine(tables: Sequence[pa.Table], files: Sequence[SourceFile], notes: Notes) -> pa.Table:
    """Return one table with the rows of all, in order; no data is copied but that of columns which are widened.

    Columns come in the order in which they first appear. One that a file lacks is null there, with a note.

    Raises
    ------
    SchemaError
        If a column has types in two files that nothing holds both of; the message names the files.
    """
    columns = [dict(zip(table.column_names, table.columns, strict=True)) for table in tables]
    names = list(dict.fromkeys(name for found in columns for name in found))
    return pa.table(
        [_column(name, [found.get(name) for found in columns], tables, files, notes) for name in names], names=names
    )


def clashes(tables: Sequence[pa.Table]) -> list[str]:
    """Return the columns that are text in some tables and something else in others."""
    kinds: dict[str, set[pa.DataType]] = {}
    for table in tables:
        for name, column in zip(table.column_names, table.columns, strict=True):
            kinds.setdefault(name, set()).add(_type_of(column))
    return [name for name, found in kinds.items() if TEXT in found and found - {TEXT, pa.null()}]


def mixed_note(names: Sequence[str]) -> str:
    """Return what there is to say of columns that `clashes`."""
    return f"some files have numbers and others text, read as text: {enumerate_names(names)}"


def _column(
    name: str,
    columns: Sequence[pa.ChunkedArray | None],
    tables: Sequence[pa.Table],
    files: Sequence[SourceFile],
    notes: Notes,
) -> pa.ChunkedArray:
    """Return the rows of all tables of one column, which is None in `columns` where a table lacks it."""
    found = [(column, file) for column, file in zip(columns, files, strict=True) if column is not None]
    lacking = [mask(file.path) for column, file in zip(columns, files, strict=True) if column is None]
    if lacking:
        more = f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
        notes.say(f"column {name!r} is null for the rows of {', '.join(lacking[:SHOWN])}{more}: they lack it", name)
    kind = _common_type(name, found)
    chunks: list[pa.Array] = []
    for column, table in zip(columns, tables, strict=True):
        chunks += [pa.nulls(table.num_rows, kind)] if column is None else cast_to(column, kind).chunks
    return pa.chunked_array(chunks, kind)


def _type_of(column: pa.ChunkedArray) -> pa.DataType:
    """Return the type of a column, null where it has nothing but nulls: such a one goes with any other."""
    return pa.null() if column.null_count == len(column) else column.type


def _common_type(name: str, found: Sequence[tuple[pa.ChunkedArray, SourceFile]]) -> pa.DataType:
    first: dict[pa.DataType, SourceFile] = {}
    for column, file in found:
        first.setdefault(_type_of(column), file)
    kinds = [kind for kind in first if not pa.types.is_null(kind)]
    if not kinds:  # nulls in every file: keep the type that the files state, if one does
        return next((c.type for c, _ in found if not pa.types.is_null(c.type)), pa.null())
    try:
        return reduce(_wider, kinds)
    except TypeError:
        other = next(kind for kind in kinds[1:] if not _fit(kinds[0], kind))
        raise SchemaError(
            f"column {name!r} holds {_said(kinds[0])} in one file and {_said(other)} in another",
            where=f"{mask(first[kinds[0]].path)} and {mask(first[other].path)}",
            fix="write it in one type, or leave the column out with drop",
            names=[name],
        ) from None


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of both; raise TypeError if there is none."""
    if a == b:
        return a
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return pa.int64()
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (a, b)):
        return pa.float64()
    raise TypeError


def _fit(a: pa.DataType, b: pa.DataType) -> bool:
    try:
        _wider(a, b)
    except TypeError:
        return False
    return True


def cast_to(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column as the type that `combine` has found for it."""
    if column.type == kind:
        return column
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), kind)], kind)
    return column.cast(kind, safe=False)  # a large integer beside floats is rounded, as everywhere


def _said(kind: pa.DataType) -> str:
    return "text" if kind == TEXT else "times" if kind == MICROS else f"{kind} values"
