"""CSV dialect and header detection."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from gpupipe.errors import EncodingError
from gpupipe.io.csv_settings import WHITESPACE, CsvSettings
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile, convert_read_errors
from gpupipe.io.formats.csv.encoding import (
    LONGEST_BOM,
    detect_bom_encoding,
    encoding_error,
    next_encoding,
    require_no_nuls,
)
from gpupipe.io.formats.csv.rewritten_rows import empty_comments
from gpupipe.io.formats.csv.whitespace import insert_tabs, is_blank_separated, parser_delimiter
from gpupipe.units import MIB, is_number

DELIMITERS = (",", ";", "\t", "|")
HEAD_BYTES = MIB  # enough for a header with thousands of names
HEAD_ROWS = 50
MISSING_WORDS = {
    "", "na", "n/a", "na.", "n.a.", "nan", "null", "none", "nil", "missing", "unknown", "unk", "not available",
    "undefined", "error", "invalid", "blank",
}  # fmt: skip

SEPARATOR = re.compile(r'"?sep=([^\r\n])"?[\r\n]', re.IGNORECASE)  # the first line of some files of Excel
COMMENT = re.compile(r"#(\s|$)")

Row = Sequence[str]
Rows = list[tuple[int, list[str]]]  # last line of the row, fields


@dataclass(frozen=True)
class CsvDialect:
    """Dialect of a CSV file, detected from its first rows.

    - `delimiter`: in the form of ``csv.delimiter``
    - `rows`: the last line and the fields of each row, including the header. Empty rows are dropped. Without
      ``csv.names``, rows of only whitespace are dropped too, so that none is mistaken for the header.
    - `is_all`: True if the file has no other rows
    - `text`: text of the rows, in which skipped lines and comments are empty
    - `n_skipped`: number of lines before the header that are skipped: ``csv.skip_rows``, or the line ``sep=;`` of Excel
    """

    encoding: str
    delimiter: str
    rows: Rows
    is_all: bool
    text: str
    n_skipped: int = 0

    @property
    def width(self) -> int:
        """The most common number of fields; 0 without rows."""
        widths = Counter(len(row) for _, row in self.rows)
        return widths.most_common(1)[0][0] if widths else 0

    @property
    def has_header(self) -> bool:
        """True if the first row of the most common width is a header; see `is_header`."""
        rows = [row for _, row in self.rows]
        first = next((i for i, row in enumerate(rows) if len(row) == self.width), 0)
        return not rows or is_header(rows[first:])

    def lead(self, settings: CsvSettings) -> dict[str, Any]:
        """Return the setting, ``comment`` or ``skip_rows``, that skips lines before the header; empty without any.

        The lines are those before the first row of the most common width, and those that start with ``# ``.
        """
        if settings.skip_rows or settings.comment is not None or settings.names is not None or len(self.rows) < 2:
            return {}
        if self.n_skipped:
            return {"skip_rows": self.n_skipped}
        lines, width = self.text.splitlines(), self.width
        ends = [0, *(line for line, _ in self.rows)]
        is_comment = [bool(COMMENT.match("\n".join(lines[a:b]).strip())) for a, b in pairwise(ends)]
        n = next((i for i, (_, row) in enumerate(self.rows) if len(row) == width and not is_comment[i]), 0)
        if not n or (width < 2 and not all(is_comment[:n])):
            return {}
        if all(is_comment[:n]):
            return {"comment": "#"}
        is_header = n == 1 and len(self.rows[0][1]) > 1 and abs(len(self.rows[0][1]) - width) == 1
        return {} if is_header else {"skip_rows": ends[n]}

    def is_blank_separated(self, settings: CsvSettings) -> bool:
        r"""Return True if ``delimiter: "\s+"`` seems to be missing: see `gpupipe.io.formats.csv.whitespace`."""
        if settings.delimiter is not None:
            return False
        lines = (line for line in io.StringIO(self.text, newline="") if line.strip())
        return is_blank_separated("".join(islice(lines, HEAD_ROWS)), settings.quote)


def read_dialect(stream: Any, file: SourceFile, settings: CsvSettings) -> CsvDialect:
    """Return the dialect of a CSV stream; detects the delimiter if `settings` has none.

    Raise EncodingError if the text is not in the encoding of the settings.
    """
    text, is_all = _first_text(stream, file, settings.encoding)
    stated = SEPARATOR.match(text) if not settings.skip_rows and settings.names is None else None
    n_skipped = 1 if stated else settings.skip_rows
    if n_skipped and (lead := re.match(rf"(?:[^\r\n]*(?:\r\n|\n|\r)){{0,{n_skipped}}}", text)):
        text = re.sub(r"[^\r\n]", "", lead[0]) + text[lead.end() :]
    if settings.comment is not None:
        raw = empty_comments(text.encode(), settings.comment, settings.quote, settings.delimiter or "".join(DELIMITERS))
        text = raw.decode()
    delimiter = settings.delimiter or (stated[1] if stated else _delimiter(text, file, settings))
    rows = _rows(text, delimiter, settings.quote)
    if settings.names is None:  # a line of only whitespace may be a value, but not a header
        rows = [(line, row) for line, row in rows if len(row) > 1 or not row[0].isspace()]
    return CsvDialect(settings.encoding, delimiter, rows, is_all, text, n_skipped)


def detect_dialect(file: SourceFile, settings: CsvSettings) -> CsvDialect:
    """Return the dialect of a file; also detects the encoding and whitespace delimiters if they are not set.

    Raise EncodingError if the configured encoding is wrong, or no encoding fits.
    """
    found, is_stated = settings, "encoding" in settings.model_fields_set
    with open_file(file, unpack=True) as stream:
        marked = detect_bom_encoding(bytes(stream.read(LONGEST_BOM)))
    if marked and not is_stated:
        found = found.model_copy(update={"encoding": marked})
    while True:
        try:
            with open_file(file, unpack=True) as stream:
                dialect = read_dialect(stream, file, found)
        except EncodingError as error:
            if is_stated:
                raise
            found = found.model_copy(update={"encoding": next_encoding(error)})
            continue
        if not dialect.is_blank_separated(found):
            return dialect
        found = found.model_copy(update={"delimiter": WHITESPACE})


def is_header(rows: Sequence[Row]) -> bool:
    """Return True if the first of `rows` is a header.

    Columns of numbers, and of text with one shape (dates, codes), decide: the row is a header if one of its cells in
    these columns is a word, and data if the cells are like those of later rows. Without such columns, it is data if at
    least half of its values occur again in later rows.
    """
    first, rest = [cell.strip() for cell in rows[0]], rows[1:]
    if not rest or _counts_up(first):
        return True
    columns = [[row[i].strip() for row in rest if i < len(row) and not is_missing(row[i])] for i in range(len(first))]
    likeness = [
        _is_like(cell, below) for cell, below in zip(first, columns, strict=True) if below and not is_missing(cell)
    ]
    if False in likeness:
        return True
    if True in likeness:
        return False
    again = [cell in below for cell, below in zip(first, columns, strict=True) if cell]
    return sum(again) * 2 < max(1, len(again))


def is_missing(text: str) -> bool:
    """Return True if `text` looks like a missing value: a common word for it, or only punctuation."""
    return text.strip().lower() in MISSING_WORDS or not any(map(str.isalnum, text))


def _is_like(cell: str, below: Sequence[str]) -> bool | None:
    """Return True if a cell looks like those below, False if it does not; None if undecided."""
    if all(map(is_number, below)):
        return is_number(cell)
    shapes = set(map(_shape, below))
    if len(shapes) > 1 or len(below) == 1 or not any(map(str.isdigit, below[0])):
        return None
    if _shape(cell) in shapes:
        return True
    return None if any(map(str.isdigit, cell)) else False


def _shape(text: str) -> str:
    """Return a text with 9 for each digit and a for each run of letters: ``9999-99-99`` for ``2024-05-31``."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d", "9", text))


def _counts_up(cells: Row) -> bool:
    """Return True if the cells are consecutive numbers, such as 0, 1, 2 or years, which are column names."""
    if len(cells) < 2 or not all(cell.isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _first_text(stream: Any, file: SourceFile, encoding: str) -> tuple[str, bool]:
    """Return the first complete lines, and True if there are no others."""
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
    csv.field_size_limit(max(csv.field_size_limit(), HEAD_BYTES))  # a process-wide limit
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
    """Return the delimiter for which the most rows have the same number of fields, above one; then the most fields."""
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
