"""Rearrangement of tables: row ranges, added columns, and conversion to another schema (levels or layout)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError
from gpupipe.table.blocks import Table, allocate, code_storage
from gpupipe.table.hash_buckets import hash_levels
from gpupipe.table.schema import FIRST_LEVEL, NULL, RARE, UNSEEN, Column, Schema
from gpupipe.typing import ArrayNamespace, HostArray


def slice_rows(table: Table, start: int, stop: int) -> Table:
    """Return the rows ``start:stop`` without copying."""
    blocks = {name: block[:, start:stop] for name, block in table.blocks.items()}
    texts = {name: text.slice(start, stop - start) for name, text in table.texts.items()}
    return Table(table.schema, stop - start, blocks, table.places, texts)


def move_table(table: Table, backend: Backend) -> Table:
    """Return a host table in the memory of `backend`; transferred bytes are counted."""
    return replace(table, blocks={name: backend.to_device(block) for name, block in table.blocks.items()})


def append(table: Table, columns: Mapping[Column, Any], xp: ArrayNamespace) -> Table:
    """Return the table with columns appended; blocks without new columns are shared.

    The values of `columns`, shape (n_rows,), are converted to the dtype of the column's block; lists are in the layout
    of `gpupipe.table.list_columns`.
    """
    blocks, places = dict(table.blocks), dict(table.places)
    texts = {**table.texts, **{column.name: values for column, values in columns.items() if not column.storage}}
    for storage in dict.fromkeys(column.storage for column in columns if column.storage):
        new = [(column.name, values) for column, values in columns.items() if column.storage == storage]
        height = blocks[storage].shape[0] if storage in blocks else 0
        block = xp.empty((height + len(new), table.n_rows), storage)
        if height:
            block[:height] = blocks[storage]
        for row, (name, values) in enumerate(new, start=height):
            block[row] = values
            places[name] = storage, row
        blocks[storage] = block
    return Table(Schema((*table.schema.columns, *columns)), table.n_rows, blocks, places, texts)


@dataclass(frozen=True, eq=False)
class LookedUpColumns:
    """Columns whose values are looked up by another column of the table.

    - `positions`: the column with the position of the value of each row; the new columns replace it
    - `values`: float32, shape (len(columns), n_values), on the host; or (len(columns), folds + 1, n_values): those of
      training rows by their fold, and at 0 those of other rows
    """

    positions: str
    columns: tuple[Column, ...]
    values: HostArray


@singledispatch
def look_up(table: Any, lookups: Sequence[LookedUpColumns], backend: Backend, folds: Any = None) -> Any:
    """Return an `EncodedTable` with looked-up columns instead of those with their positions.

    `folds`: of training rows, int8 in 1..k, shape (n_rows,)
    """
    for lookup in lookups:
        positions, values = table.column(lookup.positions), backend.to_device(lookup.values)
        values = values[:, positions] if values.ndim == 2 else values[:, 0 if folds is None else folds, positions]
        table = append(table, dict(zip(lookup.columns, values, strict=True)), backend.xp)
    return table.select(table.schema.without([lookup.positions for lookup in lookups]))


def used_levels(schema: Schema, counts: Mapping[str, Any]) -> Schema:
    """Return the schema with only the levels of each categorical column that occur in a row.

    `counts` has the number of rows per code of each categorical column.
    """
    columns = []
    for column in schema:
        used = counts.get(column.name)
        if used is not None and column.levels is not None and column.kind == "categorical" and not column.hash_of:
            levels = tuple(level for level, n in zip(column.levels, used[FIRST_LEVEL:].tolist(), strict=True) if n)
            storage = code_storage(FIRST_LEVEL + len(levels))
            column = column if len(levels) == len(column.levels) else replace(column, levels=levels, storage=storage)
        columns.append(column)
    return Schema(tuple(columns))


def arrange(table: Table, schema: Schema, backend: Backend) -> Table:
    """Return `table` converted to the columns, layout and levels of `schema`.

    Levels that `schema` does not have become UNSEEN. Returns the table itself if nothing differs. Raise SchemaError if
    a column is absent or of another kind.
    """
    if schema == table.schema:
        return table
    blocks, places = allocate(schema, table.n_rows, backend.xp)

    def fill(column: Column) -> None:
        block, row = places[column.name]
        out = blocks[block][row]
        if column.name in table.schema and same_codes(table.schema[column.name], column):
            out[:] = table.column(column.name)
            return
        old = table.schema[column.source]
        if old.levels is None or not column.n_codes:
            raise SchemaError(
                f"expected column {column.source!r} to be {column.kind}; found {old.kind}", names=[column.source]
            )
        codes = recode(old, column, backend.xp)
        backend.take(codes, table.column(old.name), out)

    backend.map(fill, [column for column in schema if column.storage])
    texts = {column.name: table.texts[column.name] for column in schema if column.name in table.texts}
    return Table(schema, table.n_rows, blocks, places, texts)


def same_codes(old: Column, new: Column) -> bool:
    """Return whether values of `old` are encoded as in `new` (the blocks may differ)."""
    return (
        old.kind == new.kind
        and old.levels == new.levels
        and old.hash_of == new.hash_of
        and old.n_buckets == new.n_buckets
    )


def recode(old: Column, new: Column, xp: ArrayNamespace) -> Any:
    """Return, for each code of `old`, the code of the same level in `new`; shape (old.n_codes,)."""
    codes = xp.full(old.n_codes, UNSEEN, new.storage)
    codes[NULL], codes[RARE] = NULL, RARE
    levels = old.levels or ()
    if new.hash_of is not None:
        codes[FIRST_LEVEL:] = xp.asarray(hash_levels(new, levels))
        return codes
    position = {level: FIRST_LEVEL + i for i, level in enumerate(new.levels or ())}
    codes[FIRST_LEVEL:] = xp.asarray([position.get(level, UNSEEN) for level in levels], dtype=new.storage)
    return codes
