r"""Files with fields separated by runs of spaces and tabs: ``delimiter: "\s+"``.

Arrow's CSV parser (checked: pyarrow 26.0) supports only one character as the delimiter. So the bytes are rewritten
before parsing: each run of spaces and tabs becomes one tab, and those at the ends of a line are removed. Line breaks
and quoted text are unchanged.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe.io.csv_settings import WHITESPACE
from gpupipe.io.file_streams import AdaptedStream
from gpupipe.units import GIB

BLOCK_BYTES = 1 << 18  # a block and its temporary arrays fit into the CPU cache
MAX_ROW_BYTES = GIB  # a longer row is passed on unchanged: Arrow raises an error
TAB, NEWLINE, RETURN, BLANK = b"\t\n\r "
OTHER_DELIMITERS = b",;|"


def parser_delimiter(delimiter: str) -> str:
    r"""Return the delimiter to pass to Arrow's parser.

    >>> parser_delimiter(";"), parser_delimiter(r"\s+")
    (';', '\t')
    """
    return "\t" if delimiter == WHITESPACE else delimiter


def insert_tabs(rows: bytes, quote: str | None) -> bytes:
    r"""Return whole rows of text with one tab between fields.

    Parameters
    ----------
    rows : bytes
        UTF-8 text of complete rows.
    quote : str, optional
        Quote character. It opens a quoted field only at the start of a field.

    Examples
    --------
    >>> insert_tabs(b'  1  "a b"\t2 \n', '"')
    b'1\t"a b"\t2\n'
    """
    return _collapse(rows, _quoted_spans(rows, quote))


def is_blank_separated(text: str, quote: str | None) -> bool:
    """Return True if rows look like fields separated by runs of spaces.

    All rows must have the same number of fields, at least two, and none of the delimiters ``, ; |`` outside quotes. If
    there are tabs, every row must also have a run of at least two spaces or tabs; otherwise the delimiter is the tab.
    """
    raw = text.encode()
    rows = [line for line in insert_tabs(raw, quote).splitlines() if line]
    bare = b"".join(_outside(raw, _quoted_spans(raw, quote)))
    if len(rows) < 2 or any(mark in bare for mark in OTHER_DELIMITERS):
        return False
    lines = [line for line in bare.splitlines() if line.strip()]
    if TAB in bare and not all(re.search(rb"[ \t]{2}", line.strip()) for line in lines):
        return False
    widths = {_width(row, quote) for row in rows}
    return len(widths) == 1 and widths.pop() > 1


def _width(row: bytes, quote: str | None) -> int:
    return sum(part.count(b"\t") for part in _outside(row, _quoted_spans(row, quote))) + 1


class TabbedStream(AdaptedStream):
    """Stream that rewrites its text with one tab between fields.

    Parameters
    ----------
    stream : pyarrow.NativeFile
        UTF-8 text that starts with a row; a byte order mark is dropped.
    quote : str, optional
        Quote character.
    """

    def __init__(self, stream: Any, quote: str | None) -> None:
        self._stream, self._quote = stream, quote
        self._rest = b""  # incomplete row at the end of the last block
        self._ready: list[bytes] = []
        self._is_first, self._is_over = True, False

    def read(self, n_bytes: int) -> bytes:
        """Return the next `n_bytes` bytes, fewer only at the end, as Arrow takes each result as a block."""
        while sum(map(len, self._ready)) < n_bytes and not self._is_over:
            self._fill()
        found = b"".join(self._ready)
        self._ready = [found[n_bytes:]]
        return found[:n_bytes]

    def _fill(self) -> None:
        """Rewrite the rows that end in the next block. Blocks double until a row ends, so the total work is linear."""
        block = self._stream.read(max(BLOCK_BYTES, len(self._rest)))
        self._is_over = not block
        raw = self._rest + block
        if self._is_first and not self._is_over:
            if len(raw) < len(BOM_UTF8):
                self._rest = raw
                return
            raw, self._is_first = raw.removeprefix(BOM_UTF8), False
        spans = _quoted_spans(raw, self._quote)
        end = len(raw) if self._is_over or len(raw) > MAX_ROW_BYTES else _end_of_rows(raw, spans)
        self._rest = raw[end:]
        self._ready.append(_collapse(raw[:end], [span for span in spans if span[0] < end]))


Spans = list[tuple[int, int]]


def _quoted_spans(rows: bytes, quote: str | None) -> Spans:
    """Return the start and end of each quoted field; the last one may be unclosed."""
    if quote is None or not quote.isascii() or quote.encode() not in rows:
        return []
    return [match.span() for match in _quoted(quote).finditer(rows)]


@lru_cache
def _quoted(quote: str) -> re.Pattern[bytes]:
    mark = re.escape(quote.encode())
    # The quote comes first, followed by a lookbehind: this makes the search several times faster.
    return re.compile(rb"%b(?<![^ \t\r\n]%b)(?:[^%b]++|%b%b)*+(?:%b|\Z)" % ((mark,) * 6))


def _outside(rows: bytes, spans: Spans) -> list[bytes]:
    """Return the unquoted parts."""
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(rows)]
    return [rows[start:end] for start, end in zip(starts, ends, strict=True)]


def _end_of_rows(raw: bytes, spans: Spans) -> int:
    """Return the end of the last complete row, 0 if there is none; line breaks in quotes do not count."""
    end = len(raw)
    for start, stop in reversed(spans):
        if found := _last_break(raw, stop, end):
            return found
        end = start
    return _last_break(raw, 0, end)


def _last_break(raw: bytes, start: int, end: int) -> int:
    return max(raw.rfind(b"\n", start, end), raw.rfind(b"\r", start, end)) + 1


def _collapse(rows: bytes, spans: Spans) -> bytes:
    if not rows:
        return rows
    cells = np.frombuffer(rows, np.uint8)
    blank = (cells == BLANK) | (cells == TAB)
    if spans:
        blank &= ~_inside(len(cells), spans)
    edges = np.flatnonzero(blank[1:] != blank[:-1]) + 1  # starts and ends of runs, alternating
    if blank[0]:
        edges = np.concatenate([[0], edges])
    if blank[-1]:
        edges = np.append(edges, len(cells))
    starts, ends = edges[0::2], edges[1::2]
    between = ~(_is_break(cells, starts - 1) | _is_break(cells, ends))
    tabs = starts[between]
    made = cells.copy()
    made[tabs] = TAB
    keep = ~blank
    keep[tabs] = True
    return bytes(made[keep].data)


def _inside(n: int, spans: Spans) -> npt.NDArray[np.bool_]:
    edges = np.zeros(n + 1, np.int8)
    starts, ends = np.array(spans).T
    edges[starts], edges[ends] = 1, -1
    return np.cumsum(edges[:-1], dtype=np.int8).view(bool)


def _is_break(cells: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return a mask of the positions that are line breaks or outside the bytes."""
    outside = (places < 0) | (places >= len(cells))
    found = cells[np.where(outside, 0, places)]
    is_break: npt.NDArray[np.bool_] = outside | (found == NEWLINE) | (found == RETURN)
    return is_break
