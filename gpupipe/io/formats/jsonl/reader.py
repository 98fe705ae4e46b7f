"""Reader of JSON lines files, also compressed: one object per line; keys missing from a line are null."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.json as arrow_json

from gpupipe.errors import DataError, RowSizeError, SchemaError
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.file_streams import ByteRange, open_file
from gpupipe.io.files import SourceFile, mask, reason_of
from gpupipe.io.formats.csv.reader import is_time_column
from gpupipe.io.formats.jsonl.faults import ONE_A_LINE, find_fault
from gpupipe.io.formats.jsonl.guard import GuardedStream
from gpupipe.io.formats.large_integers import with_large_integers
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.io.settings import TableSource, declared_texts, names_of_ticks
from gpupipe.units import GIB, MIB

BLOCK_BYTES = 4 * MIB
MAX_BLOCK_BYTES = GIB
# Messages of pyarrow 26.0: it raises ArrowInvalid for all malformed files.
EMPTY = "Empty JSON file"
MIXED = re.compile(r"Column\(/?(?P<column>[^)]*)\) changed from (?P<first>\w+) to (?P<second>\w+)")
UNLIKE = re.compile(r"Failed to convert JSON to (?P<first>[\w ]+), couldn't parse:? ?(?P<second>.*)")


def read(
    file: SourceFile,
    wanted: ColumnFilter,
    source: TableSource,
    notes: Notes,
    span: ByteRange | None = None,
    kinds: Mapping[str, pa.DataType] | None = None,
) -> pa.Table | None:
    """Return the selected columns of a JSON lines file, or None if it has no rows or only empty objects.

    `span` and `kinds` are as for `read_lines`. Raise DataError if a line is not a JSON object, the text is not UTF-8,
    or all rows of a span are empty objects, which a table without columns cannot count; SchemaError if a column has
    values of several types, or a column requested by name is nested.
    """
    table = read_lines(file, span, kinds)
    if times := [name for name in declared_texts(source) | names_of_ticks(source) if is_time_column(table, name)]:
        table = read_lines(file, span, kinds, texts=times).select(table.column_names)
    if span is not None and not table.num_columns and table.num_rows:
        raise DataError("the rows are empty objects", where=mask(file.path))
    return table.select(usable_names(table.schema, file, wanted, notes)) if table.num_columns else None


def read_lines(
    file: SourceFile,
    span: ByteRange | None = None,
    kinds: Mapping[str, pa.DataType] | None = None,
    texts: Sequence[str] = (),
) -> pa.Table:
    """Return the lines with the types of Arrow's parser; a table without columns if there are no lines.

    `span` is a byte range that contains whole lines. With `kinds`, only these columns are read, with these types.
    `texts` are columns of strings that are read as such, even if all of them are ISO 8601 times; each is in some line.

    Raise DataError or SchemaError as `read`; also if a value does not have the type in `kinds`.
    """
    explicit = pa.schema(list(({**(kinds or {}), **dict.fromkeys(texts, pa.string())}).items()))
    parse = arrow_json.ParseOptions(explicit, unexpected_field_behavior="infer" if kinds is None else "ignore")
    block = BLOCK_BYTES
    while True:
        try:
            table = _parsed(file, span, parse, block)
            return table if kinds is not None else with_large_integers(table, partial(_column, file, span, block))
        except DataError as error:
            if EMPTY in str(error.__cause__):  # a message of pyarrow 26.0
                return pa.table({})
            if not isinstance(error, RowSizeError) or block >= MAX_BLOCK_BYTES:
                raise _explained(error, file) from None
            block *= 16


def _parsed(file: SourceFile, span: ByteRange | None, parse: arrow_json.ParseOptions, block: int) -> pa.Table:
    with open_file(file, unpack=True, span=span) as stream:
        guarded = GuardedStream(stream, file).opened()
        table = arrow_json.read_json(guarded, arrow_json.ReadOptions(block_size=block), parse)
        table.schema.names  # noqa: B018  (raises an error if a name is not valid text)
        return table


def _column(file: SourceFile, span: ByteRange | None, block: int, name: str, kind: pa.DataType) -> pa.Table:
    parse = arrow_json.ParseOptions(pa.schema([(name, kind)]), unexpected_field_behavior="ignore")
    return _parsed(file, span, parse, block)


def _explained(error: DataError, file: SourceFile) -> DataError:
    """Return the error with its line; if no line is at fault, the parser's error in plain words."""
    if (fault := find_fault(file)) is not None:
        return fault
    reason = reason_of(error.__cause__)
    if mixed := MIXED.search(reason):
        if not mixed["column"]:
            return DataError(
                f"expected JSON objects, found {'an' if mixed['second'] == 'array' else 'a'} {mixed['second']}",
                where=mask(file.path),
                fix=ONE_A_LINE,
            )
        return _mixed(f"column {mixed['column']!r} has both {mixed['first']} and {mixed['second']} values", file)
    if unlike := UNLIKE.search(reason):
        return _mixed(f"a column has {unlike['first']} values in some lines and {unlike['second']!r} in others", file)
    return error


def _mixed(what: str, file: SourceFile) -> SchemaError:
    return SchemaError(what, where=mask(file.path), fix="write each column with one type, for example text")
