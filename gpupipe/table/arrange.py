"""Row selections of an encoded table, and the same rows under another schema: other levels, other layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError
from gpupipe.table.blocks import Table, allocate, code_storage
from gpupipe.table.schema import FIRST_LEVEL, NULL, RARE, UNSEEN, Column, Schema
from gpupipe.table.string_columns import bucket_codes
from gpupipe.typing import ArrayNamespace


def select(table: Table, schema: Schema) -> Table:
    """Return the table with only the columns of `schema`, which are its own; nothing is copied."""
    places = {column.name: table.places[column.name] for column in schema if column.storage}
    texts = {column.name: table.texts[column.name] for column in schema if column.name in table.texts}
    return Table(schema, table.n_rows, table.blocks, places, texts)


def take(table: Table, mask: Any, backend: Backend) -> Table:
    """Return the rows where `mask` (bool, shape (n_rows,)) is true, in their order; levels stay as they are."""
    return take_each([(table, mask)], backend)


def take_each(pieces: Sequence[tuple[Table, Any]], backend: Backend) -> Table:
    """Return the rows of several tables of one schema as one, of each as `take` does; each row is copied once."""
    xp, (first, _) = backend.xp, pieces[0]
    rows = [xp.flatnonzero(backend.to_device(mask)).astype("int32") for _, mask in pieces]
    ends = list(accumulate(map(len, rows)))
    blocks, places = allocate(first.schema, ends[-1], xp)

    def copy(name: str) -> None:
        block, row = places[name]
        for (table, _), own, end in zip(pieces, rows, ends, strict=True):
            backend.take(table.column(name), own, blocks[block][row][end - len(own) : end])

    backend.map(copy, places)
    texts = {name: _one([table.texts[name].filter(_arrow(mask)) for table, mask in pieces]) for name in first.texts}
    return Table(first.schema, ends[-1], blocks, places, texts)


def slice_rows(table: Table, start: int, stop: int) -> Table:
    """Return the rows from `start` up to `stop`; nothing is copied."""
    blocks = {name: block[:, start:stop] for name, block in table.blocks.items()}
    texts = {name: text.slice(start, stop - start) for name, text in table.texts.items()}
    return Table(table.schema, stop - start, blocks, table.places, texts)


def move_table(table: Table, backend: Backend) -> Table:
    """Move a host table to the memory of `backend`; moved bytes are counted."""
    return replace(table, blocks={name: backend.to_device(block) for name, block in table.blocks.items()})


def append(table: Table, columns: Mapping[Column, Any], xp: ArrayNamespace) -> Table:
    """Return the table with further columns behind its own; blocks that get none are shared.

    Parameters
    ----------
    columns : mapping of Column to array, shape (n_rows,)
        Their values, which are converted to the dtype of the column's block.
    """
    blocks, places = dict(table.blocks), dict(table.places)
    for storage in dict.fromkeys(column.storage for column in columns):
        new = [(column.name, values) for column, values in columns.items() if column.storage == storage]
        height = blocks[storage].shape[0] if storage in blocks else 0
        block = xp.empty((height + len(new), table.n_rows), storage)
        if height:
            block[:height] = blocks[storage]
        for row, (name, values) in enumerate(new, start=height):
            block[row] = values
            places[name] = storage, row
        blocks[storage] = block
    return Table(Schema((*table.schema.columns, *columns)), table.n_rows, blocks, places, table.texts)


def _arrow(mask: Any) -> Any:
    import pyarrow as pa

    return pa.array(mask)


def _one(texts: Sequence[Any]) -> Any:
    """Return texts one behind the other as one column."""
    import pyarrow as pa

    if len(texts) == 1:
        return texts[0]
    return pa.chunked_array([chunk for text in texts for chunk in text.chunks], texts[0].type)


def used_levels(schema: Schema, counts: Mapping[str, Any]) -> Schema:
    """Return the schema with those levels of each categorical column that a row has, by the rows of each code."""
    columns = []
    for column in schema:
        used = counts.get(column.name)
        if used is not None and column.levels is not None and column.kind == "categorical":
            levels = tuple(level for level, n in zip(column.levels, used[FIRST_LEVEL:].tolist(), strict=True) if n)
            storage = code_storage(FIRST_LEVEL + len(levels))
            column = column if len(levels) == len(column.levels) else replace(column, levels=levels, storage=storage)
        columns.append(column)
    return Schema(tuple(columns))


def arrange(table: Table, schema: Schema, backend: Backend) -> Table:
    """Return the rows of `table` under `schema`: its columns, its layout, its levels.

    A level that `schema` does not have becomes UNSEEN. The table itself is returned where nothing differs.

    Raises
    ------
    SchemaError
        If a column is absent or of another kind.
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
            raise SchemaError(f"column {column.source!r} is {old.kind}; {column.kind} is needed", names=[column.source])
        codes = recode(old, column, backend.xp)
        backend.take(codes, table.column(old.name), out)

    backend.map(fill, [column for column in schema if column.storage])
    texts = {column.name: table.texts[column.name] for column in schema if column.name in table.texts}
    return Table(schema, table.n_rows, blocks, places, texts)


def same_codes(old: Column, new: Column) -> bool:
    """Return whether a value of `old` is encoded as in `new` (the block may be another)."""
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
        codes[FIRST_LEVEL:] = xp.asarray(bucket_codes(levels, new.n_buckets))
        return codes
    position = {level: FIRST_LEVEL + i for i, level in enumerate(new.levels or ())}
    codes[FIRST_LEVEL:] = xp.asarray([position.get(level, UNSEEN) for level in levels], dtype=new.storage)
    return codes
