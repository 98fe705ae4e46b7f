"""The order of rows in an epoch, their division among ranks, and the epoch count."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.tensors.shuffle import Epochs, RankBatches, permutation

sizes = st.integers(1, 40)
worlds = st.integers(1, 7)


@settings(deadline=None)
@given(n=st.integers(0, 3000), seed=st.integers(0, 2**32 - 1), epoch=st.integers(0, 2**32 - 1))
def test_an_order_has_each_row_once_and_matches_a_plain_sort(n: int, seed: int, epoch: int) -> None:
    order = permutation(n, seed, epoch)
    bits = np.random.Philox(key=[seed, epoch]).random_raw(n).tolist()
    low = max(n - 1, 1).bit_length()
    assert order.dtype == np.int64
    assert order.tolist() == sorted(range(n), key=lambda row: (bits[row] >> low, row))


def test_the_order_is_the_same_in_every_version() -> None:
    known = [2, 5, 9, 7, 3, 0, 6, 8, 4, 1, 11, 10]
    assert permutation(12, seed=7, epoch=3).tolist() == known
    assert permutation(12, seed=7, epoch=4).tolist() != known
    assert permutation(12, seed=8, epoch=3).tolist() != known


def test_no_order_is_more_frequent_than_another() -> None:
    found = Counter(tuple(permutation(4, 0, epoch).tolist()) for epoch in range(4800))
    assert len(found) == 24
    assert sum((n - 200) ** 2 / 200 for n in found.values()) < 49.7  # chi-squared, 23 degrees of freedom, p = 0.001


@settings(deadline=None)
@given(n=st.integers(0, 400), batch_size=sizes, world_size=worlds, drop_last=st.booleans())
def test_ranks_together_take_the_larger_batches_of_one_rank(
    n: int, batch_size: int, world_size: int, drop_last: bool
) -> None:
    order = permutation(n, 1, 2).tolist()
    shards = [RankBatches(n, batch_size, rank, world_size, drop_last) for rank in range(world_size)]
    alone = RankBatches(n, batch_size * world_size, 0, 1, drop_last)
    assert len({len(shard) for shard in shards}) == 1
    steps = len(shards[0])
    for step in range(steps):
        parts = [order[shard.bounds(step)] for shard in shards]
        assert list(chain(*parts)) == order[alone.bounds(step)]
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert 1 <= min(map(len, parts)) <= max(map(len, parts)) <= batch_size
    rest = n % (batch_size * world_size)
    left_out = rest if drop_last or rest < world_size else 0
    seen = [row for shard in shards for step in range(steps) for row in order[shard.bounds(step)]]
    assert sorted(seen) == sorted(order[: n - left_out])


class Worker(NamedTuple):
    """Result of ``get_worker_info()`` in a worker."""

    id: int
    seed: int


def copies(epochs: Epochs, n: int) -> list[Epochs]:
    """Return the epoch counters of `n` forked workers: separate counts, a shared cell."""
    made = []
    for _ in range(n):
        copy = Epochs.__new__(Epochs)
        copy.__dict__.update(epochs.__dict__)
        made.append(copy)
    return made


def epochs_of(workers: list[Epochs], base: int, order: Any) -> set[int]:
    return {workers[i].next(Worker(i, base + i)) for i in order}


@settings(deadline=None)
@given(bases=st.lists(st.integers(-(2**63), 2**63 - 8), min_size=1, max_size=6, unique=True), data=st.data())
def test_new_workers_agree_on_the_epoch(bases: list[int], data: st.DataObject) -> None:
    epochs = Epochs()
    for epoch, base in enumerate(bases):
        order = data.draw(st.permutations(range(3)))
        started = order[: data.draw(st.integers(1, 3))]  # an abandoned iteration may not reach all workers
        assert epochs_of(copies(epochs, 3), base, started) == {epoch}
    assert epochs.next(None) == len(bases)


@settings(deadline=None)
@given(data=st.data())
def test_workers_that_are_kept_agree_on_the_epoch(data: st.DataObject) -> None:
    epochs = Epochs()
    kept = copies(epochs, 3)
    for epoch in range(4):
        assert epochs_of(kept, 12345, data.draw(st.permutations(range(3)))) == {epoch}
    epochs.set(9)
    assert epochs_of(kept, 12345, data.draw(st.permutations(range(3)))) == {9}
    assert epochs_of(kept, 12345, range(3)) == {10}


def test_the_largest_epoch_can_be_set() -> None:
    epochs = Epochs()
    epochs.set(2**32 - 2)
    assert epochs.next(None) == 2**32 - 2
    assert epochs.next(None) == 2**32 - 1
