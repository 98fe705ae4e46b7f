"""Division of the rows of partitions into equal shards, one for each rank of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple


class RowRange(NamedTuple):
    """Consecutive rows of a partition, numbered among those of its rows that are divided."""

    partition: int
    start: int
    stop: int


def divide_rows(heights: Sequence[int], n: int) -> list[list[RowRange]]:
    """Return the row ranges of each of `n` shards, which follow the order of the rows and differ by at most one row.

    Parameters
    ----------
    heights : sequence of int
        Number of rows of each partition that are divided.
    n : int
    """
    bounds = list(pairwise([0, *accumulate(heights)]))
    total = sum(heights)
    shards = []
    for low, high in pairwise(total * i // n for i in range(n + 1)):
        cut = [(partition, max(low, start), min(high, stop)) for partition, (start, stop) in enumerate(bounds)]
        shards.append(
            [RowRange(p, start - bounds[p][0], stop - bounds[p][0]) for p, start, stop in cut if start < stop]
        )
    return shards


def assign_ranks(shards: Sequence[Sequence[RowRange]], homes: Sequence[str], workers: Sequence[str]) -> list[str]:
    """Return a different worker for each shard, preferring the one that already holds most of its rows.

    Parameters
    ----------
    shards : sequence of sequences of RowRange
        At most as many as there are workers.
    homes : sequence of str
        The address of the worker that holds each partition; any other text if none does.
    workers : sequence of str
        Addresses.
    """
    held: Mapping[tuple[int, str], int] = {
        (rank, worker): sum(stop - start for partition, start, stop in shard_rows if homes[partition] == worker)
        for rank, shard_rows in enumerate(shards)
        for worker in workers
    }
    found: dict[int, str] = {}
    for rank, worker in sorted(held, key=lambda pair: -held[pair]):
        if rank not in found and worker not in found.values():
            found[rank] = worker
    return [found[rank] for rank in range(len(shards))]
