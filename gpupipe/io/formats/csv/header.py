"""CSV headers: column names, checked against the first rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpupipe.errors import DataError, QuoteError
from gpupipe.io.csv_settings import WHITESPACE, CsvSettings
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.csv.dialect import CsvDialect, read_dialect
from gpupipe.io.formats.csv.whitespace import parser_delimiter
from gpupipe.io.notes import Notes
from gpupipe.names import duplicates, enumerate_names

WHITESPACE_FIX = f"csv: {{delimiter: '{WHITESPACE}'}}"


@dataclass(frozen=True)
class CsvHeader:
    """Column names and delimiter of a CSV file.

    - `delimiter`: in the form of ``csv.delimiter``
    - `n_lines`: number of lines before the first row: the header, and skipped and empty lines before it
    - `n_skipped`: number of skipped lines before the header
    """

    names: list[str]
    delimiter: str
    n_lines: int
    n_skipped: int = 0

    @property
    def parser_delimiter(self) -> str:
        """The delimiter of the text that Arrow parses."""
        return parser_delimiter(self.delimiter)


def read_header(
    stream: Any, file: SourceFile, settings: CsvSettings, notes: Notes, is_mentioned: Callable[[str], bool] = bool
) -> CsvHeader | None:
    """Return the header of a CSV stream, or None if no rows follow.

    `is_mentioned` returns whether the source names a column; see `name_columns`. Raise DataError if the encoding is
    wrong, a column name occurs twice, the number of fields differs from that of ``csv.names``, or a quote is never
    closed.
    """
    dialect = read_dialect(stream, file, settings)
    if not dialect.rows:
        return None
    if settings.names is not None:
        _check_width(settings.names, dialect, settings, file)
        return CsvHeader(list(settings.names), dialect.delimiter, dialect.n_skipped, dialect.n_skipped)
    n_lines, names = dialect.rows[0]
    if dialect.is_all and len(dialect.rows) == 1:
        if any("\n" in name for name in names):
            raise unclosed_quote_error(file, 1)
        return None
    if len(names) == 1 and dialect.is_blank_separated(settings):
        notes.add(f"{mask(file.path)} is read as one column; for fields separated by spaces, set {WHITESPACE_FIX}")
    return CsvHeader(_checked(names, file, settings, is_mentioned), dialect.delimiter, n_lines, dialect.n_skipped)


def unclosed_quote_error(file: SourceFile, line: int) -> QuoteError:
    """Return the error for a file that ends inside quotes opened in `line`; the header is line 1."""
    return QuoteError(
        f"a quote in line {line:,} is never closed",
        line,
        where=mask(file.path),
        fix="close it, or disable quoting if the text contains quote characters: csv: {quote: null}",
    )


def _check_width(names: Sequence[str], dialect: CsvDialect, settings: CsvSettings, file: SourceFile) -> None:
    """Raise DataError if the number of fields in the rows differs from the number of names."""
    if dialect.width != len(names):
        fix = "list all columns of the file in order (exclude some with drop), or check csv.delimiter"
        if dialect.is_blank_separated(settings):
            fix = f"the fields seem to be separated by spaces; set {WHITESPACE_FIX}"
        what = f"csv.names has {len(names)} names, but the rows have {dialect.width} fields"
        raise DataError(what, where=mask(file.path), fix=fix)


def name_columns(names: Sequence[str], is_mentioned: Callable[[str], bool] = bool) -> list[str]:
    """Return the names of a header; an empty one is replaced by the name that pandas gives it, ``Unnamed: 0``.

    Models and configurations of earlier versions may mention it as ``column_1``, by its position from 1.
    """
    found, known = [], frozenset(names)
    for i, name in enumerate(names):
        if not name.strip():
            by_position = f"column_{i + 1}"
            name = by_position if is_mentioned(by_position) and by_position not in known else f"Unnamed: {i}"
            while name in known:
                name += ".1"
        found.append(name)
    return found


def _checked(
    names: list[str], file: SourceFile, settings: CsvSettings, is_mentioned: Callable[[str], bool]
) -> list[str]:
    names = [name.strip() for name in names] if settings.strip else names
    if twice := duplicates(filter(str.strip, names)):
        raise DataError(
            f"duplicate column names in the header: {enumerate_names(twice, quoted=True)}",
            where=mask(file.path),
            fix="rename the columns in the file, or remove its header and set csv: {names: [...]}",
        )
    return name_columns(names, is_mentioned)
