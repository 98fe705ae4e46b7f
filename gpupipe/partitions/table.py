"""Tables in partitions on workers; the driver holds only handles.

A partition has consecutive rows of the table, and the partitions are in the order of the rows. No result depends on
the boundaries of the partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.statistics.row_blocks import ROWS_PER_BLOCK
from gpupipe.partitions.collection import PartitionedRows
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.table.arrange import LookedUpColumns, arrange, look_up, slice_rows
from gpupipe.table.blocks import Table, allocate, layout, take_each
from gpupipe.table.schema import Schema
from gpupipe.typing import Array


@dataclass(frozen=True)
class PartitionedTable(PartitionedRows[Table]):
    """A `gpupipe.table.blocks.Table` in partitions.

    `schema` is that of every partition, including levels and storage. `places` has the (block, row of the block) of
    each column, in every partition; by default the `layout` of the schema.
    """

    schema: Schema
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.places:
            object.__setattr__(self, "places", layout(self.schema))

    @property
    def n_columns(self) -> int:
        """Number of columns, text included."""
        return len(self.schema)

    @property
    def n_bytes(self) -> int:
        """Bytes of the encoded columns, on all workers."""
        return self.n_rows * sum(np.dtype(block).itemsize for block, _ in self.places.values())

    @property
    def texts(self) -> Mapping[str, Any]:
        """Empty: the workers hold the texts."""
        return {}

    def column(self, name: str) -> Array:
        """Return one encoded column, shape (n_rows,), gathered on the host.

        Raise SchemaError if the table lacks the column, or it is text.
        """
        values = self.compute(lambda backend, table: backend.to_host(table.column(name)), label=f"column {name}")
        return np.concatenate(values)

    def text_nulls(self, name: str) -> int:
        """Return the number of nulls of a text column."""
        return sum(self.compute(lambda _, table: table.text_nulls(name), label=f"column {name}"))

    def rows(self, positions: Array, names: Sequence[str]) -> dict[str, Array]:
        """Return columns of the rows at some positions (int, shape (m,)), in their order, gathered on the host."""
        positions = np.asarray(positions)
        order = np.argsort(positions, kind="stable")
        own = self.split_positions(positions[order])
        found = self.compute(_rows, list(names), each=[own], label="single rows")
        gathered: dict[str, Array] = {}
        for name in names:
            values = np.concatenate([part[name] for part in found])
            gathered[name] = np.empty_like(values)
            gathered[name][order] = values
        return gathered

    def values_at(self, name: str, rows: Array, backend: Backend) -> Array:
        """Return the encoded values of a column at some rows (int64, shape (m,)), gathered on the host."""
        return self.rows(rows, [name])[name]

    def take(self, mask: Array, backend: Backend) -> PartitionedTable:
        """Return the rows where `mask` (bool, shape (n_rows,), on the host) is true; levels stay as they are.

        The workers copy the rows, each with its own backend; `backend` is not used. The new partitions start at
        multiples of `ROWS_PER_BLOCK`, so that each consists of whole blocks in which floats are summed. Every
        boundary moves to the nearest multiple; empty partitions are dropped.
        """
        return self._take(mask)

    def _take(self, mask: Array) -> PartitionedTable:
        partitions, heights = take_partitions(self.workers, self.partitions, self.bounds, mask)
        # New blocks contain only the columns of the schema.
        return PartitionedTable(partitions, self.workers, heights, self.schema)

    def select(self, schema: Schema) -> PartitionedTable:
        """Return the table with only the columns of `schema`, a subset, without a copy."""
        places = {column.name: self.places[column.name] for column in schema if column.storage}
        tables = self.map(lambda _, table: table.select(schema), label="columns")
        return PartitionedTable(tables.partitions, self.workers, self.heights, schema, places)

    def arrange(self, schema: Schema) -> PartitionedTable:
        """Return the rows under `schema` (see `gpupipe.table.arrange.arrange`); the table itself if nothing differs."""
        if schema == self.schema:
            return self
        tables = self.map(lambda backend, table: arrange(table, schema, backend), label="levels")
        return PartitionedTable(tables.partitions, self.workers, self.heights, schema)

    def align(self) -> PartitionedTable:
        """Return the table with partitions that are aligned as by `take`; the table itself if they are already."""
        is_whole = all(bound % ROWS_PER_BLOCK == 0 for bound in self.bounds[1:-1])
        if is_whole and (all(self.heights) or len(self.partitions) == 1):
            return self
        return self._take(np.ones(self.n_rows, bool))


@look_up.register(PartitionedTable)
def _(
    table: PartitionedTable, lookups: Sequence[LookedUpColumns], backend: Backend, folds: Any = None
) -> PartitionedTable:
    """Return the table with looked-up columns; each worker uses its own backend, and the folds of its rows."""
    if not lookups:
        return table
    made = Schema((*table.schema, *chain.from_iterable(lookup.columns for lookup in lookups)))
    schema = made.without([lookup.positions for lookup in lookups])
    sent = table.workers.put(tuple(lookups))
    tables = table.map(_look_up, sent, each=[] if folds is None else [folds], label="learned columns")
    return PartitionedTable(tables.partitions, table.workers, table.heights, schema)


def _look_up(backend: Backend, table: Table, lookups: Sequence[LookedUpColumns], folds: Any = None) -> Table:
    """Return a partition with looked-up columns, whose blocks have the layout of its schema."""
    found = look_up(table, lookups, backend, folds)
    blocks, places = allocate(found.schema, found.n_rows, backend.xp)
    for name, (block, row) in places.items():
        blocks[block][row] = found.column(name)
    return Table(found.schema, found.n_rows, blocks, places, found.texts)


def _rows(backend: Backend, table: Table, names: list[str], positions: Array) -> dict[str, Array]:
    at = backend.to_device(positions)
    return {name: backend.to_host(table.column(name)[at]) for name in names}


class _Run(NamedTuple):
    """The rows start..stop of a partition, `n_rows` of which a bit mask selects."""

    part: int
    start: int
    stop: int
    bits: Array
    n_rows: int


def take_partitions(
    workers: Workers, tables: Sequence[ResultHandle[Table]], bounds: Sequence[int], mask: Array
) -> tuple[tuple[ResultHandle[Table], ...], tuple[int, ...]]:
    """Return the rows where `mask` is true in new partitions, and the number of rows of each.

    `bounds` has the first row of each table, then the number of rows. `mask`: bool, shape (n_rows,), on the host.
    """
    masks = [mask[start:stop] for start, stop in pairwise(bounds)]
    found = [0, *accumulate(int(np.count_nonzero(own)) for own in masks)]
    inner = [round(bound / ROWS_PER_BLOCK) * ROWS_PER_BLOCK for bound in found[1:-1]]
    spans = list(pairwise([0, *sorted({bound for bound in inner if 0 < bound < found[-1]}), found[-1]]))
    partitions = [_runs(masks, found, *span) for span in spans]
    homes = [int(np.argmax([run.n_rows for run in runs])) for runs in partitions]
    others = (runs[:home] + runs[home + 1 :] for runs, home in zip(partitions, homes, strict=True))
    edges = list(chain.from_iterable(others))
    sent = iter(workers.map(_take, [_given(tables, run) for run in edges], ["edge rows"] * len(edges)))
    each = [
        [*_given(tables, runs[home]), home, *(next(sent) for _ in runs[1:])]
        for runs, home in zip(partitions, homes, strict=True)
    ]
    taken = workers.map(
        _take_joined, each, ["rows of the split"] * len(each)
    )  # on the worker that holds most of the rows
    return tuple(taken), tuple(stop - start for start, stop in spans)


def _runs(masks: Sequence[Array], found: Sequence[int], start: int, stop: int) -> list[_Run]:
    """Return the places of the selected rows start..stop; `found` has the bounds of each partition."""
    runs = []
    for at, (low, high) in enumerate(pairwise(found)):
        first, end = max(start, low), min(stop, high)
        if first < end:
            rows = np.flatnonzero(masks[at])[[first - low, end - low - 1]]
            span = int(rows[0]), int(rows[1]) + 1
            runs.append(_Run(at, *span, np.packbits(masks[at][slice(*span)]), end - first))
    return runs or [_Run(0, 0, 0, np.packbits(masks[0][:0]), 0)]


def _given(tables: Sequence[ResultHandle[Table]], run: _Run) -> list[Any]:
    return [tables[run.part], run.start, run.stop, run.bits]


def _take(backend: Backend, table: Table, start: int, stop: int, bits: Array) -> Table:
    return take_each([_chosen(table, start, stop, bits)], backend)


def _take_joined(
    backend: Backend, table: Table, start: int, stop: int, bits: Array, n_before: int, *others: Table
) -> Table:
    pieces: list[tuple[Table, Array]] = [(other, np.ones(other.n_rows, bool)) for other in others]
    pieces.insert(n_before, _chosen(table, start, stop, bits))
    return take_each(pieces, backend)


def _chosen(table: Table, start: int, stop: int, bits: Array) -> tuple[Table, Array]:
    return slice_rows(table, start, stop), np.unpackbits(bits, count=stop - start).view(bool)
