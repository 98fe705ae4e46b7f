"""Prediction of waiting requests in common batches.

Requests that the event loop decodes in one turn are encoded one by one and predicted together in the next turn: one
call for all costs little more than a call for one. There is no thread, lock or timer per request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

from gpupipe.serve.problems import RequestProblem
from gpupipe.table.row_encoder import RowCells

Result = TypeVar("Result")
Columns = list[list[Any]]  # the values of each output, as Python values


class Answer(NamedTuple):
    """The predictions of a request: rows ``start`` to ``stop`` of its batch."""

    columns: Columns
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class WaitingRows(Generic[Result]):
    """Rows that wait for their result until `deadline` (`time.perf_counter`)."""

    cells: RowCells
    deadline: float
    answer: asyncio.Future[Result]


class RowQueue(Generic[Result]):
    """Waiting rows in the order of their arrival."""

    def __init__(self) -> None:
        self.n_rows = 0
        self._waiting: deque[WaitingRows[Result]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, rows: WaitingRows[Result]) -> None:
        """Add rows."""
        self._waiting.append(rows)
        self.n_rows += rows.cells.n_rows

    def take(self, max_rows: int) -> list[WaitingRows[Result]]:
        """Remove and return the first rows, at most `max_rows` unless the first ones are more.

        Those that have waited too long fail, and those whose client is gone are dropped.
        """
        batch: list[WaitingRows[Result]] = []
        n_rows, now = 0, perf_counter()
        while self._waiting and (not batch or n_rows + self._waiting[0].cells.n_rows <= max_rows):
            waiting = self._waiting.popleft()
            self.n_rows -= waiting.cells.n_rows
            if waiting.answer.done():  # the client is gone
                continue
            if now > waiting.deadline:
                waiting.answer.set_exception(RequestProblem("unavailable", "the request was not answered in time"))
                continue
            batch.append(waiting)
            n_rows += waiting.cells.n_rows
        return batch


class Coalescer:
    """Queue of encoded rows.

    `predict` returns the output columns of encoded rows; a call has at most `max_rows` rows, unless a single request
    has more. `wait_seconds` is the time that the first request of a batch waits for others; 0: until the next turn of
    the event loop. `on_batch` is called with the number of rows of each batch.
    """

    def __init__(
        self,
        predict: Callable[[RowCells], Columns],
        max_rows: int,
        wait_seconds: float = 0.0,
        on_batch: Callable[[int], None] = lambda n_rows: None,
    ) -> None:
        self._predict = predict
        self._max_rows = max_rows
        self._wait_seconds = wait_seconds
        self._on_batch = on_batch
        self._queue: RowQueue[Answer] = RowQueue()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None

    def submit(self, cells: RowCells, deadline: float) -> asyncio.Future[Answer]:
        """Return the future predictions of `cells`; they fail if `deadline` (`time.perf_counter`) passes first."""
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._queue.append(WaitingRows(cells, deadline, answer))
        if self._timer is None:
            if self._wait_seconds > 0:
                self._timer = self._loop.call_later(self._wait_seconds, self._flush)
            else:
                self._timer = self._loop.call_soon(self._flush)
        elif self._wait_seconds > 0 and self._queue.n_rows >= self._max_rows:
            self._timer.cancel()
            self._timer = self._loop.call_soon(self._flush)
        return answer

    def _flush(self) -> None:
        batch = self._queue.take(self._max_rows)
        # The next batch waits for one turn, so that new requests, and health checks, are read in between.
        self._timer = self._loop.call_soon(self._flush) if self._queue else None
        if batch:
            self._answer(batch)

    def _answer(self, batch: list[WaitingRows[Answer]]) -> None:
        cells = RowCells.concatenate([waiting.cells for waiting in batch])
        try:
            columns = self._predict(cells)
        except Exception as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
                return
            for waiting in batch:  # a request that cannot be predicted fails alone
                self._answer([waiting])
            return
        self._on_batch(cells.n_rows)
        start = 0
        for waiting in batch:
            stop = start + waiting.cells.n_rows
            waiting.answer.set_result(Answer(columns, start, stop))
            start = stop
