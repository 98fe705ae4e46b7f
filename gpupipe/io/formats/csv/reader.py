"""Reader of CSV files, also compressed; Arrow's parser returns strings as dictionary codes.

The type of a column is the first that fits every value of the file: integer, boolean, date, time, timestamp, float,
text. Empty lines are skipped.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.csv as arrow_csv

from gpupipe.errors import DataError, FieldCountError, RowSizeError
from gpupipe.io.arrow_types import is_bytes
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.csv_settings import WHITESPACE, CsvSettings
from gpupipe.io.file_formats import compression_of
from gpupipe.io.file_streams import AdaptedStream, ByteRange, open_file
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.csv.dialect import read_dialect
from gpupipe.io.formats.csv.encoding import collect_undecodable_rows, encoding_error, is_undecodable
from gpupipe.io.formats.csv.header import CsvHeader, name_columns, read_header, unclosed_quote_error
from gpupipe.io.formats.csv.rewritten_rows import RewrittenRows
from gpupipe.io.formats.csv.whitespace import collapse_blanks
from gpupipe.io.formats.large_integers import with_large_integers
from gpupipe.io.missing_values import TEXT
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import pick_names
from gpupipe.io.settings import TableSource, declared_texts, names_of_ticks
from gpupipe.table.schema import NULL_VALUES
from gpupipe.units import GIB, MIB

BLOCK_BYTES = 4 * MIB
MAX_BLOCK_BYTES = GIB

Parsed = TypeVar("Parsed")


def read(
    file: SourceFile,
    wanted: ColumnFilter,
    source: TableSource,
    notes: Notes,
    span: ByteRange | None = None,
    kinds: Mapping[str, pa.DataType] | None = None,
    as_text: Sequence[str] = (),
    lines_are_rows: bool = False,
) -> pa.Table | None:
    """Return the selected columns of a CSV file with the types of Arrow's parser, or None if it has no rows.

    Text is not cleaned: see `gpupipe.io.formats.csv.text_columns.clean_text_columns`.

    - `source`: provides ``csv`` settings and ``schema``: columns of `declared_texts` are read as text. So are keys,
      which `gpupipe.io.formats.csv.text_columns` then converts.
    - `span`: byte range to parse, which must contain whole rows; default: all rows after the header
    - `kinds`: read only these columns, with these types
    - `as_text`: further columns to read as text
    - `lines_are_rows`: True if no line, and not the file, is known to end inside quotes

    Raise DataError if the file is corrupt, has the wrong encoding or rows with a wrong number of fields, or a value
    does not have the type in `kinds`.
    """
    header, settings = header_of(file, source, notes, wanted.is_mentioned), source.csv
    if header is None:
        return None
    names = pick_names(header.names, file, wanted, notes)
    texts = declared_texts(source).union(as_text, source.keys)
    types = {name: TEXT for name in names if name in texts} if kinds is None else _parsed_kinds(kinds)
    convert = arrow_csv.ConvertOptions(
        include_columns=names if kinds is None else list(kinds),
        column_types=types,
        null_values=[*NULL_VALUES, *settings.null_values],
        strings_can_be_null=True,
        auto_dict_encode=True,
        auto_dict_max_cardinality=2**31 - 1,
        decimal_point=settings.decimal,
    )

    def parse(convert: arrow_csv.ConvertOptions, notes: Notes) -> pa.Table:
        return _with_growing_blocks(
            lambda block: _parse(file, header, settings, convert, notes, block, span, lines_are_rows)
        )

    def parse_column(name: str, kind: pa.DataType) -> pa.Table:
        single = arrow_csv.ConvertOptions(
            include_columns=[name],
            column_types=_parsed_kinds({name: kind}),
            null_values=convert.null_values,
            strings_can_be_null=True,
        )
        return _with_wide_integers(parse(single, Notes()), {name: kind}, file)

    table = parse(convert, notes)
    if times := [name for name in names_of_ticks(source) if is_time_column(table, name)]:
        convert.column_types = types | dict.fromkeys(times, TEXT)
        table = parse(convert, notes)
    table = with_large_integers(table, parse_column) if kinds is None else _with_wide_integers(table, kinds, file)
    for column in table.columns:
        if pa.types.is_dictionary(column.type) and is_bytes(column.type.value_type):
            raise encoding_error(file, settings.encoding)
    return table if table.num_rows else None


def _parsed_kinds(kinds: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Return the types to parse columns with: pyarrow 26.0 does not parse decimal256."""
    return {name: pa.string() if pa.types.is_decimal256(kind) else kind for name, kind in kinds.items()}


