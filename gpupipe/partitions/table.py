"""Tables in partitions that lie on workers; the process that leads holds handles alone.

A partition is some rows of the table, one behind the other, and the partitions follow each other in the order of the
rows: no answer depends on where one ends and the next begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Concatenate, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.statistics.row_blocks import ROWS_A_PART
from gpupipe.partitions.row_selection import take_parts
from gpupipe.partitions.workers import Handle, Workers
from gpupipe.table.arrange import arrange, select
from gpupipe.table.blocks import Table, layout
from gpupipe.table.schema import Schema
from gpupipe.typing import Array

Result = TypeVar("Result")


@dataclass(frozen=True)
class Part:
    """A partition: where it lies, and how many rows it has."""

    table: Handle[Table]
    n_rows: int


@dataclass(frozen=True)
class PartitionedTable:
    """A `gpupipe.table.blocks.Table` in partitions.

    Attributes
    ----------
    schema : Schema
        Of every partition, levels and storage included.
    parts : tuple of Part
        One at least, in the order of the rows; some may be empty.
    workers : Workers
        Who holds them.
    places : mapping of str to (str, int)
        Column name to (block, row of the block), in every partition; `layout` of the schema unless something else is
        said.
    """

    schema: Schema
    parts: tuple[Part, ...]
    workers: Workers
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.places:
            object.__setattr__(self, "places", layout(self.schema))

    @cached_property
    def bounds(self) -> list[int]:
        """The first row of each partition, and at last the number of rows."""
        return [0, *accumulate(part.n_rows for part in self.parts)]

    @property
    def n_rows(self) -> int:
        """Number of rows of all partitions."""
        return self.bounds[-1]

    @property
    def n_columns(self) -> int:
        """Number of columns, text included."""
        return len(self.schema)

    def map(
        self,
        function: Callable[Concatenate[Backend, Table, ...], Result],
        *arguments: Any,
        each: Sequence[Iterable[Any]] = (),
        label: str = "",
    ) -> list[Handle[Result]]:
        """Have ``function(backend, partition, *arguments, *own)`` run on every partition; return handles, in order.

        Parameters
        ----------
        each : sequence of sequences
            Further arguments that each partition has its own of: the first of every sequence, the second...
        label : str
            What is done, for messages.
        """
        return self.workers.on_each([part.table for part in self.parts], function, arguments, each, label)

    def ask(
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
        return np.concatenate(self.ask(_column, name, label=f"column {name}"))

    def text_nulls(self, name: str) -> int:
        """Return the number of nulls of a column of text."""
        return sum(self.ask(_text_nulls, name, label=f"column {name}"))

    def rows(self, positions: Array, names: Sequence[str]) -> dict[str, Array]:
        """Return columns of the rows at some positions (int, shape (m,)), in their order, gathered on the host."""
        positions = np.asarray(positions)
        owner = np.searchsorted(self.bounds[1:], positions, side="right")
        own = [positions[owner == at] - start for at, start in enumerate(self.bounds[:-1])]
        found = self.ask(_rows, list(names), each=[own], label="single rows")
        order = np.argsort(owner, kind="stable")
        gathered: dict[str, Array] = {}
        for name in names:
            values = np.concatenate([part[name] for part in found])
            gathered[name] = np.empty_like(values)
            gathered[name][order] = values
        return gathered

    def rows_by_worker(self) -> dict[str, int]:
        """Return how many rows each worker holds, by its address."""
        return self.workers.rows_by_worker([part.table for part in self.parts], [part.n_rows for part in self.parts])

    def take(self, mask: Array) -> PartitionedTable:
        """Return the rows where `mask` (bool, shape (n_rows,), on the host) is true; levels stay as they are.

        The partitions begin at multiples of `ROWS_A_PART`: floats are added up in parts of so many rows from the first
        on, so that each partition has whole ones. Every boundary moves to the nearest multiple, and the rows between go
        to the neighbour; what is empty vanishes.
        """
        taken = take_parts(self.workers, [part.table for part in self.parts], self.bounds, mask)
        # Their blocks are new: only the columns of the schema are in them.
        return PartitionedTable(self.schema, tuple(Part(*part) for part in taken), self.workers)

    def select(self, schema: Schema) -> PartitionedTable:
        """Return the table with only the columns of `schema`, which are its own; nothing is copied."""
        places = {column.name: self.places[column.name] for column in schema if column.storage}
        made = self._with(self.map(_select, schema, label="columns"), schema)
        return replace(made, places=places)

    def arranged(self, schema: Schema) -> PartitionedTable:
        """Return the rows under `schema` (see `gpupipe.table.arrange.arrange`); the table itself if nothing differs."""
        if schema == self.schema:
            return self
        return self._with(self.map(_arrange, schema, label="levels"), schema)

    def aligned(self) -> PartitionedTable:
        """Return the table with partitions as `take` makes them; the table itself if they are so."""
        is_whole = all(bound % ROWS_A_PART == 0 for bound in self.bounds[1:-1])
        if is_whole and (all(part.n_rows for part in self.parts) or len(self.parts) == 1):
            return self
        return self.take(np.ones(self.n_rows, bool))

    def sliced(self, values: Array) -> list[Array]:
        """Return an array with an element for each row, cut as the partitions are."""
        return [values[start:stop] for start, stop in pairwise(self.bounds)]

    def _with(self, tables: Sequence[Handle[Table]], schema: Schema) -> PartitionedTable:
        parts = tuple(Part(table, part.n_rows) for table, part in zip(tables, self.parts, strict=True))
        return PartitionedTable(schema, parts, self.workers)


def _column(backend: Backend, table: Table, name: str) -> Array:
    return backend.to_host(table.column(name))


def _text_nulls(backend: Backend, table: Table, name: str) -> int:
    return table.text_nulls(name)


def _rows(backend: Backend, table: Table, names: list[str], positions: Array) -> dict[str, Array]:
    at = backend.to_device(positions)
    return {name: backend.to_host(table.column(name)[at]) for name in names}


def _select(backend: Backend, table: Table, schema: Schema) -> Table:
    return select(table, schema)


def _arrange(backend: Backend, table: Table, schema: Schema) -> Table:
    return arrange(table, schema, backend)
