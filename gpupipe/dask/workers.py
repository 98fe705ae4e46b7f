"""Workers of a Dask cluster, any of which may be lost at any time.

Results of a lost worker are recomputed by others, starting from reading. Every wait has a deadline: see
`gpupipe.dask.health`.
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
from distributed import CancelledError, Client, Future, futures_of, wait

from gpupipe.dask.health import SENT, HealthMonitor, key_of
from gpupipe.dask.worker_process import METRIC, NO_ARGUMENT, WorkerSettings, identity, measure_usage, run_task
from gpupipe.errors import ClusterError, ConfigError, DeviceError
from gpupipe.partitions.workers import ResultHandle, Workers, WorkerUsage, pass_progress

Result = TypeVar("Result")

LOOK_SECONDS = 0.5
SOON = 1  # priority of tasks that must start together: before tasks that wait for a thread
USE_SECONDS = 5.0  # for the workers' usage figures, which are optional


@dataclass(frozen=True, eq=False)
class DaskHandle(ResultHandle[Result]):
    """A result on a Dask worker: its future, and a description of its task for messages."""

    future: Future
    label: str


class DaskWorkers(Workers):
    """Workers driven by a Dask client; made by `gpupipe.dask.connect.connect`.

    A wait ends after `deadline` seconds without progress. With `direct`, this process connects to the workers directly,
    not through the scheduler. `reason` is that for the device, for the timeline. `outputs` is the folder with the
    output of the workers, if it is captured: see `gpupipe.dask.worker_output`.
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
        self.client = client
        self.settings = settings
        self._direct = direct
        self.device = settings.device
        self.reason = reason
        self.dashboard = dashboard
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
        """See `Workers.map`; one message, with the function pickled once, starts all tasks.

        `pinned_to` is the address of the only worker that may run them, before its other tasks.
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
        """See `Workers.put`; the value is part of a task, so that it survives the loss of its worker."""
        self.health.check_scheduler()
        label = "values sent to the workers"
        return DaskHandle(self.client.submit(identity, value, key=key_of(label, SENT), pure=False), label)

    def partitions(self, collection: Any) -> list[DaskHandle[Any]]:
        """See `Workers.partitions`; a persisted partition is used in place."""
        self.health.check_scheduler()
        # Dask would wait for results that this scheduler does not have.
        if any(future.cancelled() or not self._is_here(future.client) for future in futures_of(collection)):
            raise ConfigError(
                "the partitions of the collection are not on this cluster",
                where="cluster",
                fix="pass the client that persisted them, while it is open: gp.Pipeline(collection, cluster=client)",
            )
        futures = self.client.compute(collection.to_delayed())
        n = len(futures)
        return [DaskHandle(future, f"partition {i + 1} of {n} of the collection") for i, future in enumerate(futures)]

    def _is_here(self, client: Client) -> bool:
        """Return whether a client is connected to the same scheduler."""
        known, ours = client.scheduler, self.client.scheduler
        return known is not None and ours is not None and bool(known.address == ours.address)

    def wait(self, handles: Iterable[ResultHandle[Any]]) -> None:
        """See `Workers.wait`."""
        self.health.restart_clock()
        self._await([handle for handle in handles if isinstance(handle, DaskHandle)])

    def gather(self, handles: Iterable[ResultHandle[Result]]) -> list[Result]:
        """See `Workers.gather`.

        Raise errors of the function; `LimitError` if the workers run out of memory; `ClusterError`, with the tasks
        waited for, if workers or the scheduler are lost, or there is no progress for the deadline.
        """
        handles = list(handles)
        self.wait(handles)
        return self._fetch([handle for handle in handles if isinstance(handle, DaskHandle)])

    def poll(self, waiting_for: Sequence[str] = (), progress: object = None) -> None:
        """Update the list of workers; raise as `HealthMonitor.poll`, or if the scheduler is gone."""
        self.health.check_scheduler()
        self.health.poll(progress, waiting_for)
        workers = self.health.workers
        if workers:  # all may be lost for a moment and restarted
            self.n_workers = len(workers)
            self.n_threads = sum(worker["nthreads"] for worker in workers.values())

    @property
    def n_lost(self) -> int:
        """The number of workers known to be lost so far."""
        return len(self.health.lost)

    def take_warnings(self) -> list[str]:
        """Return the warnings since the last call: the workers that were lost."""
        if self.client.status == "running":
            self.poll()
        new = self.health.lost[self._reported :]
        self._reported += len(new)
        lost = "worker {} was lost; others recomputed its results{}"
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
        """Return the usage of each worker; for one that does not answer, as of its last heartbeat."""
        self.poll()
        try:
            now = self.health.query(self._ask_each(), USE_SECONDS)
        except ClusterError:
            now = {}
        workers = sorted(self.health.workers.items())
        return [_use(address, worker["metrics"], now.get(address)) for address, worker in workers]

    async def _ask_each(self) -> dict[str, tuple[int, float, int, int]]:
        """Return the usage reported by each worker; lost workers are missing."""
        said: dict[str, tuple[int, float, int, int]] = await self.client.run(measure_usage, on_error="ignore")
        return said

    def _await(self, remote: Sequence[DaskHandle[Any]]) -> None:
        """Wait until all are done, or until it is certain which one failed first in their order."""
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
        """Raise the error of the first failed handle, unless an earlier one may still fail."""
        for handle in remote:
            if not handle.future.done():
                return
            if handle.future.status != "finished":
                self.health.check_scheduler()
                self._raise(handle.future.exception(timeout=self.health.deadline), handle.label)

    def _fetch(self, remote: Sequence[DaskHandle[Any]]) -> list[Any]:
        """Return finished results; results lost meanwhile are recomputed and waited for."""
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
    """Return arguments with handles replaced by Dask futures."""
    return [argument.future if isinstance(argument, DaskHandle) else argument for argument in arguments]


def _use(address: str, metrics: dict[str, Any], now: tuple[int, float, int, int] | None) -> WorkerUsage:
    before = (0, 0.0, metrics.get("memory", 0), metrics.get("managed_bytes", 0))
    tasks, seconds, peak, held = now or metrics.get(METRIC, before)
    spilled = metrics.get("spilled_bytes", {}).get("disk", 0)
    return WorkerUsage(address, tasks, seconds, held, spilled, peak)
