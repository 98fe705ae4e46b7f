r"""Files whose fields are separated by runs of blanks and tabs: ``delimiter: "\s+"``.

Arrow's CSV parser takes one character as its delimiter. So the bytes are rewritten on their way to it: a run of blanks
becomes one tab, and blanks at the ends of a line are dropped. Lines stay lines, and quoted text keeps its blanks.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe.io.file_streams import AdaptedStream
from gpupipe.io.settings import WHITESPACE
from gpupipe.units import GIB

__all__ = ["TabbedStream", "insert_tabs", "is_blank_separated", "parser_delimiter"]

BLOCK_BYTES = 1 << 18  # what is made of a block stays in the processor's cache with it
MAX_ROW_BYTES = GIB  # a longer row is handed on as it is: Arrow refuses it
TAB, NEWLINE, RETURN, BLANK = b"\t\n\r "
OTHER_DELIMITERS = b",;|"


def parser_delimiter(delimiter: str) -> str:
    r"""Return the character that Arrow's parser is given for a delimiter.

    >>> parser_delimiter(";"), parser_delimiter(r"\s+")
    (';', '\t')
    """
    return "\t" if delimiter == WHITESPACE else delimiter


def insert_tabs(rows: bytes, quote: str | None) -> bytes:
    r"""Return whole rows of text with one tab between fields.

    Parameters
    ----------
    rows : bytes
        UTF-8; the first byte begins a row, the last one ends one.
    quote : str, optional
        The quotation mark. It opens a quoted field only where a field begins.

    Examples
    --------
    >>> tabbed(b'  1  "a b"\t2 \n', '"')
    b'1\t"a b"\t2\n'
    """
    return _collapse(rows, _quoted_spans(rows, quote))


def is_blank_separated(text: str, quote: str | None) -> bool:
    """Return whether rows look like fields between runs of blanks.

    All of them must have the same number of fields, two or more, and none of the delimiters ``, ; |`` outside quotes.
    With tabs among the blanks, every row must also have a run of two blanks or more: else it is a file of tabs.
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
    """A stream with a tab between fields.

    Parameters
    ----------
    stream : pyarrow.NativeFile
        UTF-8 text that begins with a row; a byte order mark is dropped.
    quote : str, optional
        The quotation mark.
    """

    def __init__(self, stream: Any, quote: str | None) -> None:
        self._stream, self._quote = stream, quote
        self._rest = b""  # bytes of a row whose end has not been read
        self._ready: list[bytes] = []
        self._is_first, self._is_over = True, False

    def read(self, n_bytes: int) -> bytes:
        """Return the next `n_bytes` bytes, fewer only at the end: what Arrow gets is a block to it."""
        while sum(map(len, self._ready)) < n_bytes and not self._is_over:
            self._fill()
        found = b"".join(self._ready)
        self._ready = [found[n_bytes:]]
        return found[:n_bytes]

    def _fill(self) -> None:
        """Rewrite the rows that end in the next block. While a row has no end, blocks double: no byte is read often."""
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
    """Return the first byte and the end of each quoted text; the last one may not be closed."""
    if quote is None or not quote.isascii() or quote.encode() not in rows:
        return []
    return [match.span() for match in _quoted(quote).finditer(rows)]


@lru_cache
def _quoted(quote: str) -> re.Pattern[bytes]:
    mark = re.escape(quote.encode())
    # The mark comes first, before what must precede it: such a pattern is searched for several times as fast.
    return re.compile(rb"%b(?<![^ \t\r\n]%b)(?:[^%b]++|%b%b)*+(?:%b|\Z)" % ((mark,) * 6))


def _outside(rows: bytes, spans: Spans) -> list[bytes]:
    """Return what is not quoted, in parts."""
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(rows)]
    return [rows[start:end] for start, end in zip(starts, ends, strict=True)]


def _end_of_rows(raw: bytes, spans: Spans) -> int:
    """Return the end of the last row that ends in some bytes, outside quotes; 0 if none does."""
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
    edges = np.flatnonzero(blank[1:] != blank[:-1]) + 1  # where runs begin and end, in turns
    if blank[0]:
        edges = np.concatenate([[0], edges])
    if blank[-1]:
        edges = np.append(edges, len(cells))
    firsts, behind = edges[0::2], edges[1::2]
    between = ~(_is_break(cells, firsts - 1) | _is_break(cells, behind))
    tabs = firsts[between]
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
    """Return which places are line ends, or before the first or after the last byte."""
    outside = (places < 0) | (places >= len(cells))
    found = cells[np.where(outside, 0, places)]
    is_break: npt.NDArray[np.bool_] = outside | (found == NEWLINE) | (found == RETURN)
    return is_break
