"""Rewriting of CSV text before Arrow parses it, in blocks of whole rows: lines to ignore, runs of blanks.

Arrow's CSV parser (checked: pyarrow 26.0) knows no comments and no delimiter of several characters. Line breaks are
never removed, so that line numbers remain those of the file; the parser skips empty lines.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from gpupipe.io.csv_settings import WHITESPACE
from gpupipe.io.file_streams import AdaptedStream
from gpupipe.units import GIB

BLOCK_BYTES = 1 << 18  # a block and its temporary arrays fit into the CPU cache
MAX_ROW_BYTES = GIB  # a longer row is passed on unchanged: Arrow raises an error

Spans = list[tuple[int, int]]


class RewrittenRows(AdaptedStream):
    """Stream of rows that are rewritten.

    - `stream`: UTF-8 text that starts with a row; a byte order mark is dropped
    - `delimiter`: in the form of ``csv.delimiter``
    - `comment`: prefix of lines to empty
    - `n_skipped`: number of first lines to empty, whatever quotes they contain
    - `rewrite`: ``(rows, spans of quoted fields) -> rows``
    """

    def __init__(
        self,
        stream: Any,
        quote: str | None,
        delimiter: str,
        comment: str | None = None,
        n_skipped: int = 0,
        rewrite: Callable[[bytes, Spans], bytes] | None = None,
    ) -> None:
        self._stream = stream
        self._quote = quote
        self._delimiter = delimiter
        self._comment = comment
        self._n_skipped, self._rewrite = n_skipped, rewrite
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
        while self._n_skipped and (line := re.match(rb"[^\r\n]*(\r\n|\n|\r(?=.))", raw, re.DOTALL)) is not None:
            self._ready.append(line[1])
            raw, self._n_skipped = raw[line.end() :], self._n_skipped - 1
        if self._n_skipped and not self._is_over:
            self._rest = raw
            return
        spans, comments = _spans(raw, self._quote, self._delimiter, self._comment)
        end = len(raw) if self._is_over or len(raw) > MAX_ROW_BYTES else _end_of_rows(raw, spans)
        self._rest = raw[end:]
        rows = _without(raw[:end], comments)
        if self._rewrite is not None:
            spans = quoted_spans(rows, self._quote, self._delimiter) if comments else spans
            rows = self._rewrite(rows, [span for span in spans if span[0] < end])
        self._ready.append(rows)


def empty_comments(rows: bytes, comment: str, quote: str | None, delimiter: str) -> bytes:
    r"""Return whole rows in which the lines that start with `comment` are empty.

    >>> empty_comments(b'#by "hand\n1,"x\n#y"\n', "#", '"', ",")
    b'\n1,"x\n#y"\n'
    """
    return _without(rows, _spans(rows, quote, delimiter, comment)[1])


def _without(rows: bytes, spans: Spans) -> bytes:
    """Return the bytes outside of some spans."""
    ends = [0, *(end for _, end in spans)]
    return b"".join(rows[a:b] for a, b in zip(ends, [*(start for start, _ in spans), None], strict=True))


def _spans(rows: bytes, quote: str | None, delimiter: str, comment: str | None) -> tuple[Spans, Spans]:
    """Return the spans of quoted fields, and of comments without their line breaks."""
    if comment is None or comment.encode() not in rows:
        return quoted_spans(rows, quote, delimiter), []
    quote = quote if quote is not None and quote.isascii() else None
    found = list(_quoted_or_comment(quote, delimiter, comment).finditer(rows))
    quoted = [match.span() for match in found if match.lastgroup != "comment"]
    return quoted, [match.span() for match in found if match.lastgroup == "comment"]


def quoted_spans(rows: bytes, quote: str | None, delimiter: str) -> Spans:
    """Return the start and end of each quoted field; the last one may be unclosed."""
    if quote is None or not quote.isascii() or quote.encode() not in rows:
        return []
    return [match.span() for match in re.compile(_quoted(quote, delimiter)).finditer(rows)]


@lru_cache
def _quoted(quote: str, delimiter: str) -> bytes:
    mark = re.escape(quote.encode())
    before = rb" \t" if delimiter == WHITESPACE else re.escape(delimiter.encode()) if delimiter.isascii() else b""
    # The quote comes first, followed by a lookbehind: this makes the search several times faster.
    return rb"%b(?<![^%b\r\n]%b)(?:[^%b]++|%b%b)*+(?:%b|\Z)" % (mark, before, *((mark,) * 5))


@lru_cache
def _quoted_or_comment(quote: str | None, delimiter: str, comment: str) -> re.Pattern[bytes]:
    line = rb"(?P<comment>(?:\A|(?<=[\r\n]))%b[^\r\n]*+)" % re.escape(comment.encode())
    return re.compile(line if quote is None else line + b"|" + _quoted(quote, delimiter))


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
