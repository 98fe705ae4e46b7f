"""Tables and matrices in partitions that lie on workers; the process that leads holds handles alone.

A partition is some rows of the table, one behind the other, and the partitions follow each other in the order of the
rows: no answer depends on where one ends and the next begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Concatenate, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.cluster.workers import Handle, Workers
from gpupipe.features.parts import ROWS_A_PART
from gpupipe.table.arrange import arrange, between, select, take
from gpupipe.table.blocks import Table, layout
from gpupipe.table.schema import Schema

Result = TypeVar("Result")
Array = Any


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
        each: Sequence[Sequence[Any]] = (),
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
        own = list(zip(*each, strict=True)) if each else [()] * len(self.parts)
        return [
            self.workers.submit(function, part.table, *arguments, *given, label=self._label(label, at))
            for at, (part, given) in enumerate(zip(self.parts, own, strict=True))
        ]

    def ask(
        self,
        function: Callable[Concatenate[Backend, Table, ...], Result],
        *arguments: Any,
        each: Sequence[Sequence[Any]] = (),
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

    def rows(self, positions: Array, names: Sequence[str]) -> dict[str, Array]:
        """Return columns of the rows at some positions (int, shape (m,)), in their order, gathered on the host."""
        positions = np.asarray(positions)
        owner = np.searchsorted(self.bounds[1:], positions, side="right")
        own = [positions[owner == at] - start for at, start in enumerate(self.bounds[:-1])]
        found = self.ask(_rows, list(names), each=[own], label="single rows")
        order = np.argsort(owner, kind="stable")
        gathered = {}
        for name in names:
            values = np.concatenate([part[name] for part in found])
            gathered[name] = np.empty_like(values)
            gathered[name][order] = values
        return gathered

    def rows_by_worker(self) -> dict[str, int]:
        """Return how many rows each worker holds, by its address."""
        homes = self.workers.homes([part.table for part in self.parts])
        return _added(homes, [part.n_rows for part in self.parts])

    def take(self, mask: Array) -> PartitionedTable:
        """Return the rows where `mask` (bool, shape (n_rows,), on the host) is true, each partition its own.

        Levels stay as they are, and so does the number of partitions: see `aligned`.
        """
        masks = self.sliced(mask)
        tables = self.map(_take, each=[[np.packbits(own) for own in masks]], label="rows of the split")
        parts = [Part(table, int(np.count_nonzero(own))) for table, own in zip(tables, masks, strict=True)]
        # Their blocks are new: only the columns of the schema are in them.
        return PartitionedTable(self.schema, tuple(parts), self.workers)

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
        """Return the same rows with partitions that begin at multiples of `ROWS_A_PART`.

        Floats are added up in parts of so many rows from the first on, so that each partition has whole ones. Every
        boundary moves to the nearest multiple, and the rows between go to the neighbour; what is empty vanishes.
        """
        inner = [round(bound / ROWS_A_PART) * ROWS_A_PART for bound in self.bounds[1:-1]]
        bounds = [*sorted({0, *(bound for bound in inner if bound < self.n_rows)}), self.n_rows]
        if bounds == self.bounds:
            return self
        if self.n_rows == 0:
            return replace(self, parts=self.parts[:1])
        return replace(self, parts=tuple(self._cut(start, stop) for start, stop in pairwise(bounds)))

    def sliced(self, values: Array) -> list[Array]:
        """Return an array with an element for each row, cut as the partitions are."""
        return [values[start:stop] for start, stop in pairwise(self.bounds)]

    def _cut(self, start: int, stop: int) -> Part:
        """Return the rows start..stop as one partition, which is on the worker that has most of them."""
        pieces = []
        for part, (first, end) in zip(self.parts, pairwise(self.bounds), strict=True):
            low, high = max(start, first), min(stop, end)
            if (low, high) == (first, end) and part.n_rows:
                pieces.append(part.table)
            elif low < high:
                pieces.append(self.workers.submit(_between, part.table, low - first, high - first, label="edge rows"))
        if len(pieces) == 1:
            return Part(pieces[0], stop - start)
        return Part(self.workers.submit(_joined, *pieces, label=f"rows {start:,} to {stop:,}"), stop - start)

    def _with(self, tables: Sequence[Handle[Table]], schema: Schema) -> PartitionedTable:
        parts = tuple(Part(table, part.n_rows) for table, part in zip(tables, self.parts, strict=True))
        return PartitionedTable(schema, parts, self.workers)

    def _label(self, what: str, at: int) -> str:
        return f"{what} of partition {at + 1} of {len(self.parts)}"


@dataclass(frozen=True)
class PartitionedMatrix:
    """A matrix of float32, column-major in each partition.

    Attributes
    ----------
    parts : tuple of Handle
        Of arrays of shape (rows of the partition, n_columns), in the order of the rows.
    heights : tuple of int
        Rows of each.
    n_columns : int
    workers : Workers
    """

    parts: tuple[Handle[Array], ...]
    heights: tuple[int, ...]
    n_columns: int
    workers: Workers

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of all partitions, and columns."""
        return sum(self.heights), self.n_columns

    @property
    def bounds(self) -> list[int]:
        """The first row of each partition, and at last the number of rows."""
        return [0, *accumulate(self.heights)]

    def written(self) -> PartitionedMatrix:
        """Return the matrix once all of it is there; what went wrong on a worker comes up here."""
        self.workers.gather(self.map(_height, label="the matrix"))
        return self

    def rows_by_worker(self) -> dict[str, int]:
        """Return how many rows each worker holds, by its address."""
        return _added(self.workers.homes(self.parts), self.heights)

    def filled(self) -> PartitionedMatrix:
        """Return the matrix without the partitions that have no rows."""
        kept = [(part, height) for part, height in zip(self.parts, self.heights, strict=True) if height]
        parts, heights = zip(*kept, strict=True) if kept else ((), ())
        return replace(self, parts=parts, heights=heights)

    def rows(self, positions: Array) -> Array:
        """Return the rows at some positions (int, ascending), gathered on the host."""
        owner = np.searchsorted(self.bounds[1:], positions, side="right")
        own = [positions[owner == at] - start for at, start in enumerate(self.bounds[:-1])]
        return np.concatenate(self.workers.gather(self.map(_matrix_rows, each=[own], label="single rows")))

    def gather(self) -> Array:
        """Return the matrix as one array on the host, column-major; partition after partition is fetched."""
        out, start = np.empty(self.shape, np.float32, order="F"), 0
        for part, height in zip(self.parts, self.heights, strict=True):
            (out[start : start + height],) = self.workers.gather([self.workers.submit(_on_host, part)])
            start += height
        return out

    def map(
        self,
        function: Callable[Concatenate[Backend, Array, ...], Result],
        *arguments: Any,
        each: Sequence[Sequence[Any]] = (),
        label: str = "",
    ) -> list[Handle[Result]]:
        """As `PartitionedTable.map`, of the arrays."""
        own = list(zip(*each, strict=True)) if each else [()] * len(self.parts)
        return [
            self.workers.submit(
                function, part, *arguments, *given, label=f"{label} of partition {at + 1} of {len(own)}"
            )
            for at, (part, given) in enumerate(zip(self.parts, own, strict=True))
        ]


