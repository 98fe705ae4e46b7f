"""Encoding of a source's chunks to a partitioned table, with one schema for all chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError
from gpupipe.io.chunks.compact_tables import widen_codes
from gpupipe.partitions.source_chunks import ArrowChunk, ArrowChunks
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import Workers
from gpupipe.table.blocks import Table
from gpupipe.table.column_summary import ColumnSummary
from gpupipe.table.encode import encode, infer, plain_values
from gpupipe.table.encode_chunks import encode_column, start_summaries
from gpupipe.table.schema import DeclaredColumn, Schema

LOOKS_AT_ONCE = 8  # as many chunks' levels are fetched together

Declarations = Mapping[str, DeclaredColumn]
Seen = dict[str, ColumnSummary | None]  # None: the chunk is not what is declared


def encode_chunks(found: ArrowChunks, workers: Workers, declared: Declarations) -> PartitionedTable:
    """Have the workers encode the rows of a source; the chunks are freed.

    Parameters
    ----------
    found : ArrowChunks
    workers : Workers
    declared : mapping of str to DeclaredColumn
        What the configuration says of columns; the rest is inferred.

    Returns
    -------
    PartitionedTable
        A partition for each chunk; the very rows and schema that `gpupipe.table.encode.encode` gives all of them.

    Raises
    ------
    SchemaError
        As `encode`, with the same message.
    """
    n_rows = sum(chunk.n_rows for chunk in found.chunks)
    known = start_summaries(found.schema.empty_table(), declared, n_rows)
    try:
        _merge(known, found.chunks, workers, declared, n_rows)
        schema = Schema(tuple(seen.column(n_rows) for seen in known.values()))
    except SchemaError:
        _refuse(found.chunks, workers, declared)
        raise
    heights, sent = tuple(chunk.n_rows for chunk in found.chunks), workers.put(schema)
    each = ((found.chunks.pop(0).rows, sent) for _ in heights)
    tables = workers.map(_encode, each, ["encoding"] * len(heights))
    return PartitionedTable(tuple(tables), workers, heights, schema)


def _merge(
    known: dict[str, ColumnSummary], chunks: Sequence[ArrowChunk], workers: Workers, declared: Declarations, n_rows: int
) -> None:
    """Add what each chunk has of the columns, a few at a time: their levels may be as many as the rows.

    Raises
    ------
    SchemaError
        If a column is not what it is declared to be.
    """
    label = "finding out what the columns are"
    looks = workers.map(_look, [(chunk.rows, declared, n_rows) for chunk in chunks], [label] * len(chunks))
    while looks:
        texts = {name for name, seen in known.items() if seen.kind == "text"}
        some = looks[:LOOKS_AT_ONCE]
        found = workers.gather(workers.map(_brief, [(look, texts) for look in some], [label] * len(some)))
        del looks[:LOOKS_AT_ONCE], some
        for name, other in [(name, other) for look in found for name, other in look.items()]:
            if other is None:
                raise SchemaError(f"column {name!r} is not what it is declared to be")
            known[name].merge(other)


def _refuse(chunks: Sequence[ArrowChunk], workers: Workers, declared: Declarations) -> None:
    """Let the first column that is not what it is declared to be fail as a whole: a chunk does not know its place.

    Columns are fetched one after the other. As on one machine all of them are looked at before the first is written.
    """

    def whole(name: str) -> pa.Table:
        return pa.concat_tables(workers.gather([workers.submit(_column, chunk.rows, name) for chunk in chunks]))

    for name, said in declared.items():
        infer(name, plain_values(whole(name), name), said)
    for name, said in declared.items():
        encode_column(name, whole(name), said)


def _look(backend: Backend, rows: pa.Table, declared: Declarations, n_rows: int) -> Seen:
    """Return what is seen of each column in some of `n_rows` rows."""
    rows = widen_codes(rows)
    columns = start_summaries(rows, declared, n_rows)
    return dict(zip(columns, backend.map(partial(_seen, rows), columns.values()), strict=True))


def _seen(rows: pa.Table, column: ColumnSummary) -> ColumnSummary | None:
    try:
        column.add(plain_values(rows, column.name))
        if column.declared and column.kind in ("boolean", "datetime"):  # refused where it is written
            encode_column(column.name, rows, column.declared)
    except SchemaError:
        return None
    return column


def _brief(backend: Backend, look: Seen, texts: set[str]) -> Seen:
    """Return what was seen without the levels of columns that have turned out to be texts."""
    return {name: seen.as_text() if seen and name in texts else seen for name, seen in look.items()}


def _encode(backend: Backend, rows: pa.Table, schema: Schema) -> Table:
    pa.default_memory_pool().release_unused()  # Arrow keeps what it has freed: the blocks need that memory
    return encode(widen_codes(rows), backend, frozen=schema)


def _column(backend: Backend, rows: pa.Table, name: str) -> pa.Table:
    return widen_codes(rows.select([name]))
