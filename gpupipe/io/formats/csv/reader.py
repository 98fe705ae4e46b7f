"""CSV files, also compressed: strings come as dictionary codes straight from Arrow's parser.

The type of a column is one that every value of the file has (integer, boolean, date, time, number, text, in this
order). Empty lines are skipped.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.csv as arrow_csv

from gpupipe.errors import DataError, FieldCountError, RowSizeError, SchemaError
from gpupipe.io.arrow_types import is_bytes
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.file_streams import ByteRange, open_file
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.csv.dialect import read_dialect
from gpupipe.io.formats.csv.encoding import collect_undecodable_rows, encoding_error, is_undecodable
from gpupipe.io.formats.csv.header import CsvHeader, read_header, unclosed_quote_error
from gpupipe.io.formats.csv.open_quotes import StreamWithLastLine
from gpupipe.io.formats.csv.whitespace import TabbedStream
from gpupipe.io.formats.registry import compression_of
from gpupipe.io.missing_values import NULL_VALUES, TEXT
from gpupipe.io.notes import Notes
from gpupipe.io.settings import WHITESPACE, CsvSettings, TableSource
from gpupipe.table.schema import TEXT_KINDS
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
    """Return the wanted columns of a CSV file as Arrow's parser types them, or None if it has no rows.

    Texts are as written: see `gpupipe.io.formats.csv.text_columns.clean_text_columns`.

    Parameters
    ----------
    file : SourceFile
    wanted : ColumnFilter
    source : TableSource
        Its ``csv`` settings and its ``schema``: a column declared categorical or text is read as text.
    notes : Notes
    span : (int, int), optional
        Parse these bytes of the file alone, which hold whole rows; else all rows after the header.
    kinds : mapping of str to DataType, optional
        Read these columns alone, and as these types.
    as_text : sequence of str
        Further columns to read as text.
    lines_are_rows : bool
        Whether it is known that neither a line nor the file ends in quotes.

    Raises
    ------
    DataError
        If the file is corrupt, in another encoding, or has rows with another number of fields; also if a value is not
        of the type in `kinds`.
    """
    header, settings = header_of(file, source, notes), source.csv
    if header is None:
        return None
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
    table = _with_growing_blocks(
        lambda block: _parse(file, header, settings, convert, notes, block, span, lines_are_rows)
    )
    for column in table.columns:
        if pa.types.is_dictionary(column.type) and is_bytes(column.type.value_type):
            raise encoding_error(file, settings.encoding)
    return table if table.num_rows else None


def header_of(file: SourceFile, source: TableSource, notes: Notes) -> CsvHeader | None:
    """Return the header of a file, or None if no row follows; see `gpupipe.io.formats.csv.header.read_header`."""
    with open_file(file, unpack=True) as stream:
        return read_header(stream, file, source.csv, notes)


def header_names(file: SourceFile, settings: CsvSettings) -> list[str]:
    """Return the names of the columns of a file that may have no rows; none where it is empty."""
    with open_file(file, unpack=True) as stream:
        rows = read_dialect(stream, file, settings).rows
    return list(settings.names or ([name.strip() for name in rows[0][1]] if rows else ()))


def declared_texts(source: TableSource) -> set[str]:
    """Return the columns that are text whatever they hold, because they are declared to be."""
    return {name for name, column in source.declarations().items() if column.kind in TEXT_KINDS}


def read_texts(file: SourceFile, names: Sequence[str], source: TableSource) -> pa.Table | None:
    """Return columns of a file as text exactly as written, an empty field as null; None if the file has no rows.

    Where the file has none of the columns, its first one says how many rows there are.

    Raises
    ------
    DataError
        As `read`.
    """
    header = header_of(file, source, Notes())
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
    """Return the rows of a file that have another number of fields than its header; they are parsed on one thread."""
    header = header_of(file, source, Notes())
    if header is None:
        return []
    return _with_growing_blocks(lambda block: _malformed(file, header, source.csv, block))


def _malformed(
    file: SourceFile, header: CsvHeader, settings: CsvSettings, block: int, only_first: bool = False
) -> list[MalformedRow]:
    """Parse on one thread, the only way to know the numbers of rows; return the malformed ones, or the first."""
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
        delimiter=header.parser_delimiter, quote_char=settings.quote or False,
        newlines_in_values=settings.quote is not None, invalid_row_handler=on_bad_row,
    )  # fmt: skip
    convert = arrow_csv.ConvertOptions(include_columns=header.names[:1], column_types={header.names[0]: pa.string()})
    layout = arrow_csv.ReadOptions(
        use_threads=False, column_names=header.names, skip_rows=header.n_lines, block_size=block,
        encoding=_parsed_encoding(header, settings),
    )  # fmt: skip
    with suppress(DataError) if only_first else nullcontext(), open_file(file, unpack=True) as stream:
        arrow_csv.read_csv(_parsed(stream, header, settings), layout, parse, convert)
    return found


def _with_growing_blocks(parse: Callable[[int], Parsed]) -> Parsed:
    """Return what `parse` makes of a block size, the first in which every row fits into one block."""
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
    """A row of a CSV file with another number of fields than the header.

    Attributes
    ----------
    row : int
        Its place among the data rows of the file, from 0; blank lines are not counted.
    text : str
        As written.
    n_fields, n_columns : int
        Fields found, and expected.
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
            stream = _parsed(stream, header, settings)
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
        raise unclosed_quote_error(file, (header.n_lines > 0) + table.num_rows + len(bad.widths))
    if bad.widths:
        notes.add_skipped(file.path, len(bad.widths))
    return table


