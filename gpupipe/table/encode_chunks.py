"""A table that comes in parts to the encoded table that `gpupipe.table.encode` makes of the whole.

The parts come twice: first to find out what the columns are, then each is written to its own rows of the blocks. What
is held at any time is one part, the distinct texts of the columns of categories, and the encoded table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError
from gpupipe.table.arrange import on_device
from gpupipe.table.blocks import Table, allocate
from gpupipe.table.column_summary import ColumnSummary
from gpupipe.table.encode import enforce, infer, plain_values, require, require_distinct
from gpupipe.table.schema import DeclaredColumn, Schema

Parts = Callable[[], Iterable[pa.Table]]


def encode_parts(
    parts: Parts, backend: Backend, most_rows: int, declared: Mapping[str, DeclaredColumn] | None = None
) -> Table:
    """Encode a table that comes in parts.

    Parameters
    ----------
    parts : callable
        Returns the parts, in order and the same ones at each call: one at least, with rows, all with the same columns
        of the same types.
    backend : Backend
    most_rows : int
        The parts have no more rows than this.
    declared : mapping of str to DeclaredColumn, optional
        What the configuration says of columns; the rest is inferred.

    Returns
    -------
    Table
        The very table that `encode` returns for the rows of all parts.

    Raises
    ------
    SchemaError
        As `encode`, with the same message.
    """
    return on_device(_Parts(parts, backend, declared or {}).encoded(most_rows), backend)


class _Parts:
    """Goes through the parts."""

    def __init__(self, parts: Parts, backend: Backend, declared: Mapping[str, DeclaredColumn]) -> None:
        self.parts, self.backend, self.declared = parts, backend, declared

    def encoded(self, most_rows: int) -> Table:
        schema, n_rows = self._look(most_rows)
        pa.default_memory_pool().release_unused()  # Arrow keeps what it has freed: the blocks need that memory
        blocks, places = allocate(schema, n_rows, np)
        texts: dict[str, list[pa.ChunkedArray]] = {column.name: [] for column in schema if not column.storage}
        start = 0
        for part in self.parts():
            stop = start + part.num_rows
            rows = {name: blocks[block][row][start:stop] for name, (block, row) in places.items()}
            self._each(partial(_write, schema, part, rows), list(rows))
            for name, found in texts.items():
                found.append(enforce(schema[name], plain_values(part, name)).text)
            start = stop
        return Table(schema, n_rows, blocks, places, {name: _joined(found) for name, found in texts.items()})

    def _look(self, most_rows: int) -> tuple[Schema, int]:
        """Return what the columns are, and how many rows there are."""
        seen: dict[str, ColumnSummary] = {}
        n_rows = 0
        for part in self.parts():
            seen = seen or seen_columns(part, self.declared, most_rows)
            self._each(partial(_look_at, seen, part), part.column_names)
            n_rows += part.num_rows
        return Schema(tuple(self.backend.map(lambda column: column.column(n_rows), seen.values()))), n_rows

    def _each(self, work: Callable[[str], None], names: list[str]) -> None:
        self.backend.map(lambda name: self._told_of_all_rows(work, name), names)

    def _told_of_all_rows(self, work: Callable[[str], None], name: str) -> None:
        """Do the work on a column; where it fails, let the column as a whole fail: a part does not know its place."""
        try:
            work(name)
        except SchemaError:
            encode_column(name, pa.concat_tables(part.select([name]) for part in self.parts()), self.declared.get(name))
            raise


def seen_columns(part: pa.Table, declared: Mapping[str, DeclaredColumn], most_rows: int) -> dict[str, ColumnSummary]:
    """Return of each column of `part`, and of all parts, that nothing was seen of it yet.

    Raises
    ------
    SchemaError
        If two columns have one name, or a declared one is absent.
    """
    require_distinct(part.column_names)
    require(part.column_names, declared, "schema: declares")
    kinds = {name: plain_values(part, name).type for name in part.column_names}
    return {name: ColumnSummary(name, kind, declared.get(name), most_rows) for name, kind in kinds.items()}


def encode_column(name: str, rows: pa.Table, declared: DeclaredColumn | None) -> None:
    """Encode a column of a table for nothing but the SchemaError that this may raise."""
    plan = infer(name, plain_values(rows, name), declared)
    if plan.write is not None:
        plan.write(np.empty(rows.num_rows, plan.column.storage))


def _look_at(seen: Mapping[str, ColumnSummary], part: pa.Table, name: str) -> None:
    seen[name].add(plain_values(part, name))


def _write(schema: Schema, part: pa.Table, rows: Mapping[str, Any], name: str) -> None:
    plan = enforce(schema[name], plain_values(part, name))
    if plan.write is not None:
        plan.write(rows[name])


def _joined(found: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for values in found for chunk in values.chunks], found[0].type)
