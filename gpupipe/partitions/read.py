"""Distributed reading of a configuration's source, with the rows and the schema of one machine.

The kind and the levels of a column depend on all rows: the driver merges a summary of each chunk into the schema, then
each worker encodes its own chunks. See `gpupipe.partitions.source_chunks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.config import Config
from gpupipe.errors import GpupipeError
from gpupipe.features.program.selection import select_dropped
from gpupipe.io.chunks.compact_tables import narrow_codes, widen_codes
from gpupipe.io.chunks.splittable_files import find_splittable_files
from gpupipe.io.dask_table import DaskTable
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.input_files import InputFiles
from gpupipe.io.join import declarations, join_chunk, read_joined, require_joinable
from gpupipe.io.settings import JoinedTable, Source, TableSource
from gpupipe.io.source_reader import LoadedTable, read_arrow
from gpupipe.names import count_noun
from gpupipe.partitions.encode import encode_chunks
from gpupipe.partitions.source_chunks import ArrowChunk, ArrowChunks, read_chunks
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.table.arrange import slice_rows
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.key_matches import KeyMatches
from gpupipe.table.schema import DeclaredColumn, Schema
from gpupipe.units import MIB

Declarations = Mapping[str, DeclaredColumn]
BROADCAST_BYTES = 64 * MIB  # maximum size of a table that is sent to every worker


@dataclass(frozen=True)
class LoadedPartitions:
    """Table of a run on the workers."""

    table: PartitionedTable
    notes: tuple[str, ...]  # repairs and drops, the same as on one machine
    partition_notes: tuple[str, ...]  # how the files were split


def read_partitions(
    config: Config, workers: Workers, n_partitions: int | None = None, files: InputFiles | None = None
) -> LoadedPartitions:
    """Read and encode the tables of a configuration on the workers.

    Columns that feature ops derive from keys and texts are not computed here: they need all rows. Raise DataError if a
    file cannot be read, or there are no rows; SchemaError if the data contradicts a declaration.

    - `n_partitions`: the approximate number; default: the threads of all workers. More if partitions would be large.
    - `files`: the files of all tables, if they were listed already

    Returns
    -------
    LoadedPartitions
        The rows, columns and codes of one machine, in order.
    """
    wanted = n_partitions or workers.n_threads
    declared = declarations(config.source, config.tables)
    files = InputFiles.find(config.source, config.tables) if files is None else files
    found, why = _read_source_chunks(config, workers, wanted, files)
    if found is None and isinstance(config.source.frame, DaskTable):
        raise config.source.frame.refusal(why)
    if found is None:
        table, lines = _read_whole(config, workers, declared, files)
        partition_notes = [f"read by one worker, then split into partitions: {why}"]
    else:
        lines = found.notes.lines()
        partition_notes = [f"{mask(path)} cannot be split: it was read by one worker" for path in found.whole]
        table = encode_chunks(found, workers, declared)
    table = repartition(table, wanted)
    kinds = {column.name: column.kind for column in table.schema}
    gone = select_dropped(config.source.drop, kinds, config.source.targets, config.source.checked, lines)
    table = table.select(table.schema.without(gone)) if gone else table
    return LoadedPartitions(table, tuple(lines), (*partition_notes, count_noun(len(table.partitions), "partition")))


def partition_table(table: Table, workers: Workers, n_partitions: int | None = None) -> PartitionedTable:
    """Return a table of the driver as partitions on the workers."""
    whole = PartitionedTable((workers.put(table),), workers, (table.n_rows,), table.schema, dict(table.places))
    return repartition(whole, n_partitions or workers.n_threads)


def repartition(table: PartitionedTable, n_partitions: int) -> PartitionedTable:
    """Return the same rows in at least `n_partitions` partitions of about equal size: larger ones are split."""
    most = max(1, -(-table.n_rows // n_partitions))
    parts: list[tuple[ResultHandle[Table], int]] = []
    for part, n_rows in zip(table.partitions, table.heights, strict=True):
        if n_rows < 2 * most:
            parts.append((part, n_rows))
            continue
        n = -(-n_rows // most)
        spans = list(pairwise(n_rows * i // n for i in range(n + 1)))
        labels = [f"rows {start:,} to {stop:,}" for start, stop in spans]
        given = [(part, *span) for span in spans]
        rows = table.workers.map(lambda _, table, start, stop: slice_rows(table, start, stop), given, labels)
        parts += zip(rows, (stop - start for start, stop in spans), strict=True)
    partitions, heights = zip(*parts, strict=True)
    return PartitionedTable(partitions, table.workers, heights, table.schema, table.places)


def _read_source_chunks(
    config: Config, workers: Workers, n_chunks: int, files: InputFiles
) -> tuple[ArrowChunks | None, str]:
    """Return the joined rows of the source in chunks; or None and the reason that one worker must read them."""
    if config.source.prepare:
        return None, "a prepare: hook needs all rows"
    if config.source.entities is not None:
        return None, "entities: rows and labels are computed from all events"
    joined = {name: table for name, table in config.tables.items() if table.is_joined}
    for name, table in joined.items():
        if table.cardinality != "many_to_one" or _n_bytes(table, files.tables[name]) > BROADCAST_BYTES:
            return None, f"the join with {name} needs all rows"
    found = read_chunks(config.source, workers, n_chunks, files=files.source)
    for name, table in joined.items():
        right = read_arrow(table, files=files.tables[name])
        require_joinable(found.schema, name, table, right.table)
        found = _joined(found, name, table, right, workers)
    return found, ""


def _n_bytes(table: TableSource, files: Sequence[SourceFile]) -> int:
    """Return the approximate size of a table in bytes; 0 if unknown, in which case reading raises the error."""
    try:
        return sum(cut.n_bytes for cut in find_splittable_files(table, files=files))
    except GpupipeError:
        return 0


def _joined(found: ArrowChunks, name: str, settings: JoinedTable, right: LoadedTable, workers: Workers) -> ArrowChunks:
    """Join each chunk with a table that is sent to all workers."""
    sent, label = workers.put(right.table), f"joining {name}"
    labels = [label] * len(found.chunks)
    joined = workers.map(_join, [(chunk.rows, sent, name, settings) for chunk in found.chunks], labels)
    pairs = [(pair,) for pair in joined]
    matches = reduce(add, workers.gather(workers.map(lambda _, pair: pair[1], pairs, labels)))
    tables = workers.map(lambda _, pair: pair[0], pairs, labels)
    chunks = [ArrowChunk(table, chunk.n_rows) for table, chunk in zip(tables, found.chunks, strict=True)]
    schema = join_chunk(found.schema.empty_table(), name, settings, right.table)[0].schema
    found.notes.include(right.notes)
    found.notes.add(matches.note(f"table {name!r}"))
    return ArrowChunks(chunks, schema, found.notes, found.whole)


def _read_whole(
    config: Config, workers: Workers, declared: Declarations, files: InputFiles
) -> tuple[PartitionedTable, Sequence[str]]:
    read = workers.submit(_read_joined, config.source, config.tables, declared, files, label="reading the source")
    table = workers.submit(lambda _, read: read[0], read, label="the source")
    notes = workers.gather([workers.submit(lambda _, read: read[1], read)])[0]
    ((schema, places, n_rows),) = workers.gather([workers.submit(_facts, table)])
    return PartitionedTable((table,), workers, (n_rows,), schema, places), notes


def _read_joined(
    backend: Backend, source: Source, tables: Mapping[str, JoinedTable], declared: Declarations, files: InputFiles
) -> tuple[Table, list[str]]:
    loaded = read_joined(source, tables, files=files)
    return encode(loaded.table, backend, declared), loaded.notes.lines()


def _facts(backend: Backend, table: Table) -> tuple[Schema, dict[str, tuple[str, int]], int]:
    return table.schema, dict(table.places), table.n_rows


def _join(
    backend: Backend, rows: pa.Table, right: pa.Table, name: str, settings: JoinedTable
) -> tuple[pa.Table, KeyMatches]:
    table, matches = join_chunk(widen_codes(rows), name, settings, right)
    return narrow_codes(table), matches
