"""Counts of the rows that a worker predicts, off the path of the requests.

Predicted rows wait until some hundred can be counted at once, and are counted between the turns of the event loop, a
few columns at a time. There is no thread: it would hold the interpreter lock for longer than these columns take.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from gpupipe.drift.report import DriftReport
from gpupipe.drift.row_cell_counter import PredictedRows
from gpupipe.serve.drift_window import DriftWindow
from gpupipe.serve.served_reference import ServedReference
from gpupipe.table.row_encoder import Row, RowCells

ROWS = 512  # counted at once
TURN_SECONDS = 100e-6  # of counting, in a turn of the event loop
END = object()

log = logging.getLogger("gpupipe.serve")


class DriftRecorder:
    """Counter of the rows that a model predicts in this worker.

    Parameters
    ----------
    reference : ServedReference
    window : DriftWindow
    version : str
        Version of the model, hexadecimal.
    max_rows : int
        The largest number of rows of the window.
    """

    def __init__(self, reference: ServedReference, window: DriftWindow, version: str, max_rows: int) -> None:
        self._reference, self._window, self._max_rows = reference, window, max_rows
        self._waiting: deque[PredictedRows] = deque()
        self._n_waiting = 0
        self._steps: Iterator[None] | None = None  # of the rows that are being counted
        self._turn: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()
        window.open(int(version, 16) or 1)

    def add(self, cells: RowCells, rows: Sequence[Row], outputs: Sequence[list[Any]]) -> None:
        """Add predicted rows; they are counted later.

        Parameters
        ----------
        cells : RowCells
        rows : sequence of mapping
            The raw values.
        outputs : sequence of list
            The values of each output.
        """
        if not self._reference.counter.needs_rows:
            rows = ()
        if cells.n_rows <= ROWS:
            self._waiting.append(PredictedRows(cells, rows, outputs))
        else:
            for start in range(0, cells.n_rows, ROWS):
                part = slice(start, start + ROWS)
                self._waiting.append(PredictedRows(cells[part], rows[part], [values[part] for values in outputs]))
        self._n_waiting += cells.n_rows
        if self._n_waiting >= ROWS:
            self.start()

    def start(self) -> None:
        """Count waiting rows, beginning in the next turn of the event loop."""
        if self._turn is None and self._has_rows:
            self._turn = self._loop.call_soon(self._count)

    async def report(self) -> DriftReport:
        """Return the report on the rows in the window of all workers, which has all rows of this one."""
        end = perf_counter() + TURN_SECONDS
        while self._has_rows:
            self._step()
            if perf_counter() > end:
                await asyncio.sleep(0)
                end = perf_counter() + TURN_SECONDS
        return self._reference.report(*self._window.total(self._reference.counter.n_cells))

    @property
    def _has_rows(self) -> bool:
        return self._steps is not None or bool(self._waiting)

    def _count(self) -> None:
        self._turn = None
        end = perf_counter() + TURN_SECONDS
        while self._step():
            if perf_counter() > end:
                self._turn = self._loop.call_soon(self._count)
                return
        if self._n_waiting >= ROWS:
            self.start()

    def _step(self) -> bool:
        """Count one column of the current rows; return False if that was the last one, or no rows wait."""
        if self._steps is None:
            if not self._waiting:
                return False
            self._steps = self._count_next()
        try:
            is_last = next(self._steps, END) is END
        except Exception:  # a prediction must not fail because of a count
            log.exception("predicted rows could not be counted")
            is_last = True
        if is_last:
            self._steps = None
        return not is_last

    def _count_next(self) -> Iterator[None]:
        """Count the next rows, one column per step."""
        parts, n_rows = [], 0
        while self._waiting and (not parts or n_rows + self._waiting[0].cells.n_rows <= ROWS):
            parts.append(self._waiting.popleft())
            n_rows += parts[-1].cells.n_rows
        self._n_waiting -= n_rows
        rows = PredictedRows.concatenate(parts)
        yield
        counter = self._reference.counter
        cells = np.zeros(counter.n_cells, np.int64)
        yield from counter.count_steps(rows, cells)
        self._window.add(n_rows, cells, self._max_rows)
