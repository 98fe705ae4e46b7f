"""Splitting of the files of a source into chunks of about equal size in bytes."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from pyarrow import orc

from gpupipe.errors import GpupipeError
from gpupipe.io.chunks.chunk import SourceChunk
from gpupipe.io.chunks.parquet_stream import is_steady
from gpupipe.io.chunks.row_boundaries import NEWLINE, find_data_start, has_lines_with, split_evenly
from gpupipe.io.csv_settings import WHITESPACE
from gpupipe.io.file_formats import PACKED, compression_of, has_reader
from gpupipe.io.file_streams import ByteRange, open_file
from gpupipe.io.files import SourceFile
from gpupipe.io.formats.csv.reader import header_of
from gpupipe.io.formats.parquet_footers import read_groups_of
from gpupipe.io.input_files import input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.notes import Notes
from gpupipe.io.settings import TableSource

ROW_BYTES = 200  # approximate size of a generated row
FULL_CHUNK_ROWS = 262_144  # generated chunks end at multiples of the chunk size of statistics
# In these encodings, newline, quote and delimiter are single bytes that never occur in other characters.
CUTTABLE_ENCODINGS = ("utf-8", "utf-8-sig", "ascii", "iso8859-1", "iso8859-15", "cp1252")


@dataclass(frozen=True)
class SplittableFile:
    """A file and its possible split points.

    - `n_bytes`: approximate size of the file in memory
    - `groups`: size of each row group or stripe in bytes
    - `span`: byte range of the rows of a text file; range of row numbers of a generator
    - `quote`, `delimiter`: byte values for a text file; ``quote`` is None without quoting
    """

    file: SourceFile
    n_bytes: int
    groups: Sequence[int] | None = None
    span: ByteRange | None = None
    quote: int | None = None
    delimiter: int = NEWLINE

    @property
    def is_text(self) -> bool:
        """True if chunk boundaries must be moved to row ends: see `gpupipe.io.chunks.row_boundaries`."""
        return self.span is not None and self.file.format != "generator"

    def split_text(self, most: int) -> list[ByteRange]:
        """Return equal byte ranges of `span`, each of at most `most` bytes."""
        assert self.span is not None
        return split_evenly(*self.span, most)

    def chunks(self, most: int) -> list[SourceChunk]:
        """Return chunks of about `most` bytes, at least one row group or stripe each; one chunk for a text file."""
        n = max(1, -(-self.n_bytes // most))
        if self.groups is not None:
            runs = _runs(self.groups, n)
            return [SourceChunk(self.file, groups=run) for run in runs] if len(runs) > 1 else [SourceChunk(self.file)]
        if self.span is None or self.is_text:
            return [SourceChunk(self.file)]
        stop = self.span[1]
        height = -(-stop // n)
        if height > FULL_CHUNK_ROWS:
            height -= height % FULL_CHUNK_ROWS
        return [SourceChunk(self.file, span=(row, min(row + height, stop))) for row in range(0, stop, height)]


def find_splittable_files(source: TableSource, files: Sequence[SourceFile] | None = None) -> list[SplittableFile]:
    """Return the files of a source as splittable files; `files` are its files, if already listed.

    A corrupt file raises no error here, but when it is read. Raise DataError or ConfigError if a file is missing.
    """
    files = input_files(source) if files is None else files
    try_files(source, files)
    return [_cut_of(file, source) for file in files if file.format == "generator" or has_reader(file.format)]


def _cut_of(file: SourceFile, source: TableSource) -> SplittableFile:
    size = file.size * (PACKED if compression_of(file.path) else 1)
    try:
        if file.format == "generator":
            return SplittableFile(file, file.size * ROW_BYTES, span=(0, file.size))
        if file.format == "parquet":
            return _parquet(file, source)
        if file.format == "orc":
            return _orc(file)
        if file.format in ("csv", "jsonl") and file.remote is None and not compression_of(file.path):
            return _text(file, source)
    except GpupipeError:
        pass
    return SplittableFile(file, size)


def _parquet(file: SourceFile, source: TableSource) -> SplittableFile:
    groups = read_groups_of(file, source)
    steady = all(map(is_steady, groups.schema.types))
    return SplittableFile(file, sum(groups.decoded), groups.decoded if steady else None)


def _orc(file: SourceFile) -> SplittableFile:
    with open_file(file) as stream:
        reader = orc.ORCFile(stream)
        steady = all(map(is_steady, reader.schema.types)) and reader.nrows > 0
    n_bytes = file.size * PACKED
    return SplittableFile(file, n_bytes, [n_bytes // reader.nstripes + 1] * reader.nstripes if steady else None)


def _text(file: SourceFile, source: TableSource) -> SplittableFile:
    if file.format == "jsonl":
        return SplittableFile(file, file.size, span=(0, file.size))
    settings = source.csv
    header = header_of(file, source, Notes())
    if header is None or codecs.lookup(settings.encoding).name not in CUTTABLE_ENCODINGS:
        return SplittableFile(file, file.size)
    # For whitespace delimiters, the scan knows the space only; a quote after a tab is irregular, so it does not split.
    delimiter = " " if header.delimiter == WHITESPACE else header.delimiter
    marks = [mark.encode(settings.encoding) for mark in (delimiter, settings.quote or delimiter)]
    if any(len(mark) > 1 for mark in marks):
        return SplittableFile(file, file.size)
    span = find_data_start(file.path, header.n_lines), file.size
    if settings.comment is not None and has_lines_with(file.path, span, settings.comment.encode(settings.encoding)):
        return SplittableFile(file, file.size)  # a quote in a comment is not a quote
    return SplittableFile(
        file, file.size, span=span, quote=marks[1][0] if settings.quote else None, delimiter=marks[0][0]
    )


def _runs(sizes: Sequence[int], n: int) -> list[tuple[int, ...]]:
    """Return the non-empty groups in at most `n` runs of about the same size."""
    runs: dict[int, list[int]] = {}
    total, before = max(1, sum(sizes)), 0
    for group, size in enumerate(sizes):
        if size:
            runs.setdefault((2 * before + size) * n // (2 * total), []).append(group)
        before += size
    return [tuple(run) for run in runs.values()]
