"""Rows divided equally among workers: in their order, whatever the partitions are and wherever they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple


class Piece(NamedTuple):
    """Rows of a partition, counted among those of it that are divided."""

    part: int
    start: int
    stop: int


def equal_shares(heights: Sequence[int], n: int) -> list[list[Piece]]:
    """Return the pieces of each of `n` shares, of which the first has the first rows; they differ by one row at most.

    Parameters
    ----------
    heights : sequence of int
        How many rows of each partition are divided.
    n : int
    """
    bounds = list(pairwise([0, *accumulate(heights)]))
    total = sum(heights)
    shares = []
    for low, high in pairwise(total * i // n for i in range(n + 1)):
        cut = [(part, max(low, start), min(high, stop)) for part, (start, stop) in enumerate(bounds)]
        shares.append([Piece(p, start - bounds[p][0], stop - bounds[p][0]) for p, start, stop in cut if start < stop])
    return shares


def seats(shares: Sequence[Sequence[Piece]], homes: Sequence[str], workers: Sequence[str]) -> list[str]:
    """Return a worker for each share, each another one: those that have most of its rows already.

    Parameters
    ----------
    shares : sequence of pieces
        At most as many as there are workers.
    homes : sequence of str
        Which worker has each partition; one that is not among them: nobody.
    workers : sequence of str
    """
    held: Mapping[tuple[int, str], int] = {
        (rank, worker): sum(stop - start for part, start, stop in share if homes[part] == worker)
        for rank, share in enumerate(shares)
        for worker in workers
    }
    found: dict[int, str] = {}
    for rank, worker in sorted(held, key=lambda pair: -held[pair]):
        if rank not in found and worker not in found.values():
            found[rank] = worker
    return [found[rank] for rank in range(len(shares))]
