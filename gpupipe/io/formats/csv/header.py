"""The first lines of a CSV file: its delimiter and the names of its columns."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gpupipe.errors import DataError, QuoteError
from gpupipe.io.files import SourceFile, convert_read_errors, mask
from gpupipe.io.formats.csv.encoding import detect_bom_encoding, encoding_error, require_no_nuls
from gpupipe.io.formats.csv.whitespace import insert_tabs, is_blank_separated, parser_delimiter
from gpupipe.io.notes import Notes
from gpupipe.io.settings import WHITESPACE, CsvSettings
from gpupipe.names import duplicates, enumerate_names
from gpupipe.units import MIB

DELIMITERS = (",", ";", "\t", "|")
HEAD_BYTES = MIB  # a header of thousands of names fits
HEAD_ROWS = 50

Rows = list[tuple[int, list[str]]]  # lines up to the row's end, fields
BLANKS_FIX = f"csv: {{delimiter: '{WHITESPACE}'}}"


@dataclass(frozen=True)
class CsvHeader:
    """The column names and the delimiter of a CSV file.

    Attributes
    ----------
    names : list of str
    delimiter : str
        As ``csv.delimiter`` has it.
    n_lines : int
        Lines that the header takes up, empty ones before it included; 0 where the file has none.
    """

    names: list[str]
    delimiter: str
    n_lines: int

    @property
    def parser_delimiter(self) -> str:
        """The character between fields in what Arrow parses."""
        return parser_delimiter(self.delimiter)


@dataclass(frozen=True)
class CsvHead:
    """The first rows of a CSV file, including its header if it has one.

    Attributes
    ----------
    delimiter : str
    rows : list of (int, list of str)
        The line on which each row ends, and its fields; empty rows are left out, and where one is a
        header those of blanks alone too.
    is_all : bool
        Whether the file has no other rows.
    text : str
        What they were read from.
    """

    delimiter: str
    rows: Rows
    is_all: bool
    text: str

    def is_blank_separated(self, settings: CsvSettings) -> bool:
        r"""Return whether ``delimiter: "\s+"`` seems to be missing: see `gpupipe.io.formats.csv.whitespace`."""
        if settings.delimiter is not None:
            return False
        lines = (line for line in io.StringIO(self.text, newline="") if line.strip())
        return is_blank_separated("".join(islice(lines, HEAD_ROWS)), settings.quote)


def read_head(stream: Any, file: SourceFile, settings: CsvSettings) -> CsvHead:
    """Return the first rows of a CSV stream.

    Raises
    ------
    DataError
        If it is in another encoding.
    """
    text, is_all = _first_text(stream, file, settings.encoding)
    delimiter = settings.delimiter or _delimiter(text, file, settings)
    rows = _rows(text, delimiter, settings.quote)
    if settings.names is None:  # a line of blanks is no header; a value it may be
        rows = [(line, row) for line, row in rows if len(row) > 1 or not row[0].isspace()]
    return CsvHead(delimiter, rows, is_all, text)


def read_header(stream: Any, file: SourceFile, settings: CsvSettings, notes: Notes) -> CsvHeader | None:
    """Return the header of a CSV stream, or None if no row follows.

    Raises
    ------
    DataError
        If it is in another encoding, names a column twice, has another number of fields than ``csv.names``, or a
        quotation mark that is never closed.
    """
    head = read_head(stream, file, settings)
    if not head.rows:
        return None
    if settings.names is not None:
        _check_width(settings, head, file)
        return CsvHeader(list(settings.names), head.delimiter, 0)
    n_lines, names = head.rows[0]
    if head.is_all and len(head.rows) == 1:
        if any("\n" in name for name in names):
            raise unclosed_quote_error(file, 1)
        return None
    if len(names) == 1 and head.is_blank_separated(settings):
        notes.say(f"{mask(file.path)} is read as one column; for fields separated by blanks: {BLANKS_FIX}")
    return CsvHeader(_checked(names, file, settings, notes), head.delimiter, n_lines)


def unclosed_quote_error(file: SourceFile, row: int) -> QuoteError:
    """Return the error for a file that ends within quotes, which were opened in a row; the header is row 1."""
    return QuoteError(
        f"a quotation mark of row {row:,} is never closed: all that follows would be one value",
        row,
        where=mask(file.path),
        fix="close it; or if marks are a part of the text, csv: {quote: null}",
    )


def _first_text(stream: Any, file: SourceFile, encoding: str) -> tuple[str, bool]:
    """Return the first lines, the last of them whole, and whether there are no others."""
    with convert_read_errors(file.path):
        raw = stream.read(HEAD_BYTES)
    if detect_bom_encoding(raw) and codecs.lookup(encoding).name.startswith("utf-8"):
        raise encoding_error(file, encoding)
    try:
        text = codecs.getincrementaldecoder(encoding)("strict").decode(raw).removeprefix("\ufeff")
    except UnicodeError:
        raise encoding_error(file, encoding) from None
    require_no_nuls(text, file, encoding)
    end = max(text.rfind("\n"), text.rfind("\r")) + 1
    is_all = len(raw) < HEAD_BYTES
    return (text if is_all or not end else text[:end]), is_all


def _rows(text: str, delimiter: str, quote: str | None) -> Rows:
    csv.field_size_limit(max(csv.field_size_limit(), HEAD_BYTES))  # of the process; what is larger is no field here
    if delimiter == WHITESPACE:
        text = insert_tabs(text.encode(), quote).decode()
    delimiter = parser_delimiter(delimiter)
    lines = io.StringIO(text, newline="")
    if quote is None:
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(lines, delimiter=delimiter, quotechar=quote)
    rows: Rows = []
    for row in reader:
        if row:
            rows.append((reader.line_num, row))
        if len(rows) == HEAD_ROWS:
            break
    return rows


def _delimiter(text: str, file: SourceFile, settings: CsvSettings) -> str:
    """Return the delimiter that gives the most rows one same number of fields, above one; then the most fields."""
    if ".tsv" in file.path.lower() or ".tab" in file.path.lower():
        return "\t"
    best, best_score = ",", (0.0, 0)
    for delimiter in DELIMITERS:
        if delimiter == settings.decimal:
            continue
        widths = Counter(len(row) for _, row in _rows(text, delimiter, settings.quote))
        (width, n_rows), *_ = widths.most_common(1) or [(0, 0)]
        score = (n_rows / max(sum(widths.values()), 1), width)
        if width > 1 and score > best_score:
            best, best_score = delimiter, score
    return best


def _check_width(settings: CsvSettings, head: CsvHead, file: SourceFile) -> None:
    """Raise DataError if the rows have another number of fields than there are names."""
    width = Counter(len(row) for _, row in head.rows).most_common(1)[0][0]
    if width != len(settings.names or ()):
        fix = "name every column of the file, in its order (exclude some with drop), or check csv.delimiter"
        if head.is_blank_separated(settings):
            fix = f"the fields look separated by blanks: {BLANKS_FIX}"
        raise DataError(
            f"csv.names has {len(settings.names or ())} names, the rows have {width} fields",
            where=mask(file.path),
            fix=fix,
        )


def _checked(names: list[str], file: SourceFile, settings: CsvSettings, notes: Notes) -> list[str]:
    """Return the names of a header, blank ones numbered."""
    names = [name.strip() for name in names] if settings.strip else names
    if twice := duplicates(filter(str.strip, names)):
        raise DataError(
            f"the header has {enumerate_names(twice, quoted=True)} more than once",
            where=mask(file.path),
            fix="rename the columns in the file; or remove its header and state csv: {names: [...]}",
        )
    numbered, known = [], frozenset(names)
    for i, name in enumerate(names, start=1):
        if not name.strip():
            name = f"column_{i}"
            while name in known:
                name += "_"
            notes.say(f"column {i} has no name in the header: it is called {name!r}")
        numbered.append(name)
    return numbered
