"""Scan of a source: read its chunks with the columns and types that reading it at once would give.

The function that reads chunks is a parameter, so they can be read here or on workers. It returns rows, or handles of
rows, with the facts about them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Generic, TypeVar

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.io.chunks.chunk import ChunkColumns, ChunkFacts, SourceChunk
from gpupipe.io.chunks.column_agreement import (
    NoAgreement,
    agree_on_columns,
    describe_file,
    must_reread,
)
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.concatenation import clashes, common_schema, mixed_note
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.notes import Notes
from gpupipe.io.settings import TableSource, declared_texts

Rows = TypeVar("Rows")
ReadTask = tuple[SourceChunk, ChunkColumns | None]
ReadChunks = Callable[[Sequence[ReadTask]], Iterable[tuple[Rows, ChunkFacts]]]


class NoRowsError(DataError):
    """Raised if the files have no rows."""


@dataclass
class ScannedChunk(Generic[Rows]):
    """A chunk with its plain rows, or a handle of them, and the facts about it."""

    chunk: SourceChunk
    rows: Rows
    facts: ChunkFacts


@dataclass(frozen=True)
class SourceScan(Generic[Rows]):
    """A source read in chunks.

    - `chunks`: the chunks with rows, in order
    - `partitions`: partition columns of all files
    - `schema`: common schema of all files
    """

    chunks: list[ScannedChunk[Rows]]
    partitions: HivePartitions
    schema: pa.Schema


def scan_source(
    source: TableSource,
    files: Sequence[tuple[SourceFile, Sequence[SourceChunk]]],
    wanted: ColumnFilter,
    read: ReadChunks[Rows],
    notes: Notes,
) -> SourceScan[Rows]:
    """Read the chunks of a source and return them with their common schema.

    - `files`: the files of the source with their chunks, in order
    - `wanted`: column selection; collects the names of all columns of the files
    - `read`: reads chunks, each with the columns of its file or, for None, with types inferred from its values; see
      `gpupipe.io.chunks.chunk_reader.read_chunk`
    - `notes`: collects repairs and drops

    Raise DataError if a file is unreadable or corrupt, or there are no rows; SchemaError if a column requested by name
    is unusable, or its types in two files cannot be combined.
    """
    scan = _Scan(source, read)
    found = scan.read_files(files)
    for file in found:
        for chunk in file.chunks:
            wanted.pick(chunk.facts.seen)
            if not chunk.facts.n_rows:
                notes.include(chunk.facts.notes)
        file.chunks = [chunk for chunk in file.chunks if chunk.facts.n_rows]
        if not file.chunks:
            notes.add(f"no rows in {mask(file.file.path)}")
    found = [file for file in found if file.chunks]
    if not found:
        raise NoRowsError("there are no rows", where=mask(source.label), fix="check that this is the right file")
    scan.agree(found)
    mixed = clashes([describe_file(file.facts) for file in found])
    if mixed and all(file.file.format == "csv" for file in found):
        notes.warn(mixed_note(mixed))
        scan.agree(found, mixed)
    chunks = list(chain.from_iterable(file.chunks for file in found))
    for chunk in chunks:
        notes.include(chunk.facts.notes)
    partitions = HivePartitions.of([file for file, _ in files], source)
    described = [partitions.describe(describe_file(file.facts), file.file, wanted) for file in found]
    return SourceScan(chunks, partitions, common_schema(described, [file.file for file in found], notes))


@dataclass
class _ScannedFile(Generic[Rows]):
    """A file, its chunks and their common types."""

    file: SourceFile
    chunks: list[ScannedChunk[Rows]]
    columns: ChunkColumns = field(default_factory=ChunkColumns)

    @property
    def facts(self) -> list[ChunkFacts]:
        return [chunk.facts for chunk in self.chunks]


class _Scan(Generic[Rows]):
    """Reader that repeats chunks until all chunks of a file have the same types."""

    def __init__(self, source: TableSource, read: ReadChunks[Rows]) -> None:
        self.read, self.texts = read, declared_texts(source)

    def read_files(self, files: Sequence[tuple[SourceFile, Sequence[SourceChunk]]]) -> list[_ScannedFile[Rows]]:
        """Read all chunks with inferred types; a file with a failed chunk is read as a whole."""
        read = iter(self.read([(chunk, None) for chunk in chain.from_iterable(chunks for _, chunks in files)]))
        found = [_ScannedFile(file, [ScannedChunk(chunk, *next(read)) for chunk in chunks]) for file, chunks in files]
        self._read_whole([file for file in found if any(facts.failed for facts in file.facts)])
        return found

    def agree(self, files: Sequence[_ScannedFile[Rows]], as_text: Sequence[str] = ()) -> None:
        """Read chunks again until all chunks of a file have the same types."""
        while files:
            wrong: list[tuple[_ScannedFile[Rows], ScannedChunk[Rows]]] = []
            for file in files:
                try:
                    file.columns = agree_on_columns(file.facts, file.file.format, self.texts, as_text)
                except NoAgreement:
                    self._read_whole([file])
                    file.columns = agree_on_columns(file.facts, file.file.format, self.texts, as_text)
                wrong += [(file, each) for each in file.chunks if must_reread(each.facts, file.columns)]
            found = self.read([(each.chunk, file.columns) for file, each in wrong])
            for (_, each), (rows, facts) in zip(wrong, found, strict=True):
                known = each.facts.refused
                refused = {name: known.get(name, frozenset()) | kinds for name, kinds in facts.refused.items()}
                if not refused:  # otherwise keep the previous rows
                    each.rows, each.facts = rows, facts
                each.facts = replace(each.facts, refused={**known, **refused})
            files = list({id(file): file for file, _ in wrong}.values())
            self._read_whole([file for file in files if any(facts.failed for facts in file.facts)])

    def _read_whole(self, files: Sequence[_ScannedFile[Rows]]) -> None:
        read = self.read([(SourceChunk(file.file), None) for file in files])
        for file, (rows, facts) in zip(files, read, strict=True):
            file.chunks = [ScannedChunk(SourceChunk(file.file), rows, facts)]
