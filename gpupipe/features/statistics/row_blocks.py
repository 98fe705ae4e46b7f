"""Parallel execution of a reduction over blocks of rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend

Item = TypeVar("Item")
Result = TypeVar("Result")

ROWS_PER_BLOCK = 262_144


def is_on_device(backend: Backend) -> bool:
    """Return whether the arrays of a backend are on a GPU."""
    return backend.name != "cpu"


def map_row_blocks(
    backend: Backend,
    function: Callable[[Item, int, int], Result],
    items: Sequence[Item],
    n_rows: int,
    rows_per_block: Sequence[int] = (),
    device_rows: int = 0,
) -> list[list[Result]]:
    """Return ``[function(item, start, stop) for each block of rows]`` for each item; there is at least one block.

    Each pair of item and block is a task, so that even a few items or rows keep many threads busy. On a GPU, all rows
    are one block, since a kernel is parallel itself and each launch has a cost; `device_rows` limits them, and so the
    memory of temporary arrays, unless it is 0. `rows_per_block` has the limit of each item, by default
    `ROWS_PER_BLOCK`. If floats are summed block by block, it must not depend on the number of threads.
    """
    heights = rows_per_block or [ROWS_PER_BLOCK] * len(items)
    if is_on_device(backend):
        heights = [device_rows or max(1, n_rows)] * len(items)
    starts = [range(0, max(1, n_rows), height) for height in heights]
    tasks: list[tuple[Item, int, int]] = []
    for item, parts in zip(items, starts, strict=True):
        tasks += [(item, start, min(start + parts.step, n_rows)) for start in parts]
    found: list[Any] = [None] * len(tasks)
    left = deque(enumerate(tasks))

    def work(_: int) -> None:
        # Each thread takes tasks from a queue: submitting them one by one costs as much as a short task takes.
        while left:
            try:
                at, task = left.popleft()
            except IndexError:  # another thread took the last task
                return
            found[at] = function(*task)

    backend.map(work, range(min(len(tasks), backend.n_threads)))
    results = iter(found)
    return [[next(results) for _ in parts] for parts in starts]
