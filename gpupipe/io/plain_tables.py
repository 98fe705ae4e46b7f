"""The tables that format readers return, to plain ones: what cannot be used is left out with a note, or refused."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import DataError, SchemaError
from gpupipe.io.arrow_types import UnusableColumn, is_nested, plain_column
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.files import SourceFile, convert_read_errors, mask
from gpupipe.io.hive_partitions import require_agreement
from gpupipe.io.missing_values import TEXT, clean_texts
from gpupipe.io.notes import Notes
from gpupipe.names import duplicates, enumerate_names

TEXT_FORMATS = ("csv", "jsonl")
BEYOND_INT64 = 2.0**63


def usable_names(schema: pa.Schema, file: SourceFile, wanted: ColumnFilter, notes: Notes) -> list[str]:
    """Return the wanted columns of a file that are not nested.

    Raises
    ------
    DataError
        If two columns have one name, or all columns are nested.
    SchemaError
        If a nested column is asked for by name, or none of the columns asked for is there.
    """
    names = schema.names
    require_distinct_names(names, file)
    if not names:
        raise DataError("the file has no columns", where=mask(file.path), fix="check that it is the right file")
    picked = wanted.pick(names)
    if not picked:
        raise SchemaError("none of the columns asked for is in the file", where=mask(file.path))
    usable = []
    for name in picked:
        kind = schema.field(name).type
        holds = f"{str(kind).split('<')[0]} values"
        if not (is_nested(kind) and is_dropped(name, holds, file, wanted, notes)):
            usable.append(name)
    return _require_some(usable, file)


def require_distinct_names(names: Sequence[str], file: SourceFile) -> None:
    """Raise DataError if two columns of a file have one name."""
    if twice := duplicates(names):
        raise DataError(
            f"the file has {enumerate_names(twice, quoted=True)} more than once",
            where=mask(file.path),
            fix="rename the columns where the file is written",
        )


def is_dropped(name: str, holds: str, file: SourceFile, wanted: ColumnFilter, notes: Notes) -> bool:
    """Return whether an unusable column is dropped, with a note; it stays if a prepare hook may use it.

    Raises
    ------
    SchemaError
        If it is asked for by name.
    """
    if wanted.everything:
        return False
    if wanted.is_named(name):
        raise SchemaError(
            f"column {name!r} holds {holds}, which cannot be used",
            where=mask(file.path),
            fix="make plain columns of it in a prepare hook, or take it out of columns, target and where",
            names=[name],
        )
    notes.say(f"column {name!r} is left out: it holds {holds}", name)
    return True


def plain_table(table: pa.Table, file: SourceFile, wanted: ColumnFilter, notes: Notes) -> pa.Table:
    """Return a table of plain columns: see `gpupipe.io.arrow_types`.

    Raises
    ------
    DataError
        If nothing is left.
    SchemaError
        If a column that is asked for by name cannot be used, or contradicts the folders of the file.
    """
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            with convert_read_errors(file.path):
                plain, change = plain_column(column)
                if plain.type == TEXT and file.format != "csv":  # its parser has checked the text and made the codes
                    _check_codes(plain)
        except UnusableColumn as error:
            if not is_dropped(name, str(error), file, wanted, notes):
                columns[name] = column
            continue
        for remark in (change, _remarkable(plain) if file.format in TEXT_FORMATS else ""):
            if remark:
                notes.say(f"column {name!r} has {remark}", name)
        columns[name] = plain
    _require_some(list(columns), file)
    plain = pa.table(columns)
    require_agreement(plain, file)
    return plain


def clean_table(table: pa.Table, file: SourceFile, wanted: ColumnFilter, notes: Notes) -> pa.Table:
    """Return a plain table whose texts that mean 'missing' are null: see `gpupipe.io.missing_values`.

    The texts of a CSV file are cleaned already, by the file's own list of texts that mean 'missing'.

    Raises
    ------
    DataError, SchemaError
        As `plain_table`.
    """
    table = plain_table(table, file, wanted, notes)
    if file.format == "csv" or TEXT not in table.schema.types:
        return table
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, column in columns.items():
        if column.type == TEXT:
            columns[name], missing = clean_texts(column)
            notes.add_missing(name, missing)
    return pa.table(columns)


def _remarkable(column: pa.ChunkedArray) -> str:
    """Return what is to be known of the values that a file of text had, often nothing."""
    if pa.types.is_floating(column.type):
        bounds = pc.min_max(column).as_py()
        if bounds["min"] is not None and max(-bounds["min"], bounds["max"]) >= BEYOND_INT64:
            return "numbers beyond int64 or infinite ones: a float64 keeps some 16 digits, and nothing above 1.8e308"
    elif column.type == TEXT and any(
        pc.any(pc.match_substring(chunk.dictionary, "\0")).as_py() for chunk in column.chunks
    ):
        return "NUL characters in its texts"
    return ""


def _check_codes(column: pa.ChunkedArray) -> None:
    """Raise ValueError if a code points beyond the levels, or a level is no text, as in a damaged file.

    Levels are validated in full; of the codes the bounds are enough, and cost a tenth.
    """
    for chunk in column.chunks:
        chunk.dictionary.validate(full=True)
        bounds = pc.min_max(chunk.indices).as_py()
        if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(chunk.dictionary):
            raise ValueError(f"a dictionary code lies outside the {len(chunk.dictionary):,} levels")


def _require_some(names: list[str], file: SourceFile) -> list[str]:
    if not names:
        raise DataError(
            "the file has no usable column: all of them are nested or bytes",
            where=mask(file.path),
            fix="flatten the columns before, or leave the file out",
        )
    return names
