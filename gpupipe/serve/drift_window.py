"""Counts of the last rows that a server predicted, in memory shared by its workers.

Each worker writes its own region, and any worker adds up all of them. A region has two sets of counts. Rows are counted
in one until all workers together have counted half of the window, then in the other, which is cleared first. So the
window has between half of its rows and all of them, and its size does not depend on their number.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np

from gpupipe.typing import Array

MOST_CELLS = 1 << 17  # as many as 2,000 columns have; memory is used only for those that a model has
_PAGE_VALUES = mmap.PAGESIZE // 8
# Positions in a region: the model, then the turn and the rows of each set
_MODEL = 0
_TURNS = 1
_ROWS = 3
_CELLS = 8
_REGION_VALUES = (_CELLS + 2 * MOST_CELLS + _PAGE_VALUES - 1) // _PAGE_VALUES * _PAGE_VALUES
_UNUSED = -2  # turn of a set without counts; turn 0 has -1 before it


def window_bytes(n_workers: int) -> int:
    """Return the size of the memory of a window."""
    return 8 * (_PAGE_VALUES + n_workers * _REGION_VALUES)


class DriftWindow:
    """The counts of all workers.

    `memory` has `window_bytes` bytes, initially 0. `worker` is the position of this worker.
    """

    def __init__(self, memory: memoryview, n_workers: int, worker: int) -> None:
        values = np.frombuffer(memory, np.int64)
        self._turn = values[:1]  # the same for all workers; odd and even turns alternate between the sets
        regions = values[_PAGE_VALUES:].reshape(n_workers, _REGION_VALUES)
        self._regions = [regions[i] for i in range(n_workers)]
        self._own = self._regions[worker]

    def open(self, model: int) -> None:
        """Set the model that this worker counts for; counts of another one are dropped.

        `model` identifies the model and the order of its cells; not 0.
        """
        own = self._own
        if own[_MODEL] != model:
            own[_MODEL] = 0  # while the sets have the counts of the other model
            own[_TURNS : _TURNS + 2] = _UNUSED
            own[_MODEL] = model

    def add(self, model: int, n_rows: int, cells: Array, max_rows: int) -> None:
        """Add counted rows of this worker; those of a model that it no longer counts for are dropped.

        `cells` is int64, shape (n_cells,). `max_rows` is the largest number of rows of the window.
        """
        own, turn = self._own, int(self._turn[0])
        if own[_MODEL] != model:
            return
        at = turn % 2
        counts = self._counts(own, at, len(cells))
        if own[_TURNS + at] != turn:
            own[_TURNS + at] = _UNUSED
            own[_ROWS + at] = 0
            counts[:] = 0
            own[_TURNS + at] = turn
        counts += cells
        own[_ROWS + at] += n_rows
        if 2 * sum(int(region[_ROWS + at]) for region, _ in self._sets(model, (turn,))) >= max_rows:
            self._turn[0] = turn + 1  # workers that notice at the same time write the same number

    def total(self, model: int, n_cells: int) -> tuple[int, Array]:
        """Return the number of rows of a model in the window, and their counts, int64, shape (n_cells,)."""
        turn = int(self._turn[0])
        n_rows, cells = 0, np.zeros(n_cells, np.int64)
        for region, at in self._sets(model, (turn - 1, turn)):
            n_rows += int(region[_ROWS + at])
            cells += self._counts(region, at, n_cells)
        return n_rows, cells

    def _sets(self, model: int, turns: tuple[int, ...]) -> Iterator[tuple[Array, int]]:
        """Yield the region and the position of each set with counts of a model in some turns."""
        for region in self._regions:
            for at in range(2):
                if region[_MODEL] == model and region[_TURNS + at] in turns:
                    yield region, at

    @staticmethod
    def _counts(region: Array, at: int, n_cells: int) -> Array:
        start = _CELLS + at * MOST_CELLS
        counts: Array = region[start : start + n_cells]
        return counts
