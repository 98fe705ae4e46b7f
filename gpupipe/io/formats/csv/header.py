"""Column names of a CSV file, checked against its first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpupipe.errors import DataError, QuoteError
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.csv.dialect import CsvDialect, read_dialect
from gpupipe.io.formats.csv.whitespace import parser_delimiter
from gpupipe.io.notes import Notes
from gpupipe.io.settings import WHITESPACE, CsvSettings
from gpupipe.names import duplicates, enumerate_names

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


def read_header(stream: Any, file: SourceFile, settings: CsvSettings, notes: Notes) -> CsvHeader | None:
    """Return the header of a CSV stream, or None if no row follows.

    Raises
    ------
    DataError
        If it is in another encoding, names a column twice, has another number of fields than ``csv.names``, or a
        quotation mark that is never closed.
    """
    dialect = read_dialect(stream, file, settings)
    if not dialect.rows:
        return None
    if settings.names is not None:
        _check_width(settings.names, dialect, settings, file)
        return CsvHeader(list(settings.names), dialect.delimiter, 0)
    n_lines, names = dialect.rows[0]
    if dialect.is_all and len(dialect.rows) == 1:
        if any("\n" in name for name in names):
            raise unclosed_quote_error(file, 1)
        return None
    if len(names) == 1 and dialect.is_blank_separated(settings):
        notes.say(f"{mask(file.path)} is read as one column; for fields separated by blanks: {BLANKS_FIX}")
    return CsvHeader(_checked(names, file, settings, notes), dialect.delimiter, n_lines)


def unclosed_quote_error(file: SourceFile, row: int) -> QuoteError:
    """Return the error for a file that ends within quotes, which were opened in a row; the header is row 1."""
    return QuoteError(
        f"a quotation mark of row {row:,} is never closed: all that follows would be one value",
        row,
        where=mask(file.path),
        fix="close it; or if marks are a part of the text, csv: {quote: null}",
    )


def _check_width(names: Sequence[str], dialect: CsvDialect, settings: CsvSettings, file: SourceFile) -> None:
    """Raise DataError if the rows have another number of fields than there are names."""
    if dialect.width != len(names):
        fix = "name every column of the file, in its order (exclude some with drop), or check csv.delimiter"
        if dialect.is_blank_separated(settings):
            fix = f"the fields look separated by blanks: {BLANKS_FIX}"
        what = f"csv.names has {len(names)} names, the rows have {dialect.width} fields"
        raise DataError(what, where=mask(file.path), fix=fix)


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
