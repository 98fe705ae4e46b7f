"""`ModelSlot`: the model that answers requests, with its queues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from time import perf_counter
from typing import Any

from gpupipe.errors import CellProblem, GpupipeError, RowError
from gpupipe.inference.explanation.explanation import Explanation, join_explanations
from gpupipe.report.text import printable
from gpupipe.serve.coalescer import Coalescer, Columns, RowQueue, WaitingRows
from gpupipe.serve.drift_recorder import DriftRecorder
from gpupipe.serve.explanations import explained_outputs, explanation_columns
from gpupipe.serve.metrics import Metrics
from gpupipe.serve.problems import MOST_PROBLEMS, RequestProblem, invalid_rows
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.settings import ServeSettings
from gpupipe.serve.time_limit import time_limit
from gpupipe.table.row_encoder import Row, RowCells

MAX_ROWS = 32  # at once: trees explain as many in less than twice the time of one
log = logging.getLogger("gpupipe.serve")

QUICK_SECONDS = 0.0002


@dataclass(frozen=True, eq=False)
class ModelSlot:
    """A model with its queues. A reload replaces the slot, so no request sees half a change."""

    model: ServedModel
    queue: Coalescer
    explanations: ExplanationQueue
    drift: DriftRecorder | None = None

    @staticmethod
    def of(model: ServedModel, settings: ServeSettings, metrics: Metrics) -> ModelSlot:
        """Return the slot of a model, whose batches and rows are counted in `metrics`."""
        queue = model.coalescer(settings.max_batch, settings.batch_wait_seconds, metrics.count_batch)
        drift = None
        if model.reference is not None and settings.drift == "on":
            drift = DriftRecorder(model.reference, metrics.drift, model.version, settings.drift_rows)
        explain = time_limit(settings.operation_seconds)(model.scorer.explain_cells)
        return ModelSlot(model, queue, ExplanationQueue(explain), drift)

    async def predict(
        self, rows: Sequence[Row], deadline: float, max_rows: int, n_first: int | None = None
    ) -> tuple[Columns, dict[str, int], int]:
        """Return output columns of rows, the unseen levels by column, and the number of rule warnings.

        Rows are encoded and predicted in slices of `max_rows`, between which other requests have their turn. The first
        slice has `n_first` rows (default: `max_rows`), and the next ones more while they are encoded quickly. Raise
        RequestProblem if cells are wrong (status 422), or the deadline has passed (503).
        """
        scorer, queue = self.model.scorer, self.queue
        n_rows = len(rows)
        start = 0
        size = n_first or max_rows
        if n_rows <= size:
            try:
                cells = scorer.encode(rows)
            except RowError as error:
                raise invalid_rows(error.problems) from None
            columns, start, stop = await queue.submit(cells, deadline)
            if start or stop != len(columns[0]):
                columns = [column[start:stop] for column in columns]
            if self.drift is not None:
                self.drift.add(cells, rows, columns)
            return columns, cells.n_unseen, len(cells.warnings)
        parts: list[tuple[slice, RowCells, Columns]] = []
        problems: list[CellProblem] = []
        unseen: dict[str, int] = {}
        n_warnings = 0
        whole = self._encode_unique(rows)
        while start < n_rows and len(problems) < MOST_PROBLEMS:
            of_slice, started = slice(start, start + size), perf_counter()
            try:
                cells = scorer.encode(rows[of_slice]) if whole is None else whole[of_slice]
            except RowError as error:
                problems += [CellProblem(p.row + start, p.column, p.value, p.rule) for p in error.problems]
            start += size
            if perf_counter() - started < QUICK_SECONDS:
                size = min(2 * size, max_rows)
            if problems:  # the remaining rows are only checked
                await asyncio.sleep(0)
                continue
            answer = await queue.submit(cells, deadline)
            parts.append((of_slice, cells, [column[answer.start : answer.stop] for column in answer.columns]))
            n_warnings += len(cells.warnings)
            for name, n in cells.n_unseen.items():
                unseen[name] = unseen.get(name, 0) + n
        if problems:
            raise invalid_rows(problems)
        n_warnings += 0 if whole is None else len(whole.warnings)
        if self.drift is not None:
            for of_slice, cells, outputs in parts:
                self.drift.add(cells, rows[of_slice], outputs)
        each = zip(*(outputs for _, _, outputs in parts), strict=True)
        joined = [list(chain.from_iterable(columns)) for columns in each]
        return joined, unseen, n_warnings

    async def explain(
        self, rows: Sequence[Row], columns: Columns, n_columns: int, deadline: float
    ) -> dict[str, list[dict[str, Any]]]:
        """Return the explanations of predicted rows as further outputs; see `explanation_columns`.

        Raise RequestProblem if the model cannot be explained (status 422), or the deadline has passed (503).
        """
        if not rows:
            return {output.name: [] for output in explained_outputs(self.model)}
        found = await self.explanations.explain(self.model.scorer.encode(rows), deadline)
        return explanation_columns(self.model, rows, columns, found, n_columns)

    def _encode_unique(self, rows: Sequence[Row]) -> RowCells | None:
        """Return all rows encoded at once, if a rule compares them with each other; else None."""
        if not any(rule.rules.unique for rule in self.model.scorer.rules):
            return None
        try:
            return self.model.scorer.encode(rows)
        except RowError as error:
            raise invalid_rows(error.problems) from None


class ExplanationQueue:
    """Queue of encoded rows to explain, in the order of their arrival.

    A separate thread explains them, so that predictions do not wait: the explanation of a row takes from 0.3 ms, for
    trees in compiled code without the interpreter lock, to a second.

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
