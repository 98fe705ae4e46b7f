"""Chunks of a source, read by workers: the scan of `gpupipe.io.chunks.scan`, run on a cluster or out of core."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.errors import DataError
from gpupipe.io.chunks.chunk import ChunkColumns, ChunkFacts, SourceChunk
from gpupipe.io.chunks.chunk_reader import finish_chunk, read_chunk
from gpupipe.io.chunks.compact_tables import narrow_codes, widen_codes
from gpupipe.io.chunks.row_boundaries import RowScan, align_to_rows, scan_rows
from gpupipe.io.chunks.scan import ReadTask, SourceScan, scan_source
from gpupipe.io.chunks.splittable_files import SplittableFile, find_splittable_files
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.dask_table import DaskTable, partition_to_arrow
from gpupipe.io.file_streams import ByteRange
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.in_memory import FORMAT as MEMORY
from gpupipe.io.in_memory import InMemoryTable
from gpupipe.io.notes import Notes
from gpupipe.io.settings import TableSource
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.units import MIB

CHUNK_BYTES = 64 * MIB  # of a file of text, or as Arrow holds it

ReadChunk = tuple[pa.Table, ChunkFacts]  # the codes of the rows are narrowed


@dataclass(frozen=True)
class ArrowChunk:
    """Chunk of a source: the handle of its rows, with narrowed codes, and their number."""

    rows: ResultHandle[pa.Table]
    n_rows: int


@dataclass(frozen=True)
class ArrowChunks:
    """Rows of a source in chunks.

    There is at least one chunk; chunks without rows are dropped. `schema` is that of every chunk. `notes` are repairs
    and drops. `whole` are files larger than a chunk that could not be split.
    """

    chunks: list[ArrowChunk]
    schema: pa.Schema
    notes: Notes
    whole: list[str]


def read_chunks(
    source: TableSource, workers: Workers, n_chunks: int, files: Sequence[SourceFile] | None = None
) -> ArrowChunks:
    """Have the workers read a source.

    `source` has no ``prepare`` hook, which needs all rows at once. There are `n_chunks` chunks if files can be split;
    more if chunks would be large. `files` are those of the source, if they were listed already. Raise DataError if a
    file is absent, unreadable or damaged, or there are no rows, and SchemaError if a column is absent, unusable, or
    differs between files.
    """
    if isinstance(source.frame, DaskTable):
        return _read_collection(source, source.frame, workers)
    found = find_splittable_files(source, files=files)
    most = _most(sum(file.n_bytes for file in found), n_chunks)
    wanted, notes = ColumnFilter(source), Notes()

    def read(tasks: Sequence[ReadTask]) -> Iterable[tuple[ResultHandle[ReadChunk], ChunkFacts]]:
        labels = [f"reading chunk {i + 1} of {len(tasks)}" for i in range(len(tasks))]
        handles = workers.map(_read, [(chunk, source, wanted, kinds) for chunk, kinds in tasks], labels)
        return _with_facts(handles, workers)

    scan = scan_source(source, _split(found, most, workers), wanted, read, notes)
    large = {cut.file.path for cut in found if cut.n_bytes > 2 * most}
    whole = [each.chunk.file.path for each in scan.chunks if each.chunk.is_whole and each.chunk.file.path in large]
    schema = wanted.select(scan.schema.empty_table(), mask(source.label)).schema
    return ArrowChunks(_finish(scan, source, wanted, workers), schema, notes, whole)


def _read_collection(source: TableSource, frame: DaskTable, workers: Workers) -> ArrowChunks:
    """Have the workers convert the partitions of a Dask DataFrame, each where it is.

    Each partition is read like a file: pandas determines the dtype of a column from the values of one partition, as
    other writers do from those of one file.
    """
    names, n = frame.column_names, frame.collection.npartitions
    described = InMemoryTable(frame.label)  # the collection stays here: its graph may be large
    source = source.model_copy(update={"frame": described})
    wanted, notes = ColumnFilter(source), Notes()
    files = [SourceFile(f"{frame.label}, partition {i + 1}", 0, 0, MEMORY) for i in range(n)]
    chunks = [(file, [SourceChunk(file)]) for file in files]

    def read(tasks: Sequence[ReadTask]) -> Iterable[tuple[ResultHandle[ReadChunk], ChunkFacts]]:
        if not tasks:  # to read again: only for formats of text
            return []
        frames = workers.partitions(frame.collection)
        given = [(part, names, chunk, source, wanted) for part, (chunk, _) in zip(frames, tasks, strict=True)]
        del frames
        handles = workers.map(_read_partition, given, [f"reading partition {i + 1} of {n}" for i in range(n)])
        del given  # a partition that is not persisted is released once it is read
        return _with_facts(handles, workers)

    scan = scan_source(source, chunks, wanted, read, notes)
    schema = wanted.select(scan.schema.empty_table(), frame.label).schema
    return ArrowChunks(_finish(scan, source, wanted, workers), schema, notes, [])


def _with_facts(
    handles: Sequence[ResultHandle[ReadChunk]], workers: Workers
) -> Iterable[tuple[ResultHandle[ReadChunk], ChunkFacts]]:
    """Return chunks with the facts about them, which are gathered."""
    asked = workers.map(lambda _, read: read[1], [(handle,) for handle in handles], ["what was read"] * len(handles))
    return zip(handles, workers.gather(asked), strict=True)


def _split(
    found: Sequence[SplittableFile], most: int, workers: Workers
) -> list[tuple[SourceFile, Sequence[SourceChunk]]]:
    """Return the chunks of each file; large text files are split at row ends, which the workers find."""
    spans = {i: spans for i, cut in enumerate(found) if cut.is_text and len(spans := cut.split_text(most)) > 1}
    scans = {
        i: workers.map(_scan, [(found[i], span) for span in own], ["finding rows"] * len(own))
        for i, own in spans.items()
    }
    chunks = [cut.chunks(most) for cut in found]
    for i, handles in scans.items():
        ends = align_to_rows(spans[i], workers.gather(handles))
        if ends is not None and len(ends.spans) > 1:
            chunks[i] = [
                SourceChunk(found[i].file, span=span, lines_are_rows=ends.lines_are_rows) for span in ends.spans
            ]
    return [(cut.file, own) for cut, own in zip(found, chunks, strict=True)]


def _finish(
    scan: SourceScan[ResultHandle[ReadChunk]], source: TableSource, wanted: ColumnFilter, workers: Workers
) -> list[ArrowChunk]:
    """Return the rows that pass the filter, with the columns of the source; the chunks of the scan are freed."""
    heights = [each.facts.n_rows for each in scan.chunks]

    def calls() -> Iterable[Sequence[Any]]:
        while scan.chunks:
            each = scan.chunks.pop(0)
            yield each.rows, each.chunk, source, wanted, scan.partitions, scan.schema

    rows = workers.map(_finished, calls(), ["the columns of the source"] * len(heights))
    if source.where:
        heights = workers.gather(
            workers.map(lambda _, table: table.num_rows, [(h,) for h in rows], ["rows left"] * len(rows))
        )
    if not any(heights):
        raise DataError("no row passes the filter", where=f"where: {source.where}", fix="loosen it")
    return [ArrowChunk(handle, n_rows) for handle, n_rows in zip(rows, heights, strict=True) if n_rows]


def _most(n_bytes: int, n_chunks: int) -> int:
    """Return the bytes of a chunk that give `n_chunks`, or a multiple of it, so that all workers finish together."""
    n_each = max(1, -(-n_bytes // (n_chunks * CHUNK_BYTES)))
    return max(1, -(-n_bytes // (n_chunks * n_each)))


def _scan(backend: Backend, cut: SplittableFile, span: ByteRange) -> RowScan:
    return scan_rows(cut.file.path, span, cut.quote, cut.delimiter)


def _read(
    backend: Backend, chunk: SourceChunk, source: TableSource, wanted: ColumnFilter, kinds: ChunkColumns | None
) -> ReadChunk:
    table, facts = read_chunk(chunk, source, wanted, kinds)
    return narrow_codes(table), facts


def _read_partition(
    backend: Backend, frame: Any, names: Sequence[str], chunk: SourceChunk, source: TableSource, wanted: ColumnFilter
) -> ReadChunk:
    table = partition_to_arrow(frame, names, chunk.file.path)
    return _read(backend, chunk, source.model_copy(update={"frame": table}), wanted, None)


def _finished(
    backend: Backend,
    read: ReadChunk,
    chunk: SourceChunk,
    source: TableSource,
    wanted: ColumnFilter,
    partitions: HivePartitions,
    schema: pa.Schema,
) -> pa.Table:
    return narrow_codes(finish_chunk(widen_codes(read[0]), chunk, source, wanted, partitions, schema))
