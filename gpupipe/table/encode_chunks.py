"""Encoding of tables read in chunks, with the same result as `gpupipe.table.encode` on the whole table.

The chunks are read twice: first to summarise the columns, then to encode each chunk into its rows of the blocks. Memory
holds one chunk, the distinct texts of the categorical columns, and the encoded table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.table.arrange import move_table
from gpupipe.table.blocks import Table, allocate, concatenate_texts
from gpupipe.table.column_summary import ColumnSummary
from gpupipe.table.encode import EncodePlan, declared_kind, enforce, plain_values, require, require_distinct
from gpupipe.table.row_numbers import CellsError
from gpupipe.table.schema import Column, DeclaredColumn, Schema, stated
from gpupipe.typing import ArrayNamespace

ReadChunks = Callable[[], Iterable[Any]]
Summaries = dict[str, ColumnSummary]


class TableChunks:
    """Access to chunks that are Arrow tables; `gpupipe.table.device.encode.FrameChunks` accesses frames.

    `xp` is the array module of the encoded rows.
    """

    xp: ArrayNamespace = np

    def names(self, chunk: Any) -> list[str]:
        """Return the names of the columns."""
        return list(chunk.column_names)

    def n_rows(self, chunk: Any) -> int:
        """Return the number of rows."""
        return int(chunk.num_rows)

    def summarize(self, chunk: Any, name: str, kind: str | None) -> pa.ChunkedArray:
        """Return a column, or a short one with the same schema; `kind` is its kind, if known."""
        return plain_values(chunk, name, kind)

    def plan(self, chunk: Any, column: Column) -> EncodePlan:
        """Return the encoder of a column's rows."""
        return enforce(column, plain_values(chunk, column.source, column.kind))

    def concatenate(self, texts: list[Any]) -> Any:
        """Return the rows of a text column from all chunks."""
        return concatenate_texts(texts)


def encode_chunks(
    chunks: ReadChunks,
    backend: Backend,
    most_rows: int,
    declared: Mapping[str, DeclaredColumn] | None = None,
    access: TableChunks | None = None,
) -> Table:
    """Encode a table read in chunks.

    `chunks` returns the same chunks in the same order at each call: at least one, each with rows, and all with the same
    columns and types. `most_rows` is an upper limit of the number of rows of all chunks together. Columns that are not
    `declared` are inferred. `access` is that to the columns of a chunk; for Arrow tables by default.

    The result is the table that `encode`, or `gpupipe.table.device.encode.encode_frame`, returns for the rows of all
    chunks. Raise SchemaError as `encode`; rows are counted over all chunks.
    """
    access = access or TableChunks()
    declared = declared or {}
    n_rows = 0
    summaries: Summaries = {}

    def summarize(name: str) -> ColumnSummary:
        known = summaries.get(name)
        values = access.summarize(chunk, name, known.kind if known else declared_kind(declared, name))
        summary = known or ColumnSummary(name, values.type, declared.get(name), most_rows)
        summary.add(values)
        return summary

    for chunk in chunks():
        names = access.names(chunk)
        if not summaries:
            require_distinct(names)
            require(names, stated(declared), "schema: declares")
        with rows_counted_after(n_rows):
            summaries = dict(zip(names, backend.map(summarize, names), strict=True))
        n_rows += access.n_rows(chunk)
    schema = Schema(tuple(backend.map(lambda column: column.column(n_rows), summaries.values())))
    pa.default_memory_pool().release_unused()  # Arrow's pool keeps freed memory, which the blocks need
    blocks, places = allocate(schema, n_rows, access.xp)
    texts: dict[str, list[Any]] = {column.name: [] for column in schema if not column.storage}

    def encode_rows(column: Column) -> None:
        plan = access.plan(chunk, column)
        if plan.write is None:
            texts[column.name].append(plan.text)
        else:
            block, row = places[column.name]
            plan.write(blocks[block][row][start : start + access.n_rows(chunk)])

    start = 0
    for chunk in chunks():
        with rows_counted_after(start):
            backend.map(encode_rows, schema)
        start += access.n_rows(chunk)
    found = {name: access.concatenate(parts) for name, parts in texts.items()}
    return move_table(Table(schema, n_rows, blocks, places, found), backend)


def start_summaries(chunk: pa.Table, declared: Mapping[str, DeclaredColumn], most_rows: int) -> Summaries:
    """Return an empty summary for each column of `chunk`; all chunks have the same columns.

    Raise SchemaError if two columns have the same name, or a declared column is absent.
    """
    require_distinct(chunk.column_names)
    require(chunk.column_names, stated(declared), "schema: declares")
    kinds = {name: plain_values(chunk, name, declared_kind(declared, name)).type for name in chunk.column_names}
    return {name: ColumnSummary(name, kind, declared.get(name), most_rows) for name, kind in kinds.items()}


def add_to_summaries(summaries: Summaries, chunk: pa.Table, backend: Backend) -> None:
    """Add the rows of a chunk to the column summaries; raise SchemaError if they do not match the declarations."""
    backend.map(lambda column: column.add(plain_values(chunk, column.name, column.kind)), summaries.values())


@contextmanager
def rows_counted_after(n_rows: int) -> Iterator[None]:
    """Number the rows of an error about cells from the start of the table, whose first `n_rows` come before these."""
    try:
        yield
    except CellsError as error:
        error.count_after(n_rows)
        raise
