"""Rows divided among workers: equal shares, in order, nothing lost; and each where most of it lies."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from gpupipe.dask.row_ranges import RowRange, assign_ranks, divide_rows


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 4))
def test_shares_are_equal_and_hold_every_row_once_in_order(heights: list[int], n: int) -> None:
    shards = divide_rows(heights, n)
    sizes = [sum(stop - start for _, start, stop in shard_rows) for shard_rows in shards]
    assert len(shards) == n and max(sizes) - min(sizes) <= 1
    rows = [
        (partition, row) for shard_rows in shards for partition, start, stop in shard_rows for row in range(start, stop)
    ]
    assert rows == [(partition, row) for partition, height in enumerate(heights) for row in range(height)]


def test_a_partition_is_cut_where_a_share_ends() -> None:
    assert divide_rows([3, 0, 5], 2) == [[RowRange(0, 0, 3), RowRange(2, 0, 1)], [RowRange(2, 1, 5)]]


@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from("abc?")), min_size=3, max_size=6))
def test_two_shares_go_to_different_workers_with_at_least_half_of_the_rows_that_could_stay(
    parts: list[tuple[int, str]],
) -> None:
    shards = divide_rows([height for height, _ in parts], 2)
    homes = [home for _, home in parts]

    def staying(chosen: list[str] | tuple[str, ...]) -> int:
        ranges = [(p, worker) for shard_rows, worker in zip(shards, chosen, strict=True) for p in shard_rows]
        return sum(stop - start for (partition, start, stop), worker in ranges if homes[partition] == worker)

    found = assign_ranks(shards, homes, list("abc"))
    assert len(set(found)) == 2
    assert 2 * staying(found) >= max(staying(pair) for pair in permutations("abc", 2))
