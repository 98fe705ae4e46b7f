"""Training progress on workers: rank 0 sends its reports to the driver as Dask events."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

from distributed import Client, Worker, get_worker

from gpupipe.models.progress import ProgressReport, ReadProgress, ShowProgress

SEND_SECONDS = 0.5  # minimum between two reports of a task: they go through the scheduler


@dataclass(frozen=True)
class WorkerReports:
    """Sender of reports from a worker to the driver; made by `show_worker_reports` and pickled into tasks."""

    topic: str

    def send(self, worker: Worker, report: ProgressReport | None) -> None:
        """Send a report from `worker`."""
        if report is not None:
            worker.log_event(self.topic, {"report": asdict(report)})  # Dask adds its own keys

    @contextmanager
    def __call__(self, read: ReadProgress) -> Iterator[None]:
        """Send what `read` returns while the ``with`` block runs in a task (`gpupipe.models.progress.ShowProgress`)."""
        worker, is_over = get_worker(), threading.Event()

        def send_on() -> None:
            sent = None
            while not is_over.wait(SEND_SECONDS):
                report = read()
                if report != sent:
                    self.send(worker, report)
                    sent = report

        thread = threading.Thread(target=send_on, name="gpupipe-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            self.send(worker, read())


class ThrottledReports:
    """Sender of at most one report per task and `SEND_SECONDS`, and always the last one."""

    def __init__(self, reports: WorkerReports) -> None:
        self._reports, self._sent_at = reports, 0.0

    def send(self, report: ProgressReport) -> None:
        """Send a report from the worker that runs the current task, unless one was sent just before."""
        now = time.monotonic()
        if now - self._sent_at >= SEND_SECONDS or report.done == report.total:
            self._sent_at = now
            self._reports.send(get_worker(), report)


@contextmanager
def show_worker_reports(client: Client, show_progress: ShowProgress) -> Iterator[WorkerReports]:
    """Display the reports that tasks send during the ``with`` block through what it yields."""
    reports, latest = WorkerReports(f"gpupipe-progress-{uuid4().hex}"), list[ProgressReport]()

    def take(event: tuple[float, dict[str, Any]]) -> None:
        latest[:] = [ProgressReport(**event[1]["report"])]

    def read() -> ProgressReport | None:
        return latest[0] if latest else None

    client.subscribe_topic(reports.topic, take)
    try:
        with show_progress(read):
            yield reports
    finally:
        with suppress(Exception):  # the scheduler may be lost: the error that ended the training must reach the user
            client.unsubscribe_topic(reports.topic)
