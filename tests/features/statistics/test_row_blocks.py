"""Reductions over blocks of rows: every row once, for any number of threads."""

from __future__ import annotations

import threading

import pytest

from gpupipe.backends import Backend, choose
from gpupipe.features.statistics.row_blocks import ROWS_PER_BLOCK, map_row_blocks


@pytest.fixture(params=[1, 2, 5])
def backend(request: pytest.FixtureRequest) -> Backend:
    made = choose("cpu")
    made.n_threads = request.param
    return made


@pytest.mark.parametrize("n_rows", [0, 1, 9, 10, 11, 95])
def test_every_item_processes_every_row_once_and_in_order(backend: Backend, n_rows: int) -> None:
    found = map_row_blocks(
        backend, lambda item, a, b: [(item, row) for row in range(a, b)], "xyz", n_rows, [10, 3, 100]
    )
    rows = [[row for part in parts for row in part] for parts in found]
    assert rows == [[(item, row) for row in range(n_rows)] for item in "xyz"]
    assert all(parts for parts in found)


def test_parts_have_the_same_bounds_with_any_number_of_threads(backend: Backend) -> None:
    (bounds,) = map_row_blocks(backend, lambda _, a, b: (a, b), [None], 2 * ROWS_PER_BLOCK + 1)
    assert bounds == [
        (0, ROWS_PER_BLOCK),
        (ROWS_PER_BLOCK, 2 * ROWS_PER_BLOCK),
        (2 * ROWS_PER_BLOCK, 2 * ROWS_PER_BLOCK + 1),
    ]


def test_without_items_there_is_nothing_to_do(backend: Backend) -> None:
    assert map_row_blocks(backend, lambda item, a, b: 1 / 0, [], 10) == []


def test_an_exception_is_raised_to_the_caller(backend: Backend) -> None:
    def fail(item: int, start: int, stop: int) -> int:
        if start == 4:
            raise ValueError("part 4")
        return start

    with pytest.raises(ValueError, match="part 4"):
        map_row_blocks(backend, fail, [0, 1], 8, [2, 4])


def test_parts_run_concurrently() -> None:
    backend = choose("cpu")
    backend.n_threads = 2
    both = threading.Barrier(2, timeout=20)
    (found,) = map_row_blocks(backend, lambda item, a, b: both.wait() >= 0, ["x"], 2, [1])
    assert found == [True, True]


def test_nested_parts_run_in_the_calling_thread(backend: Backend) -> None:
    def inner(item: int, start: int, stop: int) -> int:
        return sum(map_row_blocks(backend, lambda _, a, b: b - a, [item], 10, [3])[0])

    assert map_row_blocks(backend, inner, [1, 2, 3], 4, [2, 2, 2]) == [[10, 10]] * 3
