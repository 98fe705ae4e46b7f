"""Matrices in partitions on workers: see `gpupipe.partitions.table`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpupipe.partitions.collection import PartitionedRows
from gpupipe.typing import Array


@dataclass(frozen=True)
class PartitionedMatrix(PartitionedRows[Array]):
    """A matrix of float32, column-major in each partition."""

    n_columns: int

    @property
    def nbytes(self) -> int:
        """Bytes of all partitions."""
        return 4 * self.n_rows * self.n_columns

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of all partitions, and columns."""
        return self.n_rows, self.n_columns

    def materialize(self) -> PartitionedMatrix:
        """Wait until all partitions are written, and return the matrix; errors of workers are raised here."""
        self.workers.wait(self.partitions)
        return self

    def drop_empty(self) -> PartitionedMatrix:
        """Return the matrix without the partitions that have no rows."""
        kept = [(partition, height) for partition, height in zip(self.partitions, self.heights, strict=True) if height]
        partitions, heights = zip(*kept, strict=True) if kept else ((), ())
        return replace(self, partitions=partitions, heights=heights)

    def rows(self, positions: Array) -> Array:
        """Return the rows at some positions (int, ascending), gathered on the host."""
        own = self.split_positions(positions)
        found = self.compute(
            lambda backend, array, at: backend.to_host(array[backend.to_device(at)]), each=[own], label="single rows"
        )
        return np.concatenate(found)

    def gather(self) -> Array:
        """Return the matrix as one array on the host, column-major; partition after partition is fetched."""
        out = np.empty(self.shape, np.float32, order="F")
        for part, rows in zip(self.partitions, self.split_rows(out), strict=True):
            (rows[:],) = self.workers.gather([self.workers.submit(lambda backend, array: backend.to_host(array), part)])
        return out
