"""Row boundaries at which a text file can be split; newlines in quotes are not row ends.

A quote opens a quoted field only at the start of a field; elsewhere it is text. So whether a byte is inside quotes
depends on all bytes before it, not only on the parity of the number of quotes. But if every quote that would open a
field by parity is at the start of a field (or closes and reopens it, as ``""`` does), parity gives the right answer,
and each byte range can be scanned independently. A file with other quotes is not split.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpupipe.io.file_streams import ByteRange

BLOCK_BYTES = 1 << 18  # a block and its temporary arrays fit into the CPU cache
BITS = 64
ONE = np.uint64(1)
LAST = np.uint64(63)
NEWLINE, RETURN = 10, 13


@dataclass(frozen=True)
class RowScan:
    """Row ends and quotes of a span, for both cases: that it starts outside quotes, and inside.

    - `n_quotes`: parity of the number of quotes: 0 if even, 1 if odd
    - `first_end`: offset after the first row that ends in the span
    - `is_regular`: True if every opening quote, by parity, is at the start of a field
    - `holds_break`: True if a newline or carriage return is inside quotes
    """

    n_quotes: int
    first_end: tuple[int | None, int | None]
    is_regular: tuple[bool, bool]
    holds_break: tuple[bool, bool]


@dataclass(frozen=True)
class RowRanges:
    """Byte ranges of a file that contain whole rows.

    `lines_are_rows` is true if no line ends inside quotes, so that each line is a row.
    """

    spans: list[ByteRange]
    lines_are_rows: bool


def find_data_start(path: str, n_lines: int) -> int:
    """Return the offset after the first `n_lines` lines of a non-empty file."""
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


def has_lines_with(path: str, span: ByteRange, prefix: bytes) -> bool:
    """Return whether a line of a span, which starts with a line, has the prefix."""
    marks, rest = (b"\n" + prefix, b"\r" + prefix), b"\n"
    with open(path, "rb") as raw:
        raw.seek(span[0])
        while block := raw.read(BLOCK_BYTES):
            block = rest + block
            if any(mark in block for mark in marks):
                return True
            rest = block[-len(prefix) :]
    return False


def split_evenly(start: int, stop: int, most: int) -> list[ByteRange]:
    """Return equal byte ranges from `start` to `stop`, each of at most `most` bytes."""
    n = max(1, -(-(stop - start) // most))
    ends = [start + (stop - start) * i // n for i in range(n + 1)]
    return [(a, b) for a, b in pairwise(ends) if b > a]


def scan_rows(path: str, span: ByteRange, quote: int | None = None, delimiter: int = NEWLINE) -> RowScan:
    """Return the row ends and quotes of a span of a file; `quote` and `delimiter` are byte values.

    Without a quote character, the scan stops at the end of the first row.
    """
    found = _Scanner(quote, delimiter)
    for block, before in _blocks(path, span):
        found.add(block, before)
        if quote is None and found.first_end[0] is not None:
            break
    ends = tuple(None if end is None else span[0] + end for end in found.first_end)
    regular, breaks = found.is_regular, found.holds_break
    return RowScan(found.n_quotes, (ends[0], ends[1]), (regular[0], regular[1]), (breaks[0], breaks[1]))


def align_to_rows(spans: Sequence[ByteRange], scans: Sequence[RowScan]) -> RowRanges | None:
    """Return the spans with their ends moved to row ends; None if the file must not be split or ends inside quotes.

    The first span starts with a row, the last ends with the file. A span in which no row ends is merged with the
    previous one.
    """
    starts = [spans[0][0]]
    in_quotes = 0
    holds_break = False
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


class _Scanner:
    """Scanner of the blocks of a span, for a start outside (0) and inside (1) quotes at once; one bit per byte."""

    def __init__(self, quote: int | None, delimiter: int) -> None:
        self.quote, self.delimiter = quote, delimiter
        self.n_bytes = self.n_quotes = 0
        self.first_end: list[int | None] = [None, None]
        self.is_regular, self.holds_break = [True, True], [False, False]
        self._room = np.zeros(-(-BLOCK_BYTES // BITS) * BITS, bool)  # reused: allocation doubles the time

    def add(self, block: np.ndarray, before: int) -> None:
        marks = self._bits(block, self.quote)
        newlines = self._bits(block, NEWLINE)
        breaks = newlines | self._bits(block, RETURN)
        opens = marks | breaks | self._bits(block, self.delimiter)  # after these bytes, a quote can open a field
        may_open = opens << ONE
        may_open[1:] |= opens[:-1] >> LAST
        may_open[0] |= np.uint64(before in (self.quote, NEWLINE, RETURN, self.delimiter))
        odd = _odd(marks)
        for in_quotes in (0, 1):
            inside = odd if in_quotes == self.n_quotes else ~odd
            self.is_regular[in_quotes] &= not (marks & inside & ~may_open).any()
            self.holds_break[in_quotes] |= bool((breaks & inside).any())
            if self.first_end[in_quotes] is None and (end := _first(newlines & ~inside)) is not None:
                self.first_end[in_quotes] = self.n_bytes + end + 1
        self.n_quotes ^= int(odd[-1] >> LAST)
        self.n_bytes += len(block)

    def _bits(self, block: np.ndarray, byte: int | None) -> np.ndarray:
        """Return a bit mask of the bytes equal to `byte`: 64 bytes per word, lowest bit first, zero-padded."""
        n = len(block)
        end = -(-n // BITS) * BITS
        self._room[n:end] = False
        np.equal(block, -1 if byte is None else byte, out=self._room[:n])
        return np.packbits(self._room[:end], bitorder="little").view("<u8")


def _odd(bits: np.ndarray) -> np.ndarray:
    """Return the prefix parity: for each bit, 1 if the number of ones up to and including it is odd."""
    odd = bits.copy()
    for step in (1, 2, 4, 8, 16, 32):
        odd ^= odd << np.uint64(step)
    own = odd >> LAST
    odd ^= -(np.bitwise_xor.accumulate(own) ^ own)
    return odd


def _first(bits: np.ndarray) -> int | None:
    """Return the index of the first bit that is set, or None."""
    words = np.flatnonzero(bits)
    if not len(words):
        return None
    word = int(bits[words[0]])
    return int(words[0]) * BITS + (word & -word).bit_length() - 1


def _blocks(path: str, span: ByteRange) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the blocks of a span, each with the byte before it."""
    room, before = memoryview(bytearray(BLOCK_BYTES)), NEWLINE
    with open(path, "rb", buffering=0) as raw:  # not mapped: truncation would kill the process
        if span[0]:
            raw.seek(span[0] - 1)
            before = raw.read(1)[0]
        for low in range(*span, BLOCK_BYTES):
            block = np.frombuffer(room[: raw.readinto(room[: min(BLOCK_BYTES, span[1] - low)])], np.uint8)
            if not len(block):
                return
            yield block, before
            before = int(block[-1])
