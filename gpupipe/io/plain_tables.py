"""Conversion of the tables of format readers to plain tables; unusable columns are dropped with a note."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import DataError, SchemaError
from gpupipe.io.arrow_types import UnusableColumn, is_nested, plain_column, stated_categories
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.files import SourceFile, convert_read_errors
from gpupipe.io.hive_partitions import require_agreement
from gpupipe.io.missing_values import TEXT, clean_texts
from gpupipe.io.notes import UNBOUNDED, Notes
from gpupipe.names import duplicates, enumerate_names
from gpupipe.table.list_columns import READ_LISTS, is_list, plain_lists
from gpupipe.table.numeric_columns import has_unbounded
from gpupipe.user_warnings import UNREAD_LISTS

TEXT_FORMATS = ("csv", "jsonl")
LISTS = "lists"
BEYOND_INT64 = 2.0**63


def usable_names(schema: pa.Schema, file: SourceFile, wanted: ColumnFilter, notes: Notes) -> list[str]:
    """Return the wanted columns of a file that are not nested.

    Raise DataError if two columns have the same name, or all columns are nested; SchemaError if a nested column is
    requested by name, or the file has none of the requested columns.
    """
    names = schema.names
    require_distinct_names(names, file)
    for name, content in ({} if file.copy is None else file.copy.unusable).items():
        if wanted.pick([name]):
            drop_column(name, content, file, wanted, notes)
    if not names:
        raise DataError("the file has no columns", where=file.label, fix="check that this is the right file")
    picked = pick_names(names, file, wanted, notes)
    usable = []
    for name in picked:
        kind = schema.field(name).type
        is_read = name in wanted.lists and is_list(kind)
        if is_read or not (is_nested(kind) and is_dropped(name, describe_nested(kind), file, wanted, notes)):
            usable.append(name)
    return _require_some(usable, file)


def pick_names(names: Sequence[str], file: SourceFile, wanted: ColumnFilter, notes: Notes) -> list[str]:
    """Return the wanted ones of the columns of a file, with a note for each ignored one; see `ColumnFilter.pick`.

    Raise SchemaError if the file has none of them, or one of them has a blank name.
    """
    picked = wanted.pick(names)
    for name in filter(wanted.is_ignored, names):
        fix = "declare its kind in schema or rename it" if name.strip() else "rename it"
        notes.warn(f"column {name!r} is ignored: it has no name, like a row index; to use it, {fix}", name)
    if blank := [name for name in picked if not name.strip() and not wanted.everything]:
        what = f"column {blank[0]!r} has no name, so it cannot be used"
        raise SchemaError(what, where=file.label, fix="rename it in the table, or remove it from the configuration")
    if not picked:
        raise SchemaError(
            "the file has none of the requested columns",
            where=file.label,
            fix=f"its columns are {enumerate_names(names, quoted=True)}",
        )
    return picked


def require_distinct_names(names: Sequence[str], file: SourceFile) -> None:
    """Raise DataError if two columns of a file have the same name."""
    if twice := duplicates(names):
        raise DataError(
            f"duplicate column names: {enumerate_names(twice, quoted=True)}",
            where=file.label,
            fix="rename the columns in the program that writes the file",
        )


def describe_nested(kind: pa.DataType) -> str:
    """Return the description of the values of a nested type; ops can read those of lists."""
    return LISTS if is_list(kind) else f"{str(kind).split('<')[0]} values"


def is_dropped(name: str, content: str, file: SourceFile, wanted: ColumnFilter, notes: Notes) -> bool:
    """Return True, and add a note, if an unusable column is to be dropped; False if a prepare hook may use it.

    Raise SchemaError if the column is requested by name.
    """
    if wanted.everything:
        return False
    drop_column(name, content, file, wanted, notes)
    return True


def drop_column(name: str, content: str, file: SourceFile, wanted: ColumnFilter, notes: Notes) -> None:
    """Add the note that an unusable column is dropped; raise SchemaError if it is requested by name."""
    is_list_column, advice = content == LISTS, READ_LISTS.format(name=name)
    if wanted.is_named(name):
        raise SchemaError(
            f"column {name!r} has {content}, which are not supported",
            where=file.label,
            fix=advice
            if is_list_column
            else "convert it to plain columns in a prepare hook, or remove it from columns, target and where",
            names=[name],
        )
    why = f"no op reads its lists; to use it, {advice}" if is_list_column else f"{content} are not supported"
    notes.warn(f"column {name!r} is dropped: {why}", name, UNREAD_LISTS if is_list_column else "dropped")


def plain_table(table: pa.Table, file: SourceFile, wanted: ColumnFilter, notes: Notes) -> pa.Table:
    """Return a table of plain columns: see `gpupipe.io.arrow_types`.

    Raise DataError if no column is usable; SchemaError if a column requested by name is unusable, or a column
    contradicts the hive partition of the file.
    """
    columns, categories = {}, stated_categories(table.schema)
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            with convert_read_errors(file.path):
                if name in categories and not pa.types.is_dictionary(column.type):
                    column = column.dictionary_encode()
                if name in wanted.lists and is_list(column.type):
                    columns[name] = plain_lists(name, column)
                    continue
                plain, change = plain_column(column, wanted.is_named(name))
                if plain.type == TEXT and file.format != "csv":  # the CSV parser has checked text and codes
                    _check_codes(plain)
        except UnusableColumn as error:
            content = LISTS if is_list(column.type) else str(error)
            if not is_dropped(name, content, file, wanted, notes):
                columns[name] = column
            continue
        unbounded = UNBOUNDED if name in wanted.always and has_unbounded(plain) else ""
        for finding in (change, unbounded, _finding(plain) if file.format in TEXT_FORMATS else ""):
            if finding:
                notes.warn(f"column {name!r} has {finding}", name)
        columns[name] = plain
    _require_some(list(columns), file)
    plain = pa.table(columns)
    require_agreement(plain, file)
    return plain


def clean_table(table: pa.Table, file: SourceFile, wanted: ColumnFilter, notes: Notes, strip: bool) -> pa.Table:
    """Return a plain table in which strings that mean missing are null: see `gpupipe.io.missing_values`.

    CSV columns are already cleaned, by ``csv.null_values`` of the source. Strings of other files are stripped too if
    `strip` is true.

    Raise DataError or SchemaError as `plain_table`.
    """
    table = plain_table(table, file, wanted, notes)
    if file.format == "csv" or TEXT not in table.schema.types:
        return table
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, column in columns.items():
        if column.type == TEXT:
            columns[name], missing = clean_texts(column, strip=strip)
            notes.add_missing(name, missing)
    return pa.table(columns)


def _finding(column: pa.ChunkedArray) -> str:
    """Return a finding about the values of a column of a text format, often empty."""
    if pa.types.is_floating(column.type):
        bounds = pc.min_max(column).as_py()
        if bounds["min"] is not None and max(-bounds["min"], bounds["max"]) >= BEYOND_INT64:
            return "numbers outside the int64 range or infinite: float64 has 16 digits and a maximum of 1.8e308"
    elif column.type == TEXT and any(
        pc.any(pc.match_substring(chunk.dictionary, "\0")).as_py() for chunk in column.chunks
    ):
        return "NUL characters in its text"
    return ""


def _check_codes(column: pa.ChunkedArray) -> None:
    """Raise ValueError if a code is outside the levels or a level is not valid text, as in a corrupt file.

    Levels are validated in full. For codes, checking the bounds is enough and costs a tenth.
    """
    for chunk in column.chunks:
        chunk.dictionary.validate(full=True)
        bounds = pc.min_max(chunk.indices).as_py()
        if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(chunk.dictionary):
            code = bounds["min"] if bounds["min"] < 0 else bounds["max"]
            raise ValueError(f"expected dictionary codes in [0, {len(chunk.dictionary):,}), found {code:,}")


def _require_some(names: list[str], file: SourceFile) -> list[str]:
    if not names:
        raise DataError(
            "the file has no usable column: all columns are nested or long binary values",
            where=file.label,
            fix="convert the columns to plain types, or remove the file from the source",
        )
    return names