def _with_wide_integers(table: pa.Table, kinds: Mapping[str, pa.DataType], file: SourceFile) -> pa.Table:
    """Return a table with decimal256 columns of `kinds`, which were parsed as text."""
    for name, kind in kinds.items():
        if pa.types.is_decimal256(kind):
            try:
                column = table.column(name).cast(kind)
            except pa.ArrowInvalid as error:
                raise DataError(str(error), where=mask(file.path)) from error
            table = table.set_column(table.column_names.index(name), name, column)
    return table


def header_of(
    file: SourceFile, source: TableSource, notes: Notes, is_mentioned: Callable[[str], bool] = bool
) -> CsvHeader | None:
    """Return the header of a file, or None if no rows follow; see `gpupipe.io.formats.csv.header.read_header`."""
    with open_file(file, unpack=True) as stream:
        return read_header(stream, file, source.csv, notes, is_mentioned)


def header_names(file: SourceFile, settings: CsvSettings) -> list[str]:
    """Return the column names of a file that may have no rows; empty for an empty file."""
    with open_file(file, unpack=True) as stream:
        rows = read_dialect(stream, file, settings).rows
    return list(settings.names or (name_columns([name.strip() for name in rows[0][1]]) if rows else ()))


def is_time_column(table: pa.Table, name: str) -> bool:
    """Return whether a table has a column of this name that a parser has read as dates or times."""
    if name not in table.column_names:
        return False
    kind = table.schema.field(name).type
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind))


