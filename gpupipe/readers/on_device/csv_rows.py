"""Which rows of a CSV file do not have as many fields as its header: a device's reader would not say.

The bytes are looked at where the backend computes, in long parts.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from gpupipe.backends.base import Array, Backend
from gpupipe.readers.csv_header import Header
from gpupipe.readers.files import SourceFile
from gpupipe.readers.on_device.obstacles import Obstacle

PART_BYTES = 256 << 20
NEWLINE, RETURN = b"\n\r"
FIX = "correct the file; the host reader says which row it is, and csv: {bad_rows: skip} leaves it out"

Spans = list[tuple[int, int]]


def require_regular_rows(
    file: SourceFile, header: Header, quote: str | None, backend: Backend, may_skip: bool = False
) -> Spans:
    """Check the rows behind the header, and return where those are that are to be skipped: first byte, and end.

    Raises
    ------
    Obstacle
        If a row has another number of fields and may not be skipped, a quotation mark is not at the edge of a field,
        or a line ends in a lone carriage return.
    """
    if header.n_lines > 1:
        raise Obstacle("the header takes up several lines", "source.path", "write it in the first line")
    with open(file.path, "rb") as raw:
        has_mark = raw.read(3) == b"\xef\xbb\xbf"
    if has_mark and header.n_lines == 0:
        raise Obstacle("a byte order mark is before the first value", "source.path", "write the file without")
    content = np.memmap(file.path, np.uint8, "r")
    marks = _Marks(ord(header.delimiter), ord(quote) if quote else None, len(header.names), backend, may_skip)
    start, skipped = _after_line(content) if header.n_lines else 0, []
    while start < len(content):
        size = marks.check(content[start : start + PART_BYTES], is_last=start + PART_BYTES >= len(content))
        skipped += [(start + first, start + end) for first, end in marks.skipped]
        start += size
    return skipped


def without_rows(file: SourceFile, skipped: Spans) -> io.BytesIO:
    """Return the bytes of a file without some of its rows, given as `require_regular_rows` does."""
    content = np.memmap(file.path, np.uint8, "r")
    kept, start = io.BytesIO(), 0
    for first, end in [*skipped, (len(content), len(content))]:
        kept.write(content[start:first].data)
        start = end
    kept.seek(0)
    return kept


def _after_line(content: Any) -> int:
    for start in range(0, len(content), 1 << 16):
        ends = np.flatnonzero(content[start : start + (1 << 16)] == NEWLINE)
        if len(ends):
            return start + int(ends[0]) + 1
    return len(content)


class _Marks:
    def __init__(
        self, delimiter: int, quote: int | None, n_columns: int, backend: Backend, may_skip: bool = False
    ) -> None:
        self.delimiter, self.quote, self.n_columns, self.backend = delimiter, quote, n_columns, backend
        self.may_skip = may_skip
        self.skipped: Spans = []  # of the part that was checked last

    def check(self, part: Any, is_last: bool) -> int:
        """Check the whole rows of a part that begins with one, and return how many bytes they take."""
        xp = self.backend.xp
        raw = self.backend.to_device(np.ascontiguousarray(part))
        if is_last:
            raw = xp.concatenate([raw, xp.asarray([NEWLINE], "uint8")])
        outside = self._outside_quotes(raw)
        ends = outside & (raw == NEWLINE)
        places = xp.flatnonzero(ends | (outside & (raw == self.delimiter)))
        which = xp.flatnonzero(ends[places])
        if not len(which):
            raise Obstacle("a quotation mark is never closed", "source.path", FIX)
        at = places[which]
        self._check_widths(raw, at, which)
        size = int(at[-1]) + 1
        self._check_returns(raw[:size])
        if self.quote is not None:
            self._check_quotes(raw[:size])
        return size

    def _outside_quotes(self, raw: Array) -> Array:
        if self.quote is None:
            return self.backend.xp.ones(len(raw), "bool")
        return (self.backend.xp.cumsum(raw == self.quote, dtype="uint8") & 1) == 0  # wraps, and keeps the parity

    def _check_widths(self, raw: Array, at: Array, which: Array) -> None:
        xp = self.backend.xp
        first = xp.asarray([-1])
        widths = xp.diff(which, prepend=first)
        lengths = xp.diff(at, prepend=first) - 1
        blank = (lengths == 0) | ((lengths == 1) & (raw[xp.maximum(at - 1, 0)] == RETURN))
        bad = xp.flatnonzero(~blank & (widths != self.n_columns))
        if len(bad) and not self.may_skip:
            raise Obstacle("a row has another number of fields", "source.path", FIX)
        spans = [self.backend.to_host(edges[bad]).tolist() for edges in (at - lengths, at + 1)]
        self.skipped = list(zip(*spans, strict=True))

    def _check_returns(self, raw: Array) -> None:
        at = self.backend.xp.flatnonzero(raw[:-1] == RETURN)
        if bool((raw[at + 1] != NEWLINE).any()):
            raise Obstacle("a line ends in a lone carriage return", "source.path", "end lines with a line feed")

    def _check_quotes(self, raw: Array) -> None:
        """Check that marks open behind, and close before, the edge of a field or another mark."""
        xp = self.backend.xp
        at = xp.flatnonzero(raw == self.quote)
        opens, closes = at[0::2], at[1::2]
        before = xp.where(opens == 0, NEWLINE, raw[opens - 1])
        after = raw[xp.minimum(closes + 1, len(raw) - 1)]
        edges = xp.asarray([self.delimiter, NEWLINE, RETURN, self.quote], "uint8")
        if not bool(xp.isin(before, edges).all()) or not bool(xp.isin(after, edges).all()):
            raise Obstacle("a quotation mark is inside a field", "source.path", FIX)
