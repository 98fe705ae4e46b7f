"""Where a file of lines can be cut: at the ends of rows, which newlines in quotes are not.

A quotation mark opens a quoted field only where the field begins; elsewhere it is text. So whether a byte is in quotes
depends on all bytes before it, and not on how many quotation marks these have alone. But where every mark that would
open a field, if marks came in pairs, does stand where a field begins (or closes and opens again, as ``""`` does), both
come to the same, and each part of a file can be looked at by itself. A file with other marks is not cut.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpupipe.readers.streams import Span

BLOCK_BYTES = 1 << 20
NEWLINE, RETURN = 10, 13


@dataclass(frozen=True)
class Scan:
    """What is found in a span of a file, if it begins out of quotes, and if it begins in quotes.

    Attributes
    ----------
    n_quotes : int
    first_end : (int or None, int or None)
        The byte behind the first row that ends in the span.
    is_regular : (bool, bool)
        Whether every quotation mark is where pairs of marks would have it.
    """

    n_quotes: int
    first_end: tuple[int | None, int | None]
    is_regular: tuple[bool, bool]


def data_start(path: str, n_lines: int) -> int:
    """Return the byte behind the first `n_lines` lines of a file that is not empty."""
    at = 0
    with open(path, "rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for _ in range(n_lines):
            newline, back = content.find(b"\n", at), content.find(b"\r", at)
            ends = [end for end in (newline, back) if end >= 0]
            if not ends:
                return len(content)
            at = min(ends) + (2 if 0 <= back == newline - 1 else 1)
    return at


def even_spans(start: int, stop: int, most: int) -> list[Span]:
    """Return the bytes from `start` up to `stop` in equal parts of at most so many."""
    n = max(1, -(-(stop - start) // most))
    ends = [start + (stop - start) * i // n for i in range(n + 1)]
    return [(a, b) for a, b in pairwise(ends) if b > a]


def scan(path: str, span: Span, quote: int | None = None, delimiter: int = NEWLINE) -> Scan:
    """Look through a span of a file; `quote` and `delimiter` are bytes.

    Without a quotation mark only as far as the end of the first row.
    """
    found = _Scanning(quote, delimiter)
    for block, before in _blocks(path, span):
        found.add(block, before)
        if quote is None and found.first_end[0] is not None:
            break
    ends = tuple(None if end is None else span[0] + end for end in found.first_end)
    return Scan(found.n_quotes, (ends[0], ends[1]), (found.is_regular[0], found.is_regular[1]))


def whole_rows(spans: Sequence[Span], scans: Sequence[Scan]) -> list[Span] | None:
    """Return the spans with their ends moved to those of rows; None if the file must not be cut.

    The first span begins with a row, the last ends with the file. One in which no row ends becomes a part of the one
    before.
    """
    starts, n_quotes = [spans[0][0]], 0
    for i, found in enumerate(scans):
        in_quotes = n_quotes % 2
        if not found.is_regular[in_quotes]:
            return None
        if i and (end := found.first_end[in_quotes]) is not None and end < spans[-1][1]:
            starts.append(end)
        n_quotes += found.n_quotes
    return list(zip(starts, [*starts[1:], spans[-1][1]], strict=True))


class _Scanning:
    """Goes through the blocks of a span, out of quotes (0) and in quotes (1) at once."""

    def __init__(self, quote: int | None, delimiter: int) -> None:
        self.quote, self.n_bytes, self.n_quotes = quote, 0, 0
        self.first_end: list[int | None] = [None, None]
        self.is_regular = [True, True]
        self.opens = np.zeros(256, bool)  # behind these bytes a mark can open a field
        self.opens[[delimiter, NEWLINE, RETURN, *([] if quote is None else [quote])]] = True

    def add(self, block: np.ndarray, before: int) -> None:
        marks = np.flatnonzero(block == self.quote) if self.quote is not None else np.zeros(0, np.intp)
        is_open = self.opens[block[marks - 1]]
        if len(marks) and marks[0] == 0:
            is_open[0] = self.opens[before]
        ends = np.flatnonzero(block == NEWLINE) if None in self.first_end else marks[:0]
        n_before = self.n_quotes + np.searchsorted(marks, ends)
        for in_quotes in (0, 1):
            first = (self.n_quotes + in_quotes) % 2  # the first mark of the block that would open a field
            self.is_regular[in_quotes] &= bool(is_open[first::2].all())
            outside = ends[(n_before + in_quotes) % 2 == 0]
            if self.first_end[in_quotes] is None and len(outside):
                self.first_end[in_quotes] = self.n_bytes + int(outside[0]) + 1
        self.n_quotes += len(marks)
        self.n_bytes += len(block)


def _blocks(path: str, span: Span) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the bytes of a span, each block with the byte before it."""
    content = np.memmap(path, np.uint8, "r")
    for low in range(*span, BLOCK_BYTES):
        yield np.asarray(content[low : min(low + BLOCK_BYTES, span[1])]), int(content[low - 1]) if low else NEWLINE
