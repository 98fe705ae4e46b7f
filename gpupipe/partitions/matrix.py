"""Matrices in partitions on workers: see `gpupipe.partitions.table`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Concatenate, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.typing import Array

Result = TypeVar("Result")


@dataclass(frozen=True)
class PartitionedMatrix:
    """A matrix of float32, column-major in each partition.

    Attributes
    ----------
    partitions : tuple of ResultHandle
        Of arrays of shape (rows of the partition, n_columns), in the order of the rows.
    heights : tuple of int
        Rows of each.
    n_columns : int
    workers : Workers
    """

    partitions: tuple[ResultHandle[Array], ...]
    heights: tuple[int, ...]
    n_columns: int
    workers: Workers

    @property
    def nbytes(self) -> int:
        """Bytes of all partitions."""
        return 4 * sum(self.heights) * self.n_columns

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of all partitions, and columns."""
        return sum(self.heights), self.n_columns

    @property
    def bounds(self) -> list[int]:
        """The first row of each partition, and at last the number of rows."""
        return [0, *accumulate(self.heights)]

    def materialize(self) -> PartitionedMatrix:
        """Wait until all partitions are written, and return the matrix; errors of workers are raised here."""
        self.workers.wait(self.partitions)
        return self

    def rows_by_worker(self) -> dict[str, int]:
        """Return how many rows each worker holds, by its address."""
        return self.workers.rows_by_worker(self.partitions, self.heights)

    def drop_empty(self) -> PartitionedMatrix:
        """Return the matrix without the partitions that have no rows."""
        kept = [(partition, height) for partition, height in zip(self.partitions, self.heights, strict=True) if height]
        partitions, heights = zip(*kept, strict=True) if kept else ((), ())
        return replace(self, partitions=partitions, heights=heights)

    def rows(self, positions: Array) -> Array:
        """Return the rows at some positions (int, ascending), gathered on the host."""
        owner = np.searchsorted(self.bounds[1:], positions, side="right")
        own = [positions[owner == at] - start for at, start in enumerate(self.bounds[:-1])]
        return np.concatenate(self.workers.gather(self.map(_matrix_rows, each=[own], label="single rows")))

    def split_rows(self, values: Array) -> list[Array]:
        """Return an array with an element per row, split at the boundaries of the partitions."""
        return [values[start:stop] for start, stop in pairwise(self.bounds)]

    def gather(self) -> Array:
        """Return the matrix as one array on the host, column-major; partition after partition is fetched."""
        out, start = np.empty(self.shape, np.float32, order="F"), 0
        for part, height in zip(self.partitions, self.heights, strict=True):
            (out[start : start + height],) = self.workers.gather([self.workers.submit(_on_host, part)])
            start += height
        return out

    def map(
        self,
        function: Callable[Concatenate[Backend, Array, ...], Result],
        *arguments: Any,
        each: Sequence[Sequence[Any]] = (),
        label: str = "",
    ) -> list[ResultHandle[Result]]:
        """As `PartitionedTable.map`, of the arrays."""
        return self.workers.map_partitions(self.partitions, function, arguments, each, label)


def _matrix_rows(backend: Backend, array: Array, positions: Array) -> Array:
    return backend.to_host(array[backend.to_device(positions)])


def _on_host(backend: Backend, array: Array) -> Array:
    return backend.to_host(array)
