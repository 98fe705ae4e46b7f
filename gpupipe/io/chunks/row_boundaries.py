"""Row boundaries of a text file, at which it can be split; newlines in quotes are not row ends.

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

from gpupipe.io.file_streams import ByteRange

BLOCK_BYTES = 1 << 18  # they stay in the cache with what is made of them
BITS, ONE, LAST = 64, np.uint64(1), np.uint64(63)
NEWLINE, RETURN = 10, 13


@dataclass(frozen=True)
class RowScan:
    """The row ends and quotes of a span, for a span that begins outside of quotes and for one that begins inside.

    Attributes
    ----------
    n_quotes : int
        0 or 1: whether their number is even or odd.
    first_end : (int or None, int or None)
        The byte after the first row that ends in the span.
    is_regular : (bool, bool)
        Whether every quotation mark is where pairs of marks would have it.
    holds_break : (bool, bool)
        Whether a newline or a carriage return is in quotes.
    """

    n_quotes: int
    first_end: tuple[int | None, int | None]
    is_regular: tuple[bool, bool]
    holds_break: tuple[bool, bool]


@dataclass(frozen=True)
class RowRanges:
    """Byte ranges of a file that hold whole rows.

    Attributes
    ----------
    spans : list of (int, int)
    lines_are_rows : bool
        Whether no line ends in quotes, so that each is a row.
    """

    spans: list[ByteRange]
    lines_are_rows: bool


def find_data_start(path: str, n_lines: int) -> int:
    """Return the offset after the first `n_lines` lines of a file that is not empty."""
    at = 0
    with open(path, "rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for _ in range(n_lines):
            newline = content.find(b"\n", at)
            back = content.find(b"\r", at, newline if newline >= 0 else len(content))
            ends = [end for end in (newline, back) if end >= 0]
            if not ends:
                return len(content)
            at = min(ends) + (2 if 0 <= back == newline - 1 else 1)
    return at


def split_evenly(start: int, stop: int, most: int) -> list[ByteRange]:
    """Return equal byte ranges from `start` up to `stop`, each of at most `most` bytes."""
    n = max(1, -(-(stop - start) // most))
    ends = [start + (stop - start) * i // n for i in range(n + 1)]
    return [(a, b) for a, b in pairwise(ends) if b > a]


def scan_rows(path: str, span: ByteRange, quote: int | None = None, delimiter: int = NEWLINE) -> RowScan:
    """Scan a span of a file for row ends and quotation marks; `quote` and `delimiter` are bytes.

    Without a quotation mark only as far as the end of the first row.
    """
    found = _Scanning(quote, delimiter)
    for block, before in _blocks(path, span):
        found.add(block, before)
        if quote is None and found.first_end[0] is not None:
            break
    ends = tuple(None if end is None else span[0] + end for end in found.first_end)
    regular, breaks = found.is_regular, found.holds_break
    return RowScan(found.n_quotes, (ends[0], ends[1]), (regular[0], regular[1]), (breaks[0], breaks[1]))


def align_to_rows(spans: Sequence[ByteRange], scans: Sequence[RowScan]) -> RowRanges | None:
    """Return the spans with their ends moved to row ends; None if the file must not be split, or ends in quotes.

    The first span begins with a row, the last ends with the file. One in which no row ends becomes a part of the one
    before.
    """
    starts, in_quotes, holds_break = [spans[0][0]], 0, False
    for i, found in enumerate(scans):
        if not found.is_regular[in_quotes]:
            return None
        if i and (end := found.first_end[in_quotes]) is not None and end < spans[-1][1]:
            starts.append(end)
        holds_break |= found.holds_break[in_quotes]
        in_quotes ^= found.n_quotes
    if in_quotes:
        return None
    return RowRanges(list(zip(starts, [*starts[1:], spans[-1][1]], strict=True)), not holds_break)


class _Scanning:
    """Goes through the blocks of a span, out of quotes (0) and in quotes (1) at once; a bit stands for a byte."""

    def __init__(self, quote: int | None, delimiter: int) -> None:
        self.quote, self.delimiter = quote, delimiter
        self.n_bytes = self.n_quotes = 0
        self.first_end: list[int | None] = [None, None]
        self.is_regular, self.holds_break = [True, True], [False, False]
        self._room = np.zeros(-(-BLOCK_BYTES // BITS) * BITS, bool)  # new memory for each block would cost as much

    def add(self, block: np.ndarray, before: int) -> None:
        marks = self._bits(block, self.quote)
        newlines = self._bits(block, NEWLINE)
        breaks = newlines | self._bits(block, RETURN)
        opens = marks | breaks | self._bits(block, self.delimiter)  # behind these bytes a mark can open a field
        may_open = opens << ONE
        may_open[1:] |= opens[:-1] >> LAST
        may_open[0] |= np.uint64(before in (self.quote, NEWLINE, RETURN, self.delimiter))
        behind = _odd(marks)
        for in_quotes in (0, 1):
            inside = behind if in_quotes == self.n_quotes else ~behind
            self.is_regular[in_quotes] &= not (marks & inside & ~may_open).any()
            self.holds_break[in_quotes] |= bool((breaks & inside).any())
            if self.first_end[in_quotes] is None and (end := _first(newlines & ~inside)) is not None:
                self.first_end[in_quotes] = self.n_bytes + end + 1
        self.n_quotes ^= int(behind[-1] >> LAST)
        self.n_bytes += len(block)

    def _bits(self, block: np.ndarray, byte: int | None) -> np.ndarray:
        """Return which bytes of a block are this one, 64 of them a number, the first the lowest bit; 0 behind them."""
        n = len(block)
        end = -(-n // BITS) * BITS
        self._room[n:end] = False
        np.equal(block, -1 if byte is None else byte, out=self._room[:n])
        return np.packbits(self._room[:end], bitorder="little").view("<u8")


def _odd(bits: np.ndarray) -> np.ndarray:
    """Return for each bit whether it and those before it are an odd number of ones."""
    odd = bits.copy()
    for step in (1, 2, 4, 8, 16, 32):
        odd ^= odd << np.uint64(step)
    own = odd >> LAST
    odd ^= -(np.bitwise_xor.accumulate(own) ^ own)
    return odd


def _first(bits: np.ndarray) -> int | None:
    """Return the number of the first one among bits, or None."""
    words = np.flatnonzero(bits)
    if not len(words):
        return None
    word = int(bits[words[0]])
    return int(words[0]) * BITS + (word & -word).bit_length() - 1


def _blocks(path: str, span: ByteRange) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the bytes of a span, each block with the byte before it."""
    room, before = memoryview(bytearray(BLOCK_BYTES)), NEWLINE
    with open(path, "rb", buffering=0) as raw:  # not mapped: a file that is cut short meanwhile would end the process
        if span[0]:
            raw.seek(span[0] - 1)
            before = raw.read(1)[0]
        for low in range(*span, BLOCK_BYTES):
            block = np.frombuffer(room[: raw.readinto(room[: min(BLOCK_BYTES, span[1] - low)])], np.uint8)
            if not len(block):
                return
            yield block, before
            before = int(block[-1])