def _added(homes: Sequence[str], heights: Sequence[int]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for home, height in zip(homes, heights, strict=True):
        if home:
            rows[home] = rows.get(home, 0) + height
    return rows


def _height(backend: Backend, array: Array) -> int:
    return len(array)


def _column(backend: Backend, table: Table, name: str) -> Array:
    return backend.to_host(table.column(name))


def _rows(backend: Backend, table: Table, names: list[str], positions: Array) -> dict[str, Array]:
    at = backend.to_device(positions)
    return {name: backend.to_host(table.column(name)[at]) for name in names}


def _take(backend: Backend, table: Table, bits: Array) -> Table:
    return take(table, np.unpackbits(bits, count=table.n_rows).view(bool), backend)


def _select(backend: Backend, table: Table, schema: Schema) -> Table:
    return select(table, schema)


def _arrange(backend: Backend, table: Table, schema: Schema) -> Table:
    return arrange(table, schema, backend)


def _between(backend: Backend, table: Table, start: int, stop: int) -> Table:
    return between(table, start, stop)


def _joined(backend: Backend, *tables: Table) -> Table:
    """Return tables of one schema and one layout as one, in their order."""
    import pyarrow as pa

    first = tables[0]
    blocks = {name: backend.xp.concatenate([t.blocks[name] for t in tables], axis=1) for name in first.blocks}
    texts = {name: pa.chunked_array([c for t in tables for c in t.texts[name].chunks], text.type)
             for name, text in first.texts.items()}  # fmt: skip
    return replace(first, n_rows=sum(table.n_rows for table in tables), blocks=blocks, texts=texts)


def _matrix_rows(backend: Backend, array: Array, positions: Array) -> Array:
    return backend.to_host(array[backend.to_device(positions)])


def _on_host(backend: Backend, array: Array) -> Array:
    return backend.to_host(array)
