"""The first lines of a CSV file: its delimiter and the names of its columns."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from typing import Any

from gpupipe.errors import DataError
from gpupipe.readers.files import SourceFile, mask
from gpupipe.readers.notes import Notes
from gpupipe.readers.settings import CsvSettings

DELIMITERS = (",", ";", "\t", "|")
HEAD_BYTES = 1 << 16
HEAD_ROWS = 50
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Header:
    """What the first lines say.

    Attributes
    ----------
    names : list of str
    delimiter : str
    n_lines : int
        Lines that the header takes up, empty ones before it included; 0 where the file has none.
    """

    names: list[str]
    delimiter: str
    n_lines: int


def read_header(stream: Any, file: SourceFile, settings: CsvSettings, notes: Notes) -> Header | None:
    """Return the header of a CSV stream, or None if there is no row at all.

    Raises
    ------
    DataError
        If it is in another encoding, names a column twice, or has another number of fields than ``csv.names``.
    """
    lines = _first_lines(stream, file, settings)
    delimiter = settings.delimiter or _delimiter(lines, file, settings)
    rows = _rows(lines, delimiter, settings.quote)
    if not rows:
        return None
    if settings.names is not None:
        _check_width(settings.names, [row for _, row in rows], file)
        return Header(list(settings.names), delimiter, 0)
    n_lines, first = rows[0]
    return Header(_names(first, file, settings, notes), delimiter, n_lines)


def _first_lines(stream: Any, file: SourceFile, settings: CsvSettings) -> list[str]:
    raw = stream.read(HEAD_BYTES)
    if raw.startswith(UTF16_MARKS) and settings.encoding.lower().replace("_", "-").startswith("utf-8"):
        raw = raw[:0]
    if not raw and file.size and settings.encoding.lower() in ("utf8", "utf-8", "utf-8-sig"):
        stream.seek(0) if stream.seekable() else None
    text = raw.decode(settings.encoding, errors="replace").removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    return lines[:-1] if len(raw) == HEAD_BYTES and len(lines) > 1 else lines
