"""Encoding of a source's chunks to a partitioned table, with one schema for all chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.io.chunks.compact_tables import widen_codes
from gpupipe.partitions.source_chunks import ArrowChunks
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.encode_chunks import Summaries, add_to_summaries, rows_counted_after, start_summaries
from gpupipe.table.schema import DeclaredColumn, Schema

SUMMARIES_AT_ONCE = 8  # number of chunks whose summaries are fetched together

Declarations = Mapping[str, DeclaredColumn]


def encode_chunks(found: ArrowChunks, workers: Workers, declared: Declarations) -> PartitionedTable:
    """Have the workers encode the rows of a source; the chunks are freed.

    Columns without a declaration are inferred. The result has one partition per chunk, with the rows and the schema of
    `gpupipe.table.encode.encode` on all rows. Raise SchemaError as `gpupipe.table.encode_chunks.encode_chunks`.
    """
    heights = tuple(chunk.n_rows for chunk in found.chunks)
    starts, n_rows = list(accumulate(heights, initial=0)), sum(heights)
    summaries = start_summaries(found.schema.empty_table(), declared, n_rows)
    given = [(chunk.rows, declared, n_rows, start) for chunk, start in zip(found.chunks, starts, strict=False)]
    _merge(summaries, workers.map(_summarize, given, ["inferring the columns"] * len(given)), workers)
    schema = Schema(tuple(summary.column(n_rows) for summary in summaries.values()))
    del given
    sent = workers.put(schema)
    each = ((found.chunks.pop(0).rows, sent, start) for start in starts[:-1])
    tables = workers.map(_encode, each, ["encoding"] * len(heights))
    workers.wait(tables)  # raise for values that contradict a declaration here, not at the first use of the table
    return PartitionedTable(tuple(tables), workers, heights, schema)


def _merge(summaries: Summaries, found: Sequence[ResultHandle[Summaries]], workers: Workers) -> None:
    """Merge the summaries of chunks, a few at a time: they may have as many levels as rows."""
    waiting = list(found)
    while waiting:
        texts = {name for name, summary in summaries.items() if summary.kind == "text"}
        some = waiting[:SUMMARIES_AT_ONCE]
        fetched = workers.gather(
            workers.map(_without_levels, [(handle, texts) for handle in some], ["levels of columns"] * len(some))
        )
        del waiting[:SUMMARIES_AT_ONCE], some
        for name, other in chain.from_iterable(each.items() for each in fetched):
            summaries[name].merge(other)


def _summarize(backend: Backend, rows: pa.Table, declared: Declarations, n_rows: int, first_row: int) -> Summaries:
    """Return the summaries of the columns of some of `n_rows` rows."""
    rows = widen_codes(rows)
    summaries = start_summaries(rows, declared, n_rows)
    with rows_counted_after(first_row):
        add_to_summaries(summaries, rows, backend)
    return summaries


def _without_levels(backend: Backend, summaries: Summaries, texts: set[str]) -> Summaries:
    """Return summaries without the levels of columns that have turned out to be text."""
    return {name: summary.as_text() if name in texts else summary for name, summary in summaries.items()}


def _encode(backend: Backend, rows: pa.Table, schema: Schema, first_row: int) -> Table:
    pa.default_memory_pool().release_unused()  # return memory that Arrow caches: the blocks need it
    with rows_counted_after(first_row):
        return encode(widen_codes(rows), backend, frozen=schema)
