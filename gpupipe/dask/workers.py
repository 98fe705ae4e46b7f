"""The workers of a Dask cluster, of which any may be lost at any time.

What a lost worker held is computed again by others, from the tasks that read it on. Nothing is waited for without an
end: see `gpupipe.dask.health`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import cloudpickle
from distributed import CancelledError, Client, Future, wait

from gpupipe.dask.health import SENT, HealthMonitor, key_of
from gpupipe.dask.worker_process import METRIC, NO_ARGUMENT, WorkerSettings, identity, measure_usage, run_task
from gpupipe.errors import ClusterError, DeviceError
from gpupipe.partitions.workers import ResultHandle, Workers, WorkerUsage, pass_progress

Result = TypeVar("Result")

LOOK_SECONDS = 0.5
SOON = 1  # the priority of tasks that must begin together: before what waits for a thread of a worker
USE_SECONDS = 5.0  # for workers to say what they did: nothing depends on it


@dataclass(frozen=True, eq=False)
class DaskHandle(ResultHandle[Result]):
    """A result on a Dask worker: its future, and a description of its task for messages."""

    future: Future
    label: str


class DaskWorkers(Workers):
    """The workers that a client of Dask leads; `gpupipe.dask.connect.connect` makes one.

    Parameters
    ----------
    client : distributed.Client
    settings : WorkerSettings
        How each of them computes.
    deadline : float
        Seconds for which all of them may do nothing while something is waited for.
    direct : bool
        Whether this process reaches the workers themselves, without the scheduler in between.
    reason : str
        Why they compute where they do, in words.
    outputs : Path, optional
        The folder of what the workers print, where that is kept: see `gpupipe.dask.worker_output`.

    Attributes
    ----------
    client : distributed.Client
        Dask's own way in, for libraries that train on Dask by themselves.
    health : HealthMonitor
    device, reason : str
        For the timeline.
    dashboard : str
        Where Dask shows its work; ``""``: nowhere.
    """

    def __init__(
        self,
        client: Client,
        settings: WorkerSettings,
        deadline: float,
        *,
        direct: bool,
        reason: str = "",
        dashboard: str = "",
        outputs: Path | None = None,
    ) -> None:
        self.client, self.settings, self._direct = client, settings, direct
        self.device, self.reason, self.dashboard = settings.device, reason, dashboard
        self.health = HealthMonitor(client, deadline, outputs)
        self._reported, self._fallbacks = 0, list[str]()
        self.poll()
        self.n_workers_at_first = self.n_workers

    def map(
        self,
        function: Callable[..., Result],
        each: Iterable[Sequence[Any]],
        labels: Sequence[str],
        pinned_to: str | None = None,
    ) -> list[DaskHandle[Result]]:
        """See `Workers.map`; one message starts all tasks, in which the function is pickled once.

        Parameters
        ----------
        pinned_to : str, optional
            The address of the worker that runs them before its other tasks, and nowhere else if it is lost.
        """
        self.health.check_scheduler()
        labels = [label or getattr(function, "__name__", "a task") for label in labels]
        futures = self.client.map(
            run_task,
            [self.settings] * len(labels),
            [cloudpickle.dumps(function)] * len(labels),
            *zip_longest(*map(_with_futures, each), fillvalue=NO_ARGUMENT),
            key=[key_of(label) for label in labels],
            pure=False,
            workers=pinned_to,
            priority=0 if pinned_to is None else SOON,
        )
        return [DaskHandle(future, label) for future, label in zip(futures, labels, strict=True)]

    def put(self, value: Any) -> DaskHandle[Any]:
        """See `Workers.put`; it is part of a task, so that it is there again after the loss of who held it."""
        self.health.check_scheduler()
        label = "what is sent to the workers"
        return DaskHandle(self.client.submit(identity, value, key=key_of(label, SENT), pure=False), label)

    def wait(self, handles: Iterable[ResultHandle[Any]]) -> None:
        """See `Workers.wait`."""
        self.health.restart_clock()
        self._await([handle for handle in handles if isinstance(handle, DaskHandle)])

    def gather(self, handles: Iterable[ResultHandle[Result]]) -> list[Result]:
        """See `Workers.gather`.

        Raises
        ------
        GpupipeError
            The function's own; `LimitError` if the workers' memory does not suffice; `ClusterError` if workers were
            lost for good, the scheduler is gone, or nothing has moved for the deadline: with what was waited for.
        """
        handles = list(handles)
        self.wait(handles)
        return self._fetch([handle for handle in handles if isinstance(handle, DaskHandle)])

    def poll(self, waiting_for: Sequence[str] = (), progress: object = None) -> None:
        """Update the list of workers; raise as `HealthMonitor.poll`, or if the scheduler is gone."""
        self.health.check_scheduler()
        self.health.poll(progress, waiting_for)
        workers = self.health.workers
        if workers:  # all may be lost for a moment, and started again
            self.n_workers = len(workers)
            self.n_threads = sum(worker["nthreads"] for worker in workers.values())

    @property
    def n_lost(self) -> int:
        """How many workers have been lost so far, as far as it was noticed."""
        return len(self.health.lost)

    def remarks(self) -> list[str]:
        """Return what should be known and was not told yet: the workers that were lost."""
        if self.client.status == "running":
            self.poll()
        new = self.health.lost[self._reported :]
        self._reported += len(new)
        lost = "the worker {} was lost; others computed again what it held{}"
        return [lost.format(address, self.health.last_output(address)) for address in new]

    def fall_back(self, what: str, where: str, fix: str) -> None:
        """See `Workers.fall_back`."""
        if self.settings.options.fallback == "forbid":
            raise DeviceError(
                f"{what}, and fallback to the CPU is forbidden", where=where, fix=f"{fix}, or set fallback: allow"
            )
        self._fallbacks.append(f"{what} ({where})")

    def take_fallbacks(self) -> tuple[str, ...]:
        """See `Workers.take_fallbacks`."""
        found, self._fallbacks = tuple(self._fallbacks), []
        return found

    def homes(self, handles: Sequence[ResultHandle[Any]]) -> list[str]:
        """See `Workers.homes`."""
        futures = [handle.future for handle in handles if isinstance(handle, DaskHandle)]
        who = self.client.who_has(futures)
        return [next(iter(who.get(future.key, ())), "") for future in futures]

    def usage(self) -> list[WorkerUsage]:
        """Return what each worker has done and holds; of one that does not answer, as of its last sign of life."""
        self.poll()
        try:
            now = self.health.query(self._ask_each(), USE_SECONDS)
        except ClusterError:
            now = {}
        workers = sorted(self.health.workers.items())
        return [_use(address, worker["metrics"], now.get(address)) for address, worker in workers]

    async def _ask_each(self) -> dict[str, tuple[int, float, int, int]]:
        """Return what each worker says that it has done; one that is lost meanwhile says nothing."""
        said: dict[str, tuple[int, float, int, int]] = await self.client.run(measure_usage, on_error="ignore")
        return said

    def _await(self, remote: Sequence[DaskHandle[Any]]) -> None:
        """Wait until all are done, or until it is certain which one failed first, by their order."""
        pending = list(remote)
        while pending := [handle for handle in pending if not handle.future.done()]:
            self._raise_failed(remote)
            self._progress = pass_progress(pending[0].label, len(remote) - len(pending), len(remote))
            with self.client.as_current(), suppress(TimeoutError, CancelledError):
                wait([handle.future for handle in pending], timeout=LOOK_SECONDS)
                continue
            self.poll([handle.label for handle in pending], len(pending))
        self._progress = None
        self._raise_failed(remote)

    def _raise_failed(self, remote: Sequence[DaskHandle[Any]]) -> None:
        """Raise the error of the first handle that failed, unless an earlier one may fail yet."""
        for handle in remote:
            if not handle.future.done():
                return
            if handle.future.status != "finished":
                self.health.check_scheduler()
                self._raise(handle.future.exception(timeout=self.health.deadline), handle.label)

    def _fetch(self, remote: Sequence[DaskHandle[Any]]) -> list[Any]:
        """Return results that are there; what is lost meanwhile is computed again, and waited for."""
        labels = [handle.label for handle in remote]
        futures = [handle.future for handle in remote]
        coming = self.client.gather(futures, direct=self._direct or None, asynchronous=True)
        fetched = asyncio.run_coroutine_threadsafe(coming, self.client.loop.asyncio_loop)
        try:
            while not concurrent.futures.wait([fetched], LOOK_SECONDS).done:
                self.poll(labels)
            found: list[Any] = fetched.result()
        except (Exception, CancelledError) as error:
            self._raise(error, ", ".join(labels[:1]))
        finally:
            fetched.cancel()
        return found

    def _raise(self, error: BaseException, label: str) -> NoReturn:
        explained = self.health.explain(error, label)
        raise explained from (None if explained is error else error)


def _with_futures(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments with Dask's futures for our handles."""
    return [argument.future if isinstance(argument, DaskHandle) else argument for argument in arguments]


def _use(address: str, metrics: dict[str, Any], now: tuple[int, float, int, int] | None) -> WorkerUsage:
    before = (0, 0.0, metrics.get("memory", 0), metrics.get("managed_bytes", 0))
    tasks, seconds, peak, held = now or metrics.get(METRIC, before)
    spilled = metrics.get("spilled_bytes", {}).get("disk", 0)
    return WorkerUsage(address, tasks, seconds, held, spilled, peak)
