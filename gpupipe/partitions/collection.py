"""Values and rows in partitions on workers, and the map of a function over all partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.typing import Array

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class PartitionedValues(Generic[Item]):
    """Values on workers, one for each partition of a table, in the order of the rows."""

    partitions: tuple[ResultHandle[Item], ...]
    workers: Workers

    def map(
        self,
        function: Callable[..., Result],
        *arguments: Any,
        each: Sequence[Iterable[Any]] = (),
        label: str = "",
    ) -> PartitionedValues[Result]:
        """Run ``function(backend, value, *arguments, *own)`` on every partition; return the results in place.

        `arguments` are the same for all partitions. `each` are further arguments, each with one element per partition.
        `label` is the work of the function, for messages.
        """
        n = len(self.partitions)
        own = zip(*each, strict=True) if each else [()] * n
        given = ((value, *arguments, *more) for value, more in zip(self.partitions, own, strict=True))
        labels = [f"{label} of partition {at + 1} of {n}" for at in range(n)]
        return PartitionedValues(tuple(self.workers.map(function, given, labels)), self.workers)

    def compute(
        self,
        function: Callable[..., Result],
        *arguments: Any,
        each: Sequence[Iterable[Any]] = (),
        label: str = "",
    ) -> list[Result]:
        """Return the results of `map`, gathered."""
        return self.workers.gather(self.map(function, *arguments, each=each, label=label).partitions)


@dataclass(frozen=True)
class PartitionedRows(PartitionedValues[Item]):
    """Rows on workers; each partition has consecutive rows, and `heights` are their numbers."""

    heights: tuple[int, ...]

    @cached_property
    def bounds(self) -> list[int]:
        """The first row of each partition, then the number of rows."""
        return [0, *accumulate(self.heights)]

    @property
    def n_rows(self) -> int:
        """Number of rows of all partitions."""
        return self.bounds[-1]

    def rows_by_worker(self) -> dict[str, int]:
        """Return how many rows each worker holds, by its address."""
        rows: dict[str, int] = {}
        for home, height in zip(self.workers.homes(self.partitions), self.heights, strict=True):
            if home:
                rows[home] = rows.get(home, 0) + height
        return rows

    def split_rows(self, values: Array) -> list[Array]:
        """Return an array with an element per row, split at the boundaries of the partitions."""
        return [values[start:stop] for start, stop in pairwise(self.bounds)]

    def split_positions(self, positions: Array) -> list[Array]:
        """Return ascending row positions as positions within each partition."""
        cuts = np.searchsorted(positions, self.bounds)
        return [positions[low:high] - start for (low, high), start in zip(pairwise(cuts), self.bounds, strict=False)]
