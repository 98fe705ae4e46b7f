"""Division of rows among workers: equal sizes, in order, complete, and placed where most of the rows are."""

from __future__ import annotations

from itertools import pairwise, permutations

from hypothesis import given
from hypothesis import strategies as st

from gpupipe.dask.networks import assign_ranks, shard_bounds


@given(st.integers(0, 300), st.integers(1, 4))
def test_shards_are_equal_and_hold_every_row_once_in_order(n_rows: int, n: int) -> None:
    bounds = shard_bounds(n_rows, n)
    sizes = [stop - start for start, stop in pairwise(bounds)]
    assert (bounds[0], bounds[-1], len(sizes)) == (0, n_rows, n) and 0 <= min(sizes) <= max(sizes) <= min(sizes) + 1


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.sampled_from("abc?")), min_size=3, max_size=6))
def test_two_shards_go_to_different_workers_with_at_least_half_of_the_rows_that_could_stay(
    parts: list[tuple[int, int, str]],
) -> None:
    *shares, homes = zip(*parts, strict=True)

    def staying(chosen: list[str] | tuple[str, ...]) -> int:
        pairs = zip(shares, chosen, strict=True)
        return sum(n for share, worker in pairs for n, home in zip(share, homes, strict=True) if home == worker)

    found = assign_ranks(shares, homes, list("abc"))
    assert len(set(found)) == 2
    assert 2 * staying(found) >= max(staying(pair) for pair in permutations("abc", 2))
