"""The encoded table: a few homogeneous 2-D blocks, columns by rows, instead of many arrays.

A block is one allocation: one copy to a device, one memory map from the cache, one kernel signature for any
configuration. Codes are int8, int16 or int32, depending on the number of levels; numbers are float32 if that is exact,
else float64; times are int64 microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, Protocol, Self

from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError
from gpupipe.table.schema import Schema
from gpupipe.typing import Array, ArrayNamespace


class EncodedTable(Protocol):
    """An encoded table: a `Table` in the memory of one process, or a table in partitions on workers."""

    @property
    def schema(self) -> Schema:
        """Columns, with their levels and storage."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_bytes(self) -> int:
        """Size of the encoded columns in bytes."""

    @property
    def bounds(self) -> Sequence[int]:
        """The first row of each partition, then the number of rows."""

    @property
    def texts(self) -> Mapping[str, Any]:
        """The text and list columns in this process."""

    def column(self, name: str) -> Any:
        """Return one encoded column, shape (n_rows,)."""

    def text_nulls(self, name: str) -> int:
        """Return the number of nulls of a text column."""

    def values_at(self, name: str, rows: Array, backend: Backend) -> Array:
        """Return the encoded values of a column at `rows` (int64, shape (m,)), on the host."""

    def take(self, mask: Any, backend: Backend) -> Self:
        """Return the rows where `mask` (bool, shape (n_rows,)) is true, in order, with unchanged levels."""

    def select(self, schema: Schema) -> Self:
        """Return the table with only the columns of `schema`, a subset of its columns, without copying."""

    def rows_by_worker(self) -> dict[str, int]:
        """Return the number of rows on each worker of a cluster, by worker address."""


@dataclass(frozen=True)
class Table:
    """An encoded table in the memory of this process.

    - `blocks` (mapping of str to array, shape (columns, n_rows), C order): dtype name to block: int8, int16 and int32
      for codes (see `gpupipe.table.schema`), float32 and float64 for numbers, int64 for times
    - `places`: column name to (block, row of the block). Text columns have none.
    - `texts`: the text columns as read, and the list columns in the layout of `gpupipe.table.list_columns`
    """

    schema: Schema
    n_rows: int
    blocks: Mapping[str, Any]
    places: Mapping[str, tuple[str, int]]
    texts: Mapping[str, Any] = field(default_factory=dict)

    def column(self, name: str) -> Any:
        """Return one encoded column, shape (n_rows,): a view into its block.

        Raise SchemaError if the column does not exist, or is text or a list.
        """
        if name not in self.places:
            kind = self.schema[name].kind  # raises, with a hint, unless the column is text or a list
            fix = "declare it categorical" if kind == "text" else "derive features with list ops"
            raise SchemaError(f"column {name!r} is {kind} and has no encoded form", fix=fix, names=[name])
        block, row = self.places[name]
        return self.blocks[block][row]

    def text_nulls(self, name: str) -> int:
        """Return the number of nulls of a text column."""
        return int(self.texts[name].null_count)

    def values_at(self, name: str, rows: Array, backend: Backend) -> Array:
        """Return the encoded values of a column at `rows` (int64, shape (m,)), on the host."""
        return backend.to_host(self.column(name)[backend.to_device(rows)])

    def take(self, mask: Any, backend: Backend) -> Table:
        """Return the rows where `mask` (bool, shape (n_rows,)) is true, in order, with unchanged levels."""
        return take_each([(self, mask)], backend)

    def select(self, schema: Schema) -> Table:
        """Return the table with only the columns of `schema`, a subset of its columns, without copying."""
        places = {column.name: self.places[column.name] for column in schema if column.storage}
        texts = {column.name: self.texts[column.name] for column in schema if column.name in self.texts}
        return Table(schema, self.n_rows, self.blocks, places, texts)

    def rows_by_worker(self) -> dict[str, int]:
        """Return an empty dict: no worker holds these rows."""
        return {}

    @property
    def bounds(self) -> list[int]:
        """The first row and the number of rows, for a single partition."""
        return [0, self.n_rows]

    @property
    def n_columns(self) -> int:
        """Number of columns, text included."""
        return len(self.schema)

    @property
    def n_bytes(self) -> int:
        """Size of the blocks in bytes."""
        return sum(int(block.nbytes) for block in self.blocks.values())


def layout(schema: Schema) -> dict[str, tuple[str, int]]:
    """Return the block and the row in it of each column of `schema`, in the order of the columns."""
    rows: dict[str, int] = {}
    places = {}
    for column in schema:
        if column.storage:
            places[column.name] = (column.storage, rows.setdefault(column.storage, 0))
            rows[column.storage] += 1
    return places


def allocate(schema: Schema, n_rows: int, xp: ArrayNamespace) -> tuple[dict[str, Any], dict[str, tuple[str, int]]]:
    """Return uninitialised blocks for `n_rows` rows of `schema`, and the positions of its columns in them."""
    places = layout(schema)
    heights: dict[str, int] = {}
    for block, row in places.values():
        heights[block] = max(heights.get(block, 0), row + 1)
    return {block: xp.empty((height, n_rows), block) for block, height in heights.items()}, places


def stack(
    schema: Schema, arrays: dict[str, Any], n_rows: int, xp: ArrayNamespace
) -> tuple[dict[str, Any], dict[str, tuple[str, int]]]:
    """Return blocks with encoded columns, and the positions of the columns, in the layout of `allocate`.

    `arrays` are the columns of `schema` that have a storage, in that dtype, shape (n_rows,). It is emptied: each array
    is released once copied.
    """
    places = layout(schema)
    members: dict[str, list[str]] = {}
    for name, (block, _) in places.items():
        members.setdefault(block, []).append(name)
    blocks = {}
    for block, names in members.items():
        if len(names) == 1:
            blocks[block] = arrays.pop(names[0]).reshape(1, n_rows)
            continue
        blocks[block] = xp.empty((len(names), n_rows), block)
        for row, name in enumerate(names):
            blocks[block][row] = arrays.pop(name)
    return blocks, places


def code_storage(n_codes: int) -> str:
    """Return the narrowest block for a number of codes."""
    return "int8" if n_codes <= 2**7 else "int16" if n_codes <= 2**15 else "int32"


def take_each(pieces: Sequence[tuple[Table, Any]], backend: Backend) -> Table:
    """Return selected rows of several tables with the same schema as one table; each row is copied once."""
    from gpupipe.arrow_numpy import number_array

    xp, (first, _) = backend.xp, pieces[0]
    rows = [xp.flatnonzero(backend.to_device(mask)).astype("int32") for _, mask in pieces]
    ends = list(accumulate(map(len, rows)))
    blocks, places = allocate(first.schema, ends[-1], xp)

    def copy(name: str) -> None:
        block, row = places[name]
        for (table, _), own, end in zip(pieces, rows, ends, strict=True):
            backend.take(table.column(name), own, blocks[block][row][end - len(own) : end])

    backend.map(copy, places)
    texts = {
        name: concatenate_texts([table.texts[name].filter(number_array(mask)) for table, mask in pieces])
        for name in first.texts
    }
    return Table(first.schema, ends[-1], blocks, places, texts)


def concatenate_texts(texts: Sequence[Any]) -> Any:
    """Return text columns, pyarrow.ChunkedArray of one type, as one column."""
    import pyarrow as pa

    if len(texts) == 1:
        return texts[0]
    return pa.chunked_array(list(chain.from_iterable(text.chunks for text in texts)), texts[0].type)
