"""Rows divided among workers: equal shares, in order, nothing lost; and each where most of it lies."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from gpupipe.dask.equal_shares import Piece, equal_shares, seats


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 4))
def test_shares_are_equal_and_hold_every_row_once_in_order(heights: list[int], n: int) -> None:
    shares = equal_shares(heights, n)
    sizes = [sum(stop - start for _, start, stop in share) for share in shares]
    assert len(shares) == n and max(sizes) - min(sizes) <= 1
    rows = [(part, row) for share in shares for part, start, stop in share for row in range(start, stop)]
    assert rows == [(part, row) for part, height in enumerate(heights) for row in range(height)]


def test_a_partition_is_cut_where_a_share_ends() -> None:
    assert equal_shares([3, 0, 5], 2) == [[Piece(0, 0, 3), Piece(2, 0, 1)], [Piece(2, 1, 5)]]


@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from("abc?")), min_size=3, max_size=6))
def test_two_shares_go_to_different_workers_with_at_least_half_of_the_rows_that_could_stay(
    parts: list[tuple[int, str]],
) -> None:
    shares = equal_shares([height for height, _ in parts], 2)
    homes = [home for _, home in parts]

    def staying(chosen: list[str] | tuple[str, ...]) -> int:
        pieces = [(p, worker) for share, worker in zip(shares, chosen, strict=True) for p in share]
        return sum(stop - start for (part, start, stop), worker in pieces if homes[part] == worker)

    found = seats(shares, homes, list("abc"))
    assert len(set(found)) == 2
    assert 2 * staying(found) >= max(staying(pair) for pair in permutations("abc", 2))
