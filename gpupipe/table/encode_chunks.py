"""Encode a table that arrives in chunks, with the result of `gpupipe.table.encode` for the whole.

The chunks are read twice: first to infer the schema, then to write each to its own rows of the blocks. Memory holds one
chunk, the distinct texts of the categorical columns, and the encoded table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError
from gpupipe.table.arrange import move_table
from gpupipe.table.blocks import Table, allocate
from gpupipe.table.column_summary import ColumnSummary
from gpupipe.table.encode import enforce, infer, plain_values, require, require_distinct
from gpupipe.table.schema import DeclaredColumn, Schema

ReadChunks = Callable[[], Iterable[pa.Table]]


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
        As `encode`, with the same message.
    """
    return move_table(_ChunkEncoder(chunks, backend, declared or {}).encoded(most_rows), backend)


class _ChunkEncoder:
    """Encodes a table in two passes over its chunks."""

    def __init__(self, chunks: ReadChunks, backend: Backend, declared: Mapping[str, DeclaredColumn]) -> None:
        self.chunks, self.backend, self.declared = chunks, backend, declared

    def encoded(self, most_rows: int) -> Table:
        schema, n_rows = self._look(most_rows)
        pa.default_memory_pool().release_unused()  # Arrow keeps what it has freed: the blocks need that memory
        blocks, places = allocate(schema, n_rows, np)
        texts: dict[str, list[pa.ChunkedArray]] = {column.name: [] for column in schema if not column.storage}
        start = 0
        for chunk in self.chunks():
            stop = start + chunk.num_rows
            rows = {name: blocks[block][row][start:stop] for name, (block, row) in places.items()}
            self._each(partial(_write, schema, chunk, rows), list(rows))
            for name, found in texts.items():
                found.append(enforce(schema[name], plain_values(chunk, name)).text)
            start = stop
        return Table(schema, n_rows, blocks, places, {name: _joined(found) for name, found in texts.items()})

    def _look(self, most_rows: int) -> tuple[Schema, int]:
        """Return what the columns are, and how many rows there are."""
        seen: dict[str, ColumnSummary] = {}
        n_rows = 0
        for chunk in self.chunks():
            seen = seen or start_summaries(chunk, self.declared, most_rows)
            self._each(partial(_look_at, seen, chunk), chunk.column_names)
            n_rows += chunk.num_rows
        return Schema(tuple(self.backend.map(lambda column: column.column(n_rows), seen.values()))), n_rows

    def _each(self, work: Callable[[str], None], names: list[str]) -> None:
        self.backend.map(lambda name: self._told_of_all_rows(work, name), names)

    def _told_of_all_rows(self, work: Callable[[str], None], name: str) -> None:
        """Do the work on a column; where it fails, let the column as a whole fail: a chunk does not know its place."""
        try:
            work(name)
        except SchemaError:
            encode_column(
                name, pa.concat_tables(chunk.select([name]) for chunk in self.chunks()), self.declared.get(name)
            )
            raise


def start_summaries(
    chunk: pa.Table, declared: Mapping[str, DeclaredColumn], most_rows: int
) -> dict[str, ColumnSummary]:
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


def encode_column(name: str, rows: pa.Table, declared: DeclaredColumn | None) -> None:
    """Encode a column of a table for nothing but the SchemaError that this may raise."""
    plan = infer(name, plain_values(rows, name), declared)
    if plan.write is not None:
        plan.write(np.empty(rows.num_rows, plan.column.storage))


def _look_at(seen: Mapping[str, ColumnSummary], chunk: pa.Table, name: str) -> None:
    seen[name].add(plain_values(chunk, name))


def _write(schema: Schema, chunk: pa.Table, rows: Mapping[str, Any], name: str) -> None:
    plan = enforce(schema[name], plain_values(chunk, name))
    if plan.write is not None:
        plan.write(rows[name])


def _joined(found: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for values in found for chunk in values.chunks], found[0].type)
