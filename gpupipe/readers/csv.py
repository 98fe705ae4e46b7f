"""CSV files, also compressed: strings come as dictionary codes straight from Arrow's parser.

The type of a column is one that every value of the file has (integer, boolean, date, time, number, text, in this
order). Empty lines are skipped.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from gpupipe.errors import DataError, SchemaError
from gpupipe.readers.columns import is_bytes
from gpupipe.readers.csv_header import Header, read_header, wrong_encoding
from gpupipe.readers.csv_texts import cleaned, narrowest, with_numbers
from gpupipe.readers.files import SourceFile, mask
from gpupipe.readers.formats import compression_of
from gpupipe.readers.notes import Notes
from gpupipe.readers.settings import CsvSettings, TableSource
from gpupipe.readers.streams import Span, opened
from gpupipe.readers.strings import NULL_VALUES, TEXT
from gpupipe.readers.wanted import Wanted

BLOCK_BYTES = 4 << 20
MAX_BLOCK_BYTES = 1 << 30
TEXT_KINDS = ("categorical", "text")


def read(
    file: SourceFile, wanted: Wanted, source: TableSource, notes: Notes, as_text: Sequence[str] = ()
) -> pa.Table | None:
    """Return the wanted columns of a CSV file, or None if it has no rows.

    Parameters
    ----------
    file : SourceFile
    wanted : Wanted
    source : TableSource
        Its ``csv`` settings and its ``schema``: a column declared categorical or text is read as text.
    notes : Notes
    as_text : sequence of str
        Further columns to read as text, because they are text in another file.

    Raises
    ------
    DataError
        If the file is corrupt, in another encoding, or has rows with another number of fields.
    """
    header = header_of(file, source, notes)
    if header is None:
        return None
    table = read_rows(file, header, wanted, source, notes, as_text=as_text)
    if not table.num_rows:
        return None
    keep_text = {*declared_texts(source), *as_text}
    kinds = {}
    for name in table.column_names:
        if table.field(name).type == TEXT:
            table, numbers = cleaned(table, name, source.csv)
            if name not in keep_text and (kind := narrowest(numbers)):
                kinds[name] = kind
    return with_numbers(table, kinds)


def header_of(file: SourceFile, source: TableSource, notes: Notes) -> Header | None:
    """Return the header of a file, or None if no row follows; see `gpupipe.readers.csv_header.read_header`."""
    with opened(file, unpack=True) as stream:
        return read_header(stream, file, source.csv, notes)


def declared_texts(source: TableSource) -> set[str]:
    """Return the columns that are text whatever they hold, because they are declared to be."""
    return {name for name, column in source.declarations().items() if column.kind in TEXT_KINDS}


def read_rows(
    file: SourceFile,
    header: Header,
    wanted: Wanted,
    source: TableSource,
    notes: Notes,
    span: Span | None = None,
    as_text: Sequence[str] = (),
    kinds: Mapping[str, pa.DataType] | None = None,
) -> pa.Table:
    """Return rows as Arrow's parser types them, text before it is `cleaned`.

    Parameters
    ----------
    file, wanted, source, notes, as_text
        As for `read`.
    header : Header
    span : (int, int), optional
        Parse these bytes of the file alone, which hold whole rows; else all rows behind the header.
    kinds : mapping of str to DataType, optional
        Read these columns alone, and as these types.

    Raises
    ------
    DataError
        As `read`; also if a value is not of the type that is asked for.
    """
    settings = source.csv
    names = wanted.pick(header.names)
    if not names:
        raise SchemaError("none of the columns asked for is in the file", where=mask(file.path))
    texts = declared_texts(source).union(as_text)
    convert = arrow_csv.ConvertOptions(
        include_columns=names if kinds is None else list(kinds),
        column_types={name: TEXT for name in names if name in texts} if kinds is None else dict(kinds),
        null_values=[*NULL_VALUES, *settings.null_values],
        strings_can_be_null=True,
        auto_dict_encode=True,
        auto_dict_max_cardinality=2**31 - 1,
        decimal_point=settings.decimal,
    )
    table = _parse(file, header, settings, convert, notes, span)
    for column in table.columns:
        if pa.types.is_dictionary(column.type) and is_bytes(column.type.value_type):
            raise wrong_encoding(file, settings.encoding)
    return table


def _parse(
    file: SourceFile,
    header: Header,
    settings: CsvSettings,
    convert: arrow_csv.ConvertOptions,
    notes: Notes,
    span: Span | None,
) -> pa.Table:
    """Parse the file with ever larger blocks until every row fits into one."""
    block = BLOCK_BYTES
    while True:
        try:
            return _parse_blocks(file, header, settings, convert, notes, block, span)
        except DataError as error:
            if "straddling" not in error.what or block >= MAX_BLOCK_BYTES:
                raise
            block *= 16


def _parse_blocks(
    file: SourceFile,
    header: Header,
    settings: CsvSettings,
    convert: arrow_csv.ConvertOptions,
    notes: Notes,
    block: int,
    span: Span | None,
) -> pa.Table:
    skipped: list[int] = []

    def on_bad_row(row: Any) -> str:
        skipped.append(row.actual_columns)
        return "skip" if settings.bad_rows == "skip" else "error"

    parse = arrow_csv.ParseOptions(
        delimiter=header.delimiter,
        quote_char=settings.quote or False,
        newlines_in_values=_may_have_quoted_newlines(file, settings, span),
        invalid_row_handler=on_bad_row,
    )
    layout = arrow_csv.ReadOptions(
        column_names=header.names,
        skip_rows=0 if span else header.n_lines,
        encoding=settings.encoding,
        block_size=block,
    )
    try:
        with opened(file, unpack=True, span=span) as stream:
            table = arrow_csv.read_csv(stream, layout, parse, convert)
    except DataError as error:
        if skipped and settings.bad_rows == "error":
            raise _ragged(file, header, layout, parse) from None
        if "invalid UTF8" in error.what or "codec" in error.what or "UTF-16" in error.what:
            raise wrong_encoding(file, settings.encoding) from None
        raise
    if skipped:
        notes.skipped_rows(file.path, len(skipped))
    return table


def _may_have_quoted_newlines(file: SourceFile, settings: CsvSettings, span: Span | None) -> bool:
    """Rows are found faster where no newline can be in quotes: where there is no quotation mark at all."""
    if settings.quote is None:
        return False
    if file.remote is not None or compression_of(file.path):
        return True
    with open(file.path, "rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(settings.quote.encode(settings.encoding)[-1:], *(span or ())) >= 0


def _ragged(
    file: SourceFile, header: Header, layout: arrow_csv.ReadOptions, parse: arrow_csv.ParseOptions
) -> DataError:
    """Find the first bad row by reading again on one thread: row numbers are known there only."""
    bad: list[Any] = []

    def on_bad_row(row: Any) -> str:
        bad.append(row)
        return "error"

    parse.invalid_row_handler = on_bad_row
    layout.use_threads = False
    try:
        with opened(file, unpack=True) as stream:
            arrow_csv.read_csv(stream, layout, parse, arrow_csv.ConvertOptions(include_columns=header.names[:1]))
    except DataError:
        pass
    row = bad[0]
    excerpt = row.text if len(row.text) <= 80 else row.text[:80] + "..."
    return DataError(
        f"row {row.number} has {row.actual_columns} fields, the file has {row.expected_columns} columns: {excerpt!r}",
        where=mask(file.path),
        fix="correct the row, or leave such rows out: csv: {bad_rows: skip}; a wrong csv.delimiter shows like this too",
    )
