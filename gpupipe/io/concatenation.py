"""Common schema of several files: columns are matched by name, types are widened if that is lossless."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from gpupipe.errors import SchemaError
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.missing_values import TEXT
from gpupipe.io.notes import Notes
from gpupipe.names import enumerate_names
from gpupipe.table.exact_values import wider_number
from gpupipe.table.list_columns import KIND_OF, NULLS
from gpupipe.table.time_columns import MICROS

SHOWN = 3


class FileColumn(NamedTuple):
    """A column of one file: its type, and whether all values are null."""

    kind: pa.DataType
    is_empty: bool

    @property
    def needed(self) -> pa.DataType:
        """The type that the values need; the null type, which widens to any other, if all are null."""
        return pa.null() if self.is_empty else self.kind


FileColumns = Mapping[str, FileColumn]


def common_schema(found: Sequence[FileColumns], files: Sequence[SourceFile], notes: Notes) -> pa.Schema:
    """Return the schema for the rows of all files.

    Columns are in the order of first appearance. A column that a file lacks is null for its rows, with a note.

    Raise SchemaError if the types of a column in two files have no common type; the message names the files.
    """
    names = list(dict.fromkeys(chain.from_iterable(found)))
    return pa.schema([(name, _common_type(name, [each.get(name) for each in found], files, notes)) for name in names])


def clashes(found: Sequence[FileColumns]) -> list[str]:
    """Return the columns that are text in some files and another type in others."""
    kinds: dict[str, set[pa.DataType]] = {}
    for columns in found:
        for name, column in columns.items():
            kinds.setdefault(name, set()).add(column.needed)
    return [name for name, needed in kinds.items() if TEXT in needed and needed - {TEXT, pa.null()}]


def mixed_note(names: Sequence[str]) -> str:
    """Return the note about the columns that `clashes` returns."""
    return f"numbers in some files and text in others, read as text: {enumerate_names(names)}"


def cast_to(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column of a file cast to its type in `common_schema`."""
    if column.type == kind:
        return column
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), kind)], kind)
    return column.cast(kind, safe=False)  # large integers are rounded if another file has floats


def _common_type(
    name: str, columns: Sequence[FileColumn | None], files: Sequence[SourceFile], notes: Notes
) -> pa.DataType:
    """Return the common type of a column; `columns` has None for files that lack it."""
    first: dict[pa.DataType, SourceFile] = {}
    lacking, stated = [], pa.null()
    for column, file in zip(columns, files, strict=True):
        if column is None:
            lacking.append(mask(file.path))
            continue
        first.setdefault(column.needed, file)
        stated = column.kind if pa.types.is_null(stated) else stated
    if lacking:
        more = f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
        notes.warn(f"column {name!r} is missing from {', '.join(lacking[:SHOWN])}{more}; read as null", name)
    kinds = [kind for kind in first if not pa.types.is_null(kind)]
    if not kinds:
        return stated
    widest = kinds[0]
    for kind in kinds[1:]:
        wider = _wider(widest, kind)
        if wider is None:
            raise SchemaError(
                f"column {name!r} has {_describe(kinds[0])} in one file and {_describe(kind)} in another",
                where=f"{mask(first[kinds[0]].path)} and {mask(first[kind].path)}",
                fix="write the column with the same type in all files, or drop the column",
                names=[name],
            )
        widest = wider
    return widest


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the type that represents the values of both types; None if there is none."""
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b):
        return a if a == b else MICROS  # of two time zones neither is that of the column
    if NULLS in (a, b) and a in KIND_OF and b in KIND_OF:
        return b if a == NULLS else a
    return a if a == b else wider_number(a, b)


def _describe(kind: pa.DataType) -> str:
    return "text" if kind == TEXT else "times" if pa.types.is_timestamp(kind) else f"{kind} values"
