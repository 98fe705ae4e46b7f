"""Counts of the rows that a worker predicts, off the path of the requests.

Predicted rows wait until some hundred can be counted at once, and are counted between the turns of the event loop, a
few columns at a time. A thread would hold the interpreter lock for longer than these columns take.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from gpupipe.inference.drift.report import DriftReport
from gpupipe.inference.drift.row_cell_counter import PredictedRows
from gpupipe.serve.drift_window import DriftWindow
from gpupipe.serve.served_reference import ServedReference
from gpupipe.table.row_encoder import Row, RowCells

ROWS = 512  # counted at once
TURN_SECONDS = 100e-6  # of counting, in a turn of the event loop
END = object()

log = logging.getLogger("gpupipe.serve")


class DriftRecorder:
    """Counter of the rows that a model predicts in this worker.

    `version` is that of the model, hexadecimal. `max_rows` is the largest number of rows of the window.
    """

    def __init__(self, reference: ServedReference, window: DriftWindow, version: str, max_rows: int) -> None:
        self._reference = reference
        self._window = window
        self._max_rows = max_rows
        self._counter = reference.counter
        self._clear()
        self._steps: Iterator[None] | None = None  # of the rows that are being counted
        self._turn: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()
        self._model = int(version, 16) or 1
        window.open(self._model)

    def add(self, cells: RowCells, rows: Sequence[Row], outputs: Sequence[list[Any]]) -> None:
        """Add predicted rows; they are counted later.

        `rows` have the raw values, and `outputs` the values of each output.
        """
        # Bytes and flat lists: the garbage collector scans each container that outlives its request several times.
        self._records.append(cells.records.tobytes())
        for values, position in zip(self._scores, self._counter.positions, strict=True):
            values += outputs[position]
        if self._counter.needs_rows:
            self._rows += rows
        self._n_waiting += cells.n_rows
        if self._n_waiting >= ROWS:
            self.start()

    def start(self) -> None:
        """Count waiting rows, beginning in the next turn of the event loop."""
        if self._turn is None and self._has_rows:
            self._turn = self._loop.call_soon(self._count)

    async def report(self) -> DriftReport:
        """Return the report on the rows in the window of all workers, which has all rows of this one."""
        return await _between_turns(self._report_steps())

    def _report_steps(self) -> Generator[None, None, DriftReport]:
        while self._has_rows:
            self._step()
            yield
        return (yield from self._reference.report_steps(*self._window.total(self._model, self._counter.n_cells)))

    @property
    def _has_rows(self) -> bool:
        return self._steps is not None or self._n_waiting > 0

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
            if not self._n_waiting:
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
        """Count the waiting rows, one column of about `ROWS` rows per step."""
        n_rows, records = self._n_waiting, np.frombuffer(b"".join(self._records), self._counter.dtype)
        whole = PredictedRows(records, self._scores, self._rows)
        self._clear()
        height = -(-n_rows // max(1, n_rows // ROWS))
        for start in range(0, n_rows, height):
            yield
            part = whole[start : start + height]
            cells = np.zeros(self._counter.n_cells, np.int64)
            yield from self._counter.count_steps(part, cells)
            self._window.add(self._model, len(part.records), cells, self._max_rows)

    def _clear(self) -> None:
        """Begin new lists of waiting rows."""
        self._records: list[bytes] = []
        self._scores: list[list[Any]] = [[] for _ in self._counter.positions]
        self._rows: list[Row] = []
        self._n_waiting = 0


async def _between_turns(steps: Generator[None, None, DriftReport]) -> DriftReport:
    """Return the result of steps, some of which run in each turn of the event loop."""
    end = perf_counter() + TURN_SECONDS
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: DriftReport = done.value
            return found
        if perf_counter() > end:
            await asyncio.sleep(0)
            end = perf_counter() + TURN_SECONDS
