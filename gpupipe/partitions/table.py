"""Tables in partitions on workers; the driver holds only handles.

A partition holds consecutive rows of the table, and the partitions are in the order of the rows. No result depends on
the boundaries of the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Concatenate, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.statistics.row_blocks import ROWS_PER_BLOCK
from gpupipe.partitions.row_selection import take_partitions
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.table.arrange import arrange
from gpupipe.table.blocks import Table, layout
from gpupipe.table.schema import Schema
from gpupipe.typing import Array

Result = TypeVar("Result")


@dataclass(frozen=True)
class TablePartition:
    """A partition of a table: the handle of its rows, and their number."""

    table: ResultHandle[Table]
    n_rows: int


@dataclass(frozen=True)
class PartitionedTable:
    """A `gpupipe.table.blocks.Table` in partitions.

    Attributes
    ----------
    schema : Schema
        Of every partition, levels and storage included.
    partitions : tuple of TablePartition
        One at least, in the order of the rows; some may be empty.
    workers : Workers
        Who holds them.
    places : mapping of str to (str, int)
        Column name to (block, row of the block), in every partition; `layout` of the schema unless something else is
        said.
    """

    schema: Schema
    partitions: tuple[TablePartition, ...]
    workers: Workers
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.places:
            object.__setattr__(self, "places", layout(self.schema))

    @cached_property
    def bounds(self) -> list[int]:
        """The first row of each partition, and at last the number of rows."""
        return [0, *accumulate(partition.n_rows for partition in self.partitions)]

    @property
    def n_rows(self) -> int:
        """Number of rows of all partitions."""
        return self.bounds[-1]

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
        """No column: the workers hold the texts."""
        return {}

    def map(
        self,
        function: Callable[Concatenate[Backend, Table, ...], Result],
        *arguments: Any,
        each: Sequence[Iterable[Any]] = (),
        label: str = "",
    ) -> list[ResultHandle[Result]]:
        """Have ``function(backend, partition, *arguments, *own)`` run on every partition; return handles, in order.

        Parameters
        ----------
        each : sequence of sequences
            Further arguments that each partition has its own of: the first of every sequence, the second...
        label : str
            What is done, for messages.
        """
        return self.workers.map_partitions(
            [partition.table for partition in self.partitions], function, arguments, each, label
        )

    def compute(
        self,
        function: Callable[Concatenate[Backend, Table, ...], Result],
        *arguments: Any,
        each: Sequence[Iterable[Any]] = (),
        label: str = "",
    ) -> list[Result]:
        """Return the results of `map`."""
        return self.workers.gather(self.map(function, *arguments, each=each, label=label))

    def column(self, name: str) -> Array:
        """Return one encoded column, shape (n_rows,), gathered on the host.

        Raises
        ------
        SchemaError
            If there is no such column, or it is text.
        """
        return np.concatenate(self.compute(_column, name, label=f"column {name}"))

    def text_nulls(self, name: str) -> int:
        """Return the number of nulls of a text column."""
        return sum(self.compute(_text_nulls, name, label=f"column {name}"))

    def rows(self, positions: Array, names: Sequence[str]) -> dict[str, Array]:
        """Return columns of the rows at some positions (int, shape (m,)), in their order, gathered on the host."""
        positions = np.asarray(positions)
        owner = np.searchsorted(self.bounds[1:], positions, side="right")
        own = [positions[owner == at] - start for at, start in enumerate(self.bounds[:-1])]
        found = self.compute(_rows, list(names), each=[own], label="single rows")
        order = np.argsort(owner, kind="stable")
        gathered: dict[str, Array] = {}
        for name in names:
            values = np.concatenate([part[name] for part in found])
            gathered[name] = np.empty_like(values)
            gathered[name][order] = values
        return gathered

    def values_at(self, name: str, rows: Array, backend: Backend) -> Array:
        """Return the encoded values of a column at some rows (int64, shape (m,)), gathered on the host."""
        return self.rows(rows, [name])[name]

    def rows_by_worker(self) -> dict[str, int]:
        """Return how many rows each worker holds, by its address."""
        return self.workers.rows_by_worker(
            [partition.table for partition in self.partitions], [partition.n_rows for partition in self.partitions]
        )

    def take(self, mask: Array, backend: Backend) -> PartitionedTable:
        """Return the rows where `mask` (bool, shape (n_rows,), on the host) is true; levels stay as they are.

        The workers copy the rows, each with its own backend; `backend` is not used.

        The partitions begin at multiples of `ROWS_PER_BLOCK`: floats are added up in blocks of that many rows from the
        first on, so that each partition has whole ones. Every boundary moves to the nearest multiple, and the rows
        between go to the neighbour; empty partitions are dropped.
        """
        return self._take(mask)

    def _take(self, mask: Array) -> PartitionedTable:
        taken = take_partitions(self.workers, [partition.table for partition in self.partitions], self.bounds, mask)
        # Their blocks are new: only the columns of the schema are in them.
        return PartitionedTable(self.schema, tuple(TablePartition(*part) for part in taken), self.workers)

    def select(self, schema: Schema) -> PartitionedTable:
        """Return the table with only the columns of `schema`, which are its own; nothing is copied."""
        places = {column.name: self.places[column.name] for column in schema if column.storage}
        made = self._with(self.map(_select, schema, label="columns"), schema)
        return replace(made, places=places)

    def arrange(self, schema: Schema) -> PartitionedTable:
        """Return the rows under `schema` (see `gpupipe.table.arrange.arrange`); the table itself if nothing differs."""
        if schema == self.schema:
            return self
        return self._with(self.map(_arrange, schema, label="levels"), schema)

    def align(self) -> PartitionedTable:
        """Return the table with partitions that are aligned as by `take`; the table itself if they are already."""
        is_whole = all(bound % ROWS_PER_BLOCK == 0 for bound in self.bounds[1:-1])
        if is_whole and (all(partition.n_rows for partition in self.partitions) or len(self.partitions) == 1):
            return self
        return self._take(np.ones(self.n_rows, bool))

    def split_rows(self, values: Array) -> list[Array]:
        """Return an array with an element per row, split at the boundaries of the partitions."""
        return [values[start:stop] for start, stop in pairwise(self.bounds)]

    def _with(self, tables: Sequence[ResultHandle[Table]], schema: Schema) -> PartitionedTable:
        pairs = zip(tables, self.partitions, strict=True)
        partitions = tuple(TablePartition(table, partition.n_rows) for table, partition in pairs)
        return PartitionedTable(schema, partitions, self.workers)


def _column(backend: Backend, table: Table, name: str) -> Array:
    return backend.to_host(table.column(name))


def _text_nulls(backend: Backend, table: Table, name: str) -> int:
    return table.text_nulls(name)


def _rows(backend: Backend, table: Table, names: list[str], positions: Array) -> dict[str, Array]:
    at = backend.to_device(positions)
    return {name: backend.to_host(table.column(name)[at]) for name in names}


def _select(backend: Backend, table: Table, schema: Schema) -> Table:
    return table.select(schema)


def _arrange(backend: Backend, table: Table, schema: Schema) -> Table:
    return arrange(table, schema, backend)
