"""Queue of rows to explain. A separate thread explains them, so that predictions do not wait.

The explanation of a row takes from 0.3 ms, for trees in compiled code without the interpreter lock, to a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from gpupipe.errors import GpupipeError
from gpupipe.inference.explanation.explanation import Explanation, join_explanations
from gpupipe.report.text import printable
from gpupipe.serve.coalescer import RowQueue, WaitingRows
from gpupipe.serve.problems import RequestProblem
from gpupipe.table.row_encoder import RowCells

MAX_ROWS = 32  # at once: trees explain as many in less than twice the time of one

log = logging.getLogger("gpupipe.serve")


class ExplanationQueue:
    """Queue of encoded rows to explain, in the order of their arrival.

    Rows of several requests are explained together, and those of a request by slices of `MAX_ROWS`, between which other
    requests have their turn.
    """

    def __init__(self, explain: Callable[[RowCells], Explanation]) -> None:
        self._explain = explain
        self._queue: RowQueue[Explanation] = RowQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "explain")  # starts with the first rows
        self._is_busy = False

    async def explain(self, cells: RowCells, deadline: float) -> Explanation:
        """Return the explanation of at least one row.

        Raise RequestProblem if `deadline` (`time.perf_counter`) passes before all rows are explained (status 503), or
        the model cannot be explained (422).
        """
        starts = range(0, cells.n_rows, MAX_ROWS)
        return join_explanations([await self._submit(cells[start : start + MAX_ROWS], deadline) for start in starts])

    def _submit(self, cells: RowCells, deadline: float) -> asyncio.Future[Explanation]:
        answer: asyncio.Future[Explanation] = self._loop.create_future()
        self._queue.append(WaitingRows(cells, deadline, answer))
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._start)
        return answer

    def _start(self) -> None:
        batch = self._queue.take(MAX_ROWS)
        self._is_busy = bool(batch)
        if batch:
            cells = RowCells.concatenate([waiting.cells for waiting in batch])
            self._loop.run_in_executor(self._thread, self._explain, cells).add_done_callback(
                partial(self._answer, batch)
            )

    def _answer(self, batch: list[WaitingRows[Explanation]], done: asyncio.Future[Explanation]) -> None:
        error, start = done.exception(), 0
        if isinstance(error, GpupipeError):
            log.warning("the model cannot be explained: %s", printable(str(error)))
            error = RequestProblem("not_explainable", error.what)
        for waiting in batch:
            stop = start + waiting.cells.n_rows
            if waiting.answer.done():  # the client is gone
                pass
            elif error is not None:
                waiting.answer.set_exception(error)
            else:
                found = done.result()
                waiting.answer.set_result(replace(found, values=found.values[start:stop]))
            start = stop
        self._start()
