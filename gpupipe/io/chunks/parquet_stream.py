"""Streaming of Parquet files in chunks of row groups, for sources that do not fit in memory.

The types of all chunks are known from the file footers, so each chunk is read when it is needed. A source whose types
depend on values, or with a hook or join that needs all rows, is read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.io.arrow_types import is_text
from gpupipe.io.chunks.chunk import SourceChunk
from gpupipe.io.chunks.chunk_reader import finish_chunk, read_chunk
from gpupipe.io.chunks.column_agreement import describe_file
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.concatenation import common_schema
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.parquet_footers import RowGroups, read_groups_of
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.input_files import data_files, input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.notes import Notes
from gpupipe.io.settings import JoinedTable, TableSource
from gpupipe.table.exact_values import is_number
from gpupipe.units import GIB, MIB

CHUNK_BYTES = 256 * MIB  # maximum size of a chunk in Arrow memory


@dataclass
class ParquetStream:
    """A Parquet source that is read in chunks of row groups.

    - `n_rows`: number of rows before any filter
    - `decoded_bytes`, `chunk_bytes`: approximate size in Arrow memory of all rows and of the largest chunk
    - `notes`: repairs and drops, complete after all chunks have been read
    """

    source: TableSource
    files: list[SourceFile]
    chunks: list[SourceChunk]
    n_rows: int
    decoded_bytes: int
    chunk_bytes: int
    notes: Notes = field(default_factory=Notes)

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.chunks)

    @property
    def note(self) -> str:
        """Note that the source is read in chunks, with the reason."""
        return f"read in {self.n_chunks} chunks: {self.decoded_bytes / GIB:.2f} GiB do not fit in memory at once"

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of each non-empty chunk, in the form of `gpupipe.io.source_reader.read_arrow`.

        Raise DataError if a file is corrupt, or there are no rows; SchemaError if a column is missing or unusable.
        """
        wanted = ColumnFilter(self.source)
        n_rows = 0
        schema = None
        self.notes, partitions = Notes(), HivePartitions.of(self.files, self.source)
        for path in {file.path: None for file in self.files}.keys() - {chunk.file.path for chunk in self.chunks}:
            self.notes.add(f"no rows in {mask(path)}")
        for chunk in self.chunks:
            table, facts = read_chunk(chunk, self.source, wanted)
            self.notes.include(facts.notes)
            if facts.n_rows:
                wanted.pick(facts.seen)
                if schema is None:  # all chunks have the same schema: see `_are_steady`
                    columns = partitions.describe(describe_file([facts]), chunk.file, wanted)
                    schema = common_schema([columns], [chunk.file], self.notes)
                table = finish_chunk(table, chunk, self.source, wanted, partitions, schema)
            if table.num_rows:
                n_rows += table.num_rows
                yield table
        if not n_rows and self.source.where:
            raise DataError("no row passes the filter", where=f"where: {self.source.where}", fix="loosen the filter")


def open_parquet_stream(
    source: TableSource,
    tables: Mapping[str, JoinedTable],
    available: int,
    on_device: bool = False,
    files: Sequence[SourceFile] | None = None,
) -> ParquetStream | None:
    """Return a stream of the source's chunks; None if the source fits in memory or must be read as a whole.

    A join to one of the `tables` needs all rows. All rows in Arrow memory and the encoded table may use half of the
    `available` bytes; `on_device`, where text is stored as strings, all rows may use a third. `files` are the files of
    the source, if already listed. Raise DataError or SchemaError as when reading the source.
    """
    if not source.has_files or source.prepare or any(table.is_joined for table in tables.values()):
        return None
    files = data_files(input_files(source) if files is None else files)
    try_files(source, files)
    if any(file.format != "parquet" for file in files):
        return None
    found = [read_groups_of(file, source, on_device) for file in files]
    decoded, encoded = (sum(sum(groups.decoded) for groups in found), sum(groups.encoded for groups in found))
    need, room = (decoded, available // 3) if on_device else (decoded + encoded, available // 2)
    if need <= room or not _are_steady(files, found):
        return None
    most = room // 4 if on_device else min(CHUNK_BYTES, room // 4)
    chunks, sizes = list[SourceChunk](), list[int]()
    for file, groups in zip(files, found, strict=True):
        runs = _cut(groups.decoded, most)
        chunks += [SourceChunk(file, run) for run in runs]
        sizes += [sum(groups.decoded[i] for i in run) for run in runs]
    stream = ParquetStream(source, files, chunks, sum(groups.n_rows for groups in found), decoded, max(sizes))
    return stream if stream.n_chunks > 1 else None


def _are_steady(files: Sequence[SourceFile], found: Sequence[RowGroups]) -> bool:
    """Return True if every chunk has the columns and types that reading all rows at once would give."""
    first = next((groups for groups in found if groups.n_rows), None)
    if first is None:
        return False
    alike = all(
        groups.schema.equals(first.schema) and set(file.partitions) == set(files[0].partitions)
        for file, groups in zip(files, found, strict=True)
        if groups.n_rows
    )
    return alike and all(is_steady(kind) for kind in first.schema.types)


def is_steady(kind: pa.DataType) -> bool:
    """Return True if the plain type of a column depends on this type only; for binary it does not."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return (
        is_text(kind)
        or pa.types.is_temporal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
        or is_number(kind)
    )


def _cut(sizes: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Return the non-empty row groups in chunks of at most `most` bytes, or of one larger row group."""
    chunks: list[list[int]] = []
    room = 0
    for group, size in enumerate(sizes):
        if not size:
            continue
        if size > room:
            chunks.append([])
            room = most
        chunks[-1].append(group)
        room -= size
    return [tuple(chunk) for chunk in chunks]