def read_texts(file: SourceFile, names: Sequence[str], source: TableSource) -> pa.Table | None:
    """Return columns of a file as unmodified text, with null for empty fields; None if the file has no rows.

    If the file has none of the columns, the first column is returned, for the row count.

    Raise DataError as `read`.
    """
    header = header_of(file, source, Notes(), frozenset(names).__contains__)
    if header is None:
        return None
    found = list(filter(frozenset(names).__contains__, header.names)) or header.names[:1]
    convert = arrow_csv.ConvertOptions(
        include_columns=found,
        column_types=dict.fromkeys(found, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
    )
    return _with_growing_blocks(lambda block: _parse(file, header, source.csv, convert, Notes(), block))


def find_malformed(file: SourceFile, source: TableSource) -> list[MalformedRow]:
    """Return the rows whose number of fields differs from the header's; parses the file on one thread."""
    header = header_of(file, source, Notes())
    if header is None:
        return []
    return _with_growing_blocks(lambda block: _malformed(file, header, source.csv, block))


def _malformed(
    file: SourceFile, header: CsvHeader, settings: CsvSettings, block: int, only_first: bool = False
) -> list[MalformedRow]:
    """Return the malformed rows, or only the first; parses on one thread, as only then Arrow knows row numbers."""
    found: list[MalformedRow] = []
    n_blank = 0

    def on_bad_row(row: Any) -> str:
        nonlocal n_blank
        if not row.text.strip():
            n_blank += 1
            return "skip"
        number = row.number - 1 - header.n_lines - n_blank
        found.append(MalformedRow(number, row.text, row.actual_columns, row.expected_columns))
        return "error" if only_first else "skip"

    parse = arrow_csv.ParseOptions(
        delimiter=header.parser_delimiter,
        quote_char=settings.quote or False,
        newlines_in_values=settings.quote is not None,
        invalid_row_handler=on_bad_row,
    )
    convert = arrow_csv.ConvertOptions(include_columns=header.names[:1], column_types={header.names[0]: pa.string()})
    layout = arrow_csv.ReadOptions(
        use_threads=False,
        column_names=header.names,
        skip_rows=header.n_lines,
        block_size=block,
        encoding=_parsed_encoding(header, settings),
    )
    with suppress(DataError) if only_first else nullcontext(), open_file(file, unpack=True) as stream:
        arrow_csv.read_csv(_parsed(stream, header, settings), layout, parse, convert)
    return found


def _with_growing_blocks(parse: Callable[[int], Parsed]) -> Parsed:
    """Return the result of `parse` for the smallest block size at which every row fits into one block."""
    block = BLOCK_BYTES
    while True:
        try:
            return parse(block)
        except RowSizeError:
            if block >= MAX_BLOCK_BYTES:
                raise
            block *= 16


@dataclass(frozen=True)
class MalformedRow:
    """A row of a CSV file whose number of fields differs from the header's.

    - `row`: index among the data rows of the file, from 0; blank lines are not counted
    - `text`: unmodified text of the row
    - `n_fields`, `n_columns`: number of fields found and expected
    """

    row: int
    text: str
    n_fields: int
    n_columns: int


def _parse(
    file: SourceFile,
    header: CsvHeader,
    settings: CsvSettings,
    convert: arrow_csv.ConvertOptions,
    notes: Notes,
    block: int,
    span: ByteRange | None = None,
    lines_are_rows: bool = False,
) -> pa.Table:
    bad = _BadRows(settings.bad_rows == "skip")
    quoted = not lines_are_rows and _may_have_quoted_newlines(file, settings, span)
    parse = arrow_csv.ParseOptions(
        delimiter=header.parser_delimiter,
        quote_char=settings.quote or False,
        newlines_in_values=quoted,
        invalid_row_handler=bad.see,
    )
    layout = arrow_csv.ReadOptions(
        column_names=header.names,
        skip_rows=0 if span else header.n_lines,
        encoding="utf8" if quoted else _parsed_encoding(header, settings),
        block_size=block,
    )
    try:
        with collect_undecodable_rows() as unreadable, open_file(file, unpack=True, span=span) as stream:
            stream = _parsed(stream, header, settings, span)
            if quoted:
                stream = _with_last_line(stream, header, settings, bad)
            table = arrow_csv.read_csv(stream, layout, parse, convert)
    except DataError as error:
        if unreadable:
            raise encoding_error(file, settings.encoding) from None
        if bad.widths and not bad.may_skip:
            raise _ragged(file, header, settings, block) from None
        if is_undecodable(error.__cause__):
            raise encoding_error(file, settings.encoding) from None
        raise
    if quoted and not bad.has_ended:
        raise unclosed_quote_error(file, (settings.names is None) + table.num_rows + len(bad.widths))
    if bad.widths:
        notes.add_skipped(file.path, len(bad.widths))
    return table


class _BadRows:
    """Handler of rows whose number of fields differs from the header's.

    - `widths`: number of fields of each malformed row that is not blank
    - `last_line`: line appended to the file: see `StreamWithLastLine`
    - `has_ended`: True once that line was found
    """

    def __init__(self, may_skip: bool) -> None:
        self.may_skip, self.widths = may_skip, list[int]()
        self.last_line: str | None = None
        self.has_ended = False

    def see(self, row: Any) -> str:
        """Return the action for a row, in Arrow's terms."""
        if row.text == self.last_line:
            self.has_ended = True
            return "skip"
        if not row.text.strip():
            return "skip"
        self.widths.append(row.actual_columns)
        return "skip" if self.may_skip else "error"


def _parsed(stream: Any, header: CsvHeader, settings: CsvSettings, span: ByteRange | None = None) -> Any:
    """Return the stream for Arrow to parse: rewritten if it has comments or fields separated by whitespace."""
    if not _is_rewritten(header, settings):
        return stream
    comment, n_skipped = (settings.comment, header.n_skipped) if span is None else (None, 0)  # a span has neither
    rewrite = collapse_blanks if header.delimiter == WHITESPACE else None
    stream = _as_utf8(stream, settings.encoding)
    return RewrittenRows(stream, settings.quote, header.delimiter, comment, n_skipped, rewrite).opened()


def _is_rewritten(header: CsvHeader, settings: CsvSettings) -> bool:
    return header.delimiter == WHITESPACE or settings.comment is not None


def _parsed_encoding(header: CsvHeader, settings: CsvSettings) -> str:
    return "utf8" if _is_rewritten(header, settings) else settings.encoding


def _as_utf8(stream: Any, encoding: str) -> Any:
    return stream if codecs.lookup(encoding).name == "utf-8" else pa.transcoding_input_stream(stream, encoding, "utf-8")


def _with_last_line(stream: Any, header: CsvHeader, settings: CsvSettings, bad: _BadRows) -> Any:
    stream = _as_utf8(stream, _parsed_encoding(header, settings))
    marked = StreamWithLastLine(stream, header.parser_delimiter, len(header.names))
    bad.last_line = marked.line
    return marked.opened()


def _may_have_quoted_newlines(file: SourceFile, settings: CsvSettings, span: ByteRange | None) -> bool:
    """Return False if no quote character is in the data, so that Arrow can split rows faster."""
    if settings.quote is None:
        return False
    if file.remote is not None or compression_of(file.path):
        return True
    mark = settings.quote.encode(settings.encoding)[-1:]
    with open_file(file, span=span) as stream:
        while block := stream.read(BLOCK_BYTES):
            if mark in block:
                return True
    return False


def _ragged(file: SourceFile, header: CsvHeader, settings: CsvSettings, block: int) -> DataError:
    """Return the error for the first malformed row."""
    with collect_undecodable_rows():
        bad = next(iter(_malformed(file, header, settings, block, only_first=True)), None)
    if bad is None:
        return encoding_error(file, settings.encoding)
    number = bad.row + 1 + header.n_lines
    text = repr(bad.text.replace("\t", " ") if header.delimiter == WHITESPACE else bad.text)
    cause = "a quote that is never closed" if "\n" in bad.text else "a wrong csv.delimiter"
    with open_file(file, unpack=True) as stream:
        lead = read_dialect(stream, file, settings).lead(settings)
    ignored = "".join(
        f"if the first lines do not belong to the table, set csv: {{{name}: {value}}}; or "
        for name, value in lead.items()
    )
    return FieldCountError(
        f"line {number:,}: expected {bad.n_columns:,} fields, found {bad.n_fields:,}: "
        + (text if len(text) <= 100 else text[:100] + "..."),
        number,
        bad.n_fields,
        bad.n_columns,
        where=f"{mask(file.path)} (the header and the lines before it count as lines, blank lines do not)",
        fix=f"{ignored}fix the line, or skip such rows: csv: {{bad_rows: skip}}; {cause} is another possible cause",
    )


class StreamWithLastLine(AdaptedStream):
    """A stream of UTF-8 text with one line appended, to detect a file that ends inside quotes.

    The parser reads everything after an unclosed quote as one value. If it does not report `line`, whose number of
    fields differs from that of the rows, the file ended inside quotes.
    """

    def __init__(self, stream: Any, delimiter: str, n_columns: int) -> None:
        mark = "\x1d" if delimiter == "\x1e" else "\x1e"
        self.line = mark if n_columns > 1 else mark + delimiter
        self._stream, self._rest = stream, f"\n{self.line}\n".encode()

    def read(self, n_bytes: int) -> Any:
        """Return the next bytes, without a copy."""
        found = self._stream.read_buffer(n_bytes)
        if len(found):
            return found
        found, self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return found