class _BadRows:
    """What is done with rows of another number of fields than the header.

    Attributes
    ----------
    widths : list of int
        The number of fields of each that is not blank.
    last_line : str, optional
        What stands behind the file: see `gpupipe.io.formats.csv.open_quotes`.
    has_ended : bool
        Whether that was found.
    """

    def __init__(self, may_skip: bool) -> None:
        self.may_skip, self.widths = may_skip, list[int]()
        self.last_line: str | None = None
        self.has_ended = False

    def see(self, row: Any) -> str:
        """Return what Arrow is to do with a row."""
        if row.text == self.last_line:
            self.has_ended = True
            return "skip"
        if not row.text.strip():
            return "skip"
        self.widths.append(row.actual_columns)
        return "skip" if self.may_skip else "error"


def _parsed(stream: Any, header: CsvHeader, settings: CsvSettings) -> Any:
    """Return the stream that Arrow parses: the file's own, unless its fields are separated by runs of blanks."""
    if header.delimiter != WHITESPACE:
        return stream
    return TabbedStream(_as_utf8(stream, settings.encoding), settings.quote).opened()


def _parsed_encoding(header: CsvHeader, settings: CsvSettings) -> str:
    return "utf8" if header.delimiter == WHITESPACE else settings.encoding


def _as_utf8(stream: Any, encoding: str) -> Any:
    return stream if codecs.lookup(encoding).name == "utf-8" else pa.transcoding_input_stream(stream, encoding, "utf-8")


def _with_last_line(stream: Any, header: CsvHeader, settings: CsvSettings, bad: _BadRows) -> Any:
    stream = _as_utf8(stream, _parsed_encoding(header, settings))
    marked = StreamWithLastLine(stream, header.parser_delimiter, len(header.names))
    bad.last_line = marked.line
    return marked.opened()


def _may_have_quoted_newlines(file: SourceFile, settings: CsvSettings, span: ByteRange | None) -> bool:
    """Rows are found faster where no newline can be in quotes: where there is no quotation mark at all."""
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
    """Return the error that names the first malformed row."""
    with collect_undecodable_rows():
        bad = next(iter(_malformed(file, header, settings, block, only_first=True)), None)
    if bad is None:
        return encoding_error(file, settings.encoding)
    number = bad.row + 1 + header.n_lines
    text = repr(bad.text.replace("\t", " ") if header.delimiter == WHITESPACE else bad.text)
    more = "a quotation mark that is never closed" if "\n" in bad.text else "a wrong csv.delimiter"
    return FieldCountError(
        f"row {number:,} has {bad.n_fields:,} fields, the file has {bad.n_columns:,} columns: "
        + (text if len(text) <= 100 else text[:100] + "..."),
        number, bad.n_fields, bad.n_columns,
        where=f"{mask(file.path)} (rows are counted with the header, and without blank lines)",
        fix=f"correct the row, or leave such rows out: csv: {{bad_rows: skip}}; {more} shows like this too",
    )  # fmt: skip
