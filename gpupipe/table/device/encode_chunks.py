"""Encode a device frame that arrives in chunks, with the result of `gpupipe.table.device.encode` for the whole.

As `gpupipe.table.encode_chunks` on the host: a first pass infers the schema, a second one writes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpupipe.backends.base import DeviceBackend
from gpupipe.table.blocks import Table, allocate
from gpupipe.table.column_summary import ColumnSummary
from gpupipe.table.device.encode import ColumnEncoder, TextRules
from gpupipe.table.device.frame_columns import DeviceText, concatenate
from gpupipe.table.encode import require, require_distinct
from gpupipe.table.encode_chunks import rows_counted_after
from gpupipe.table.schema import DeclaredColumn, Schema

Columns = Mapping[str, Any]
NO_RULES = TextRules()


def encode_frame_chunks(
    chunks: Callable[[], Iterable[Columns]],
    backend: DeviceBackend,
    most_rows: int,
    declared: Mapping[str, DeclaredColumn] | None = None,
    rules: TextRules = NO_RULES,
) -> Table:
    """Encode a frame that arrives in chunks, on its device.

    Parameters
    ----------
    chunks : callable
        Returns the chunks, in order and the same ones at each call: one at least, with rows, as `encode_frame` takes
        them, all with the same columns of the same types.
    backend : DeviceBackend
    most_rows : int
        The chunks have no more rows than this.
    declared : mapping of str to DeclaredColumn, optional
        What the configuration says of columns; the rest is inferred.
    rules : TextRules
        What the reader makes of texts: of each by itself, and a text each time.

    Returns
    -------
    Table
        As `encode_frame` returns it for the rows of all chunks.

    Raises
    ------
    SchemaError
        As `encode_frame`; rows are counted from the beginning of their chunk, whose place is named.
    """
    schema, n_rows = _look(chunks, backend, most_rows, declared or {}, rules)
    blocks, places = allocate(schema, n_rows, backend.xp)
    texts: dict[str, list[DeviceText]] = {column.name: [] for column in schema if not column.storage}
    start = 0
    for chunk in chunks():
        stop = start + _n_rows(chunk)
        with rows_counted_after(start):
            for column in schema:
                plan = ColumnEncoder(column.name, chunk[column.name], backend, rules).enforce(column)
                if plan.write is None:
                    texts[column.name].append(plan.text)
                else:
                    block, row = places[column.name]
                    plan.write(blocks[block][row][start:stop])
        start = stop
    return Table(schema, n_rows, blocks, places, {name: concatenate(found, backend) for name, found in texts.items()})


def _look(
    chunks: Callable[[], Iterable[Columns]],
    backend: DeviceBackend,
    most_rows: int,
    declared: Mapping[str, DeclaredColumn],
    rules: TextRules,
) -> tuple[Schema, int]:
    """Return what the columns are, and how many rows there are."""
    seen: dict[str, ColumnSummary] = {}
    n_rows = 0
    for chunk in chunks():
        if not seen:
            require_distinct(list(chunk))
            require(list(chunk), declared, "schema: declares")
        with rows_counted_after(n_rows):
            for name, column in chunk.items():
                known = seen[name].kind if name in seen else declared[name].kind if name in declared else None
                values = ColumnEncoder(name, column, backend, rules).summarize(known)
                if name not in seen:
                    seen[name] = ColumnSummary(name, values.type, declared.get(name), most_rows)
                seen[name].add(values)
        n_rows += _n_rows(chunk)
    return Schema(tuple(column.column(n_rows) for column in seen.values())), n_rows


def _n_rows(chunk: Columns) -> int:
    return len(next(iter(chunk.values())))
