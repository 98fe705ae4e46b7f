"""Chunks of whole CSV rows for a device, with checked field counts, as device readers do not check them.

Chunks are byte strings, not cuDF's ``byte_range``: a range starts after its first line feed, even inside quotes, and
loses its last row if a blank line follows (libcudf 26.10, ``csv_gpu.cu``: `remove_blank_rows` removes the offset that
ends that row).
"""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.backends.base import DeviceBackend
from gpupipe.io.chunks.row_boundaries import find_data_start
from gpupipe.io.device.obstacles import UnsupportedOnDevice
from gpupipe.io.files import SourceFile
from gpupipe.io.formats.csv.header import CsvHeader
from gpupipe.typing import Array
from gpupipe.units import MIB

CHUNK_BYTES = 256 * MIB  # maximum, in host memory; a device needs 16 times as much
LEAST_BYTES = MIB
BYTES_A_BYTE = 16  # device memory per byte of a chunk, computed from array shapes, without cuDF's own needs
LONGEST_ROW = 256 * MIB
NEWLINE, RETURN = b"\n\r"
FIX = "fix the file: the host reader reports the row; or skip such rows: csv: {bad_rows: skip}"

Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class CsvChunk:
    """Whole rows of a CSV file.

    Attributes
    ----------
    start, stop : int
        Byte offsets in the file.
    n_rows : int
        Rows that are neither blank nor skipped.
    skipped : list of (int, int)
        Byte offsets of the rows to skip, each from its start to the start of the next row.
    """

    start: int
    stop: int
    n_rows: int
    skipped: Spans

    def content(self, file: SourceFile) -> io.BytesIO:
        """Return the bytes of the chunk without the skipped rows; the last row ends in a line feed."""
        mapped = np.memmap(file.path, np.uint8, "r")
        kept, start = io.BytesIO(), self.start
        for first, end in [*self.skipped, (self.stop, self.stop)]:
            rows = mapped[start:first]
            if not kept.tell() and rows[: len(BOM_UTF8)].tobytes() == BOM_UTF8:
                kept.write(bytes([NEWLINE]))  # readers drop the mark at the start of a file, and skip blank lines
            kept.write(rows.data)
            start = end
        if mapped[self.stop - 1] != NEWLINE:
            kept.write(bytes([NEWLINE]))
        kept.seek(0)
        return kept


def chunk_bytes(free_bytes: int) -> int:
    """Return the chunk size, in bytes of the file, for a device with this much free memory."""
    return min(CHUNK_BYTES, max(LEAST_BYTES, free_bytes // (4 * BYTES_A_BYTE)))


def regular_chunks(
    file: SourceFile, header: CsvHeader, quote: str | None, backend: DeviceBackend, may_skip: bool = False
) -> Iterator[CsvChunk]:
    """Check the rows after the header and yield them in chunks.

    `file` is local and uncompressed. With `may_skip`, rows with a wrong number of fields are skipped. Raise
    UnsupportedOnDevice if a row has a wrong number of fields and may not be skipped, a quote is not at the edge of a
    field, or a line ends in a lone carriage return.
    """
    if header.n_lines > 1:
        raise UnsupportedOnDevice("the header has several lines", "source.path", "write the header in one line")
    with open(file.path, "rb") as raw:
        has_mark = raw.read(len(BOM_UTF8)) == BOM_UTF8
    if has_mark and header.n_lines == 0:
        raise UnsupportedOnDevice(
            "a file without a header starts with a byte order mark", "source.path", "remove the mark"
        )
    content = np.memmap(file.path, np.uint8, "r")
    marks = _Marks(ord(header.delimiter), ord(quote) if quote else None, len(header.names), backend, may_skip)
    start = find_data_start(file.path, header.n_lines)
    most = chunk_bytes(backend.free_bytes())
    while start < len(content):
        size, wanted = 0, most
        while not size:
            is_last = start + wanted >= len(content)
            size = marks.check(content[start : start + wanted], is_last)
            if not size and (is_last or wanted >= LONGEST_ROW):
                raise UnsupportedOnDevice("a quote is never closed", "source.path", FIX)
            wanted *= 2
        stop = min(start + size, len(content))  # the check adds a missing final newline
        skipped = [(start + first, min(start + end, stop)) for first, end in marks.skipped]
        yield CsvChunk(start, stop, marks.n_rows, skipped)
        start = stop


class _Marks:
    def __init__(
        self, delimiter: int, quote: int | None, n_columns: int, backend: DeviceBackend, may_skip: bool = False
    ) -> None:
        self.delimiter, self.quote, self.n_columns, self.backend = delimiter, quote, n_columns, backend
        self.may_skip = may_skip
        self.skipped: Spans = []  # in the bytes checked last
        self.n_rows = 0  # in the bytes checked last, without blank and skipped rows

    def check(self, part: Any, is_last: bool) -> int:
        """Check the whole rows at the start of `part` and return their size in bytes, 0 if no row ends."""
        xp = self.backend.xp
        raw = self.backend.to_device(np.ascontiguousarray(part))
        if is_last:
            raw = xp.concatenate([raw, xp.asarray([NEWLINE], "uint8")])
        outside = self._outside_quotes(raw)
        ends = outside & (raw == NEWLINE)
        places = xp.flatnonzero(ends | (outside & (raw == self.delimiter)))
        which = xp.flatnonzero(ends[places])
        if not len(which):
            return 0
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
        is_outside: Array = (
            self.backend.xp.cumsum(raw == self.quote, dtype="uint8") & 1
        ) == 0  # overflow keeps the parity
        return is_outside

    def _check_widths(self, raw: Array, at: Array, which: Array) -> None:
        xp = self.backend.xp
        first = xp.asarray([-1])
        widths = xp.diff(which, prepend=first)
        lengths = xp.diff(at, prepend=first) - 1
        blank = (lengths == 0) | ((lengths == 1) & (raw[xp.maximum(at - 1, 0)] == RETURN))
        bad = xp.flatnonzero(~blank & (widths != self.n_columns))
        if len(bad) and not self.may_skip:
            raise UnsupportedOnDevice("a row has a wrong number of fields", "source.path", FIX)
        spans = [self.backend.to_host(edges[bad]).tolist() for edges in (at - lengths, at + 1)]
        self.skipped = list(zip(*spans, strict=True))
        self.n_rows = len(at) - int(blank.sum()) - len(bad)

    def _check_returns(self, raw: Array) -> None:
        at = self.backend.xp.flatnonzero(raw[:-1] == RETURN)
        if bool((raw[at + 1] != NEWLINE).any()):
            raise UnsupportedOnDevice(
                "a line ends in a lone carriage return", "source.path", "end lines with a line feed"
            )

    def _check_quotes(self, raw: Array) -> None:
        """Check that quotes open after, and close before, the edge of a field or another quote."""
        xp = self.backend.xp
        at = xp.flatnonzero(raw == self.quote)
        opens, closes = at[0::2], at[1::2]
        before = xp.where(opens == 0, NEWLINE, raw[opens - 1])
        after = raw[xp.minimum(closes + 1, len(raw) - 1)]
        edges = xp.asarray([self.delimiter, NEWLINE, RETURN, self.quote], "uint8")
        if not bool(xp.isin(before, edges).all()) or not bool(xp.isin(after, edges).all()):
            raise UnsupportedOnDevice("a quote is inside a field", "source.path", FIX)
