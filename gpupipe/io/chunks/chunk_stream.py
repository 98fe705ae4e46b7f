"""Tables as streams of chunks: files larger than memory, or slices of a frame.

The types of the columns need not agree between chunks, because each chunk is converted to a frozen schema by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.io.chunks.chunk import SourceChunk
from gpupipe.io.chunks.chunk_reader import read_chunk
from gpupipe.io.chunks.row_boundaries import align_to_rows, scan_rows
from gpupipe.io.chunks.splittable_files import SplittableFile, find_splittable_files
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.notes import Notes
from gpupipe.io.settings import TableSource
from gpupipe.units import MIB

CHUNK_BYTES = 128 * MIB  # of text, or as Arrow holds it; a larger row group is one chunk
SLICE_CELLS = 2**24  # of a frame in memory: 128 MiB


@dataclass(frozen=True)
class ReadRows:
    """Rows of a chunk, and notes about them."""

    table: pa.Table
    notes: Notes


class ChunkStream:
    """Chunks of the files of a source, read when they are needed.

    `source`: without steps that need all rows. `notes`: repairs and drops, complete after the last chunk. `n_bytes`:
    approximate size of all rows in memory, known from the first chunk on.
    """

    def __init__(self, source: TableSource, files: Sequence[SourceFile], names: Sequence[str]) -> None:
        self.source = source
        self.files = tuple(files)
        self.names = tuple(names)
        self.partitions = HivePartitions.of(files, source)
        self.notes, self.n_bytes = Notes(), 0

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield the rows of each chunk, in order.

        Raise DataError if a file is unreadable, or there are no rows; SchemaError if a file lacks a column.
        """
        n_rows, files = 0, self.splittable()
        self.n_bytes = sum(file.n_bytes for file in files)
        for file in files:
            before = n_rows
            for rows in self._tables(file):
                n_rows += rows.num_rows
                held = [rows]
                del rows
                yield held.pop()
            self.note_file(file, n_rows - before)
        self.require_rows(n_rows)

    def splittable(self) -> list[SplittableFile]:
        """Return the files with the places where they can be split."""
        return find_splittable_files(self.source.model_copy(update={"columns": self.names}), self.files)

    def note_file(self, file: SplittableFile, n_rows: int) -> None:
        """Note a file without rows."""
        if not n_rows:
            self.notes.add(f"no rows in {mask(file.file.path)}")

    def require_rows(self, n_rows: int) -> None:
        """Raise DataError if there are no rows."""
        if not n_rows:
            raise DataError("there are no rows", where=mask(self.source.label), fix="check that this is the right file")

    def read(self, chunk: SourceChunk) -> ReadRows | None:
        """Return the rows of a chunk; None if its text can only be read with the rows before it.

        Raise DataError or SchemaError as for iteration.
        """
        wanted = ColumnFilter(self.source, self.names)
        table, facts = read_chunk(chunk, self.source, wanted)
        if facts.failed:
            return None
        if facts.n_rows:
            wanted.pick(facts.seen)
            table = wanted.select(self.partitions.add_columns(table, chunk.file, wanted), mask(chunk.file.path))
        return ReadRows(table, facts.notes)

    def _tables(self, file: SplittableFile) -> Iterator[pa.Table]:
        n_read = 0
        for chunk in split_file(file):
            read = self.read(chunk)
            if read is None:  # continue with the whole file
                read = self.read(SourceChunk(file.file))
                assert read is not None
                self.notes.include(read.notes)
                if read.table.num_rows > n_read:
                    yield read.table.slice(n_read)
                return
            self.notes.include(read.notes)
            n_read += read.table.num_rows
            rows = [read.table]
            del read  # so that only the caller holds the rows
            if rows[0].num_rows:
                yield rows.pop()


def split_file(file: SplittableFile) -> list[SourceChunk]:
    """Return the chunks of a file; text is split at row ends, which are searched for."""
    if not file.is_text:
        return file.chunks(CHUNK_BYTES)
    spans = file.split_text(CHUNK_BYTES)
    if len(spans) < 2:
        return [SourceChunk(file.file)]
    found = align_to_rows(spans, [scan_rows(file.file.path, span, file.quote, file.delimiter) for span in spans])
    if found is None or len(found.spans) < 2:
        return [SourceChunk(file.file)]
    return [SourceChunk(file.file, span=span, lines_are_rows=found.lines_are_rows) for span in found.spans]


def read_ahead(chunks: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the chunks; another thread reads the next one while the caller counts one."""
    source = iter(chunks)
    with ThreadPoolExecutor(1, thread_name_prefix="gpupipe-chunks") as reader:
        following = reader.submit(next, source, None)
        while (held := [following.result()])[0] is not None:
            following = reader.submit(next, source, None)
            yield held.pop()


def slices(table: pa.Table, most_rows: int = SLICE_CELLS) -> Iterator[pa.Table]:
    """Yield slices of a table in memory with at most `most_rows` rows, so that temporary arrays stay small."""
    n_rows = min(most_rows, max(1, SLICE_CELLS // max(1, table.num_columns)))
    for start in range(0, table.num_rows, n_rows):
        yield table.slice(start, n_rows)
