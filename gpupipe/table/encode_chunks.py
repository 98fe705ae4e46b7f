"""Encode a table that arrives in chunks, with the result of `gpupipe.table.encode` for the whole.

The chunks are read twice: first to summarize the columns, then to write each to its own rows of the blocks. Memory
holds one chunk, the distinct texts of the categorical columns, and the encoded table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError
from gpupipe.table.arrange import move_table
from gpupipe.table.blocks import Table, allocate
from gpupipe.table.column_summary import ColumnSummary
from gpupipe.table.encode import plain_values, plan_columns, require, require_distinct, write_columns
from gpupipe.table.schema import DeclaredColumn, Schema

ReadChunks = Callable[[], Iterable[pa.Table]]
Summaries = dict[str, ColumnSummary]


def encode_chunks(
    chunks: ReadChunks, backend: Backend, most_rows: int, declared: Mapping[str, DeclaredColumn] | None = None
) -> Table:
    """Encode a table that arrives in chunks.

    Parameters
    ----------
    chunks : callable
        Returns the chunks, in order and the same ones at each call: one at least, with rows, all with the same columns
        of the same types.
    backend : Backend
    most_rows : int
        The chunks have no more rows than this.
    declared : mapping of str to DeclaredColumn, optional
        What the configuration says of columns; the rest is inferred.

    Returns
    -------
    Table
        The very table that `encode` returns for the rows of all chunks.

    Raises
    ------
    SchemaError
        As `encode`; rows are counted from the beginning of their chunk, whose place is named.
    """
    summaries: Summaries = {}
    n_rows = 0
    for chunk in chunks():
        summaries = summaries or start_summaries(chunk, declared or {}, most_rows)
        with rows_counted_after(n_rows):
            add_to_summaries(summaries, chunk, backend)
        n_rows += chunk.num_rows
    schema = Schema(tuple(backend.map(lambda column: column.column(n_rows), summaries.values())))
    pa.default_memory_pool().release_unused()  # Arrow keeps what it has freed: the blocks need that memory
    blocks, places = allocate(schema, n_rows, np)
    texts: dict[str, list[pa.ChunkedArray]] = {column.name: [] for column in schema if not column.storage}
    start = 0
    for chunk in chunks():
        stop = start + chunk.num_rows
        rows = {name: blocks[block][row][start:stop] for name, (block, row) in places.items()}
        with rows_counted_after(start):
            written = write_columns(plan_columns(chunk, schema, backend), rows, backend)
        for name, text in written.items():
            texts[name].append(text)
        start = stop
    return move_table(Table(schema, n_rows, blocks, places, {n: _joined(found) for n, found in texts.items()}), backend)


def start_summaries(chunk: pa.Table, declared: Mapping[str, DeclaredColumn], most_rows: int) -> Summaries:
    """Return an empty summary for each column of `chunk`; all chunks have the same columns.

    Raises
    ------
    SchemaError
        If two columns have one name, or a declared one is absent.
    """
    require_distinct(chunk.column_names)
    require(chunk.column_names, declared, "schema: declares")
    kinds = {name: plain_values(chunk, name).type for name in chunk.column_names}
    return {name: ColumnSummary(name, kind, declared.get(name), most_rows) for name, kind in kinds.items()}


def add_to_summaries(summaries: Summaries, chunk: pa.Table, backend: Backend) -> None:
    """Add the rows of a chunk to the summaries of its columns; raise SchemaError if they are not what is declared."""
    backend.map(lambda column: column.add(plain_values(chunk, column.name)), summaries.values())


@contextmanager
def rows_counted_after(n_rows: int) -> Iterator[None]:
    """Add to the place of a SchemaError that its rows are counted after the first `n_rows`."""
    try:
        yield
    except SchemaError as error:
        if n_rows:
            error.where = ", ".join(filter(None, [error.where, f"after the first {n_rows:,} rows"]))
        raise


def _joined(found: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for values in found for chunk in values.chunks], found[0].type)
