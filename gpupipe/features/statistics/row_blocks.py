"""Reductions run over parts of the rows, side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend

Item = TypeVar("Item")
Result = TypeVar("Result")

ROWS_A_PART = 262_144


def is_on_device(backend: Backend) -> bool:
    """Return whether the arrays of a backend lie on a device."""
    return backend.name != "cpu"


def over_parts(
    backend: Backend,
    function: Callable[[Item, int, int], Result],
    items: Sequence[Item],
    n_rows: int,
    rows_a_part: Sequence[int] = (),
) -> list[list[Result]]:
    """Return ``[function(item, start, stop) for each part of the rows]`` for each item; there is one part at least.

    All pairs of item and part are tasks of their own, so that few items keep many threads busy, and few rows too. On a
    device all rows are one part: it works on them side by side itself, and each launch costs.

    Parameters
    ----------
    rows_a_part : sequence of int
        For each item; `ROWS_A_PART` if empty. Floats are added up part by part: there it must not depend on the number
        of threads.
    """
    heights = [max(1, n_rows)] * len(items) if is_on_device(backend) else rows_a_part or [ROWS_A_PART] * len(items)
    starts = [range(0, max(1, n_rows), height) for height in heights]
    tasks = [
        (item, start, min(start + height, n_rows))
        for item, parts, height in zip(items, starts, heights, strict=True)
        for start in parts
    ]
    found: list[Any] = [None] * len(tasks)
    left = deque(enumerate(tasks))

    def work(_: int) -> None:
        # A thread takes task after task: handing each over to a pool would cost as much as a short one takes.
        while left:
            try:
                at, task = left.popleft()
            except IndexError:  # another thread was quicker
                return
            found[at] = function(*task)

    backend.map(work, range(min(len(tasks), backend.n_threads)))
    results = iter(found)
    return [[next(results) for _ in parts] for parts in starts]
