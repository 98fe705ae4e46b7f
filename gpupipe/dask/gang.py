"""Gang scheduling: one task on each of several workers, all at the same time; no worker can be replaced."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Concatenate, TypeVar
from uuid import uuid4

from distributed import CancelledError, wait

from gpupipe.backends.base import Backend
from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.dask.health import MORE_MEMORY, key_of
from gpupipe.dask.worker_process import run_task
from gpupipe.dask.workers import LOOK_SECONDS, DaskHandle, DaskWorkers
from gpupipe.errors import ClusterError, GpupipeError, LimitError

Result = TypeVar("Result")

TRAININGS = 3  # begun at most; each but the last may lose a worker
SOON = 1  # before what waits for a thread of a worker


class GangError(ClusterError):
    """A worker of a gang was lost or does not answer the others; the remaining workers may start over."""


class Gang:
    """Some workers of a cluster, by rank. A context manager, which releases all of its tasks on exit.

    Parameters
    ----------
    workers : DaskWorkers
    addresses : sequence of str
        Of the worker of each rank.
    what : str
        What they do together, for messages.
    """

    def __init__(self, workers: DaskWorkers, addresses: Sequence[str], what: str) -> None:
        self.workers, self.addresses, self.what = workers, tuple(addresses), what
        self.n_threads: dict[str, int] = workers.client.nthreads(list(addresses))
        self._handles: list[DaskHandle[Any]] = []
        self._where: dict[Any, str] = {}  # the keys of its tasks → the addresses of the workers

    def __enter__(self) -> Gang:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for handle in self._handles:
            handle.future.release()

    def submit(
        self, rank: int, function: Callable[Concatenate[Backend, ...], Result], *arguments: Any
    ) -> DaskHandle[Result]:
        """As `Workers.submit`, on the worker of this rank, and nowhere else if it is lost."""
        given = [a.future if isinstance(a, DaskHandle) else a for a in arguments]
        label = f"{self.what}, worker {rank + 1} of {len(self.addresses)}"
        future = self.workers.client.submit(
            run_task, self.workers.settings, function, *given, key=key_of(function.__name__, uuid4().hex, label),
            pure=False, workers=[self.addresses[rank]], allow_other_workers=False, priority=SOON,
        )  # fmt: skip
        self._handles.append(DaskHandle(future, label))
        self._where[future.key] = self.addresses[rank]
        return self._handles[-1]

    def await_threads(self) -> None:
        """Wait until every worker has a thread that is free: tasks that wait for each other must not wait for one.

        Raises
        ------
        GangError
            If a worker is lost.
        ClusterError
            If nothing moves for the deadline.
        """
        self.workers.health.restart_clock()
        while busy := self._busy():
            self.workers.poll([f"{self.what}: a free thread of {address}" for address in busy])
            self.require_all()
            time.sleep(LOOK_SECONDS)  # Dask tells nobody of a thread that becomes free

    def gather(self, handles: Sequence[DaskHandle[Result]]) -> list[Result]:
        """Return the results of tasks of the gang, in order, as soon as all are there.

        Raises
        ------
        GangError
            If a worker is lost, or did not answer another. By then the others have ended what they did.
        GpupipeError
            The very error of a task, at once; or `ClusterError` if nothing has moved for the deadline.
        """
        self.workers.health.restart_clock()
        pending = list(handles)
        while pending := [handle for handle in pending if not handle.future.done()]:
            if self._lost() or any(handle.future.status == "error" for handle in handles):
                break
            self._wait(pending, "FIRST_COMPLETED")
            self.workers.poll([handle.label for handle in pending])
        self._let_end(pending, handles)
        self._raise_failed(handles)
        try:
            return self.workers.gather(handles)
        except ClusterError:
            self.require_all()
            raise

    def require_all(self) -> None:
        """Raise a GangError if a worker is lost."""
        self.workers.poll()
        if lost := self._lost():
            words = self.workers.health.last_output(lost[0])
            raise GangError(f"{len(lost)} workers were lost: {', '.join(lost)}{words}", where=self.what)

    def _busy(self) -> dict[str, int]:
        """Return how many tasks each worker has that has no thread to spare."""
        tasks = {address: len(keys) for address, keys in self.workers.client.processing(self.addresses).items()}
        return {address: n for address, n in tasks.items() if n >= self.n_threads.get(address, 1)}

    def _wait(self, pending: Sequence[DaskHandle[Any]], until: str) -> None:
        with self.workers.client.as_current(), suppress(TimeoutError, CancelledError):
            wait([handle.future for handle in pending], timeout=LOOK_SECONDS, return_when=until)

    def _let_end(self, pending: Sequence[DaskHandle[Any]], handles: Sequence[DaskHandle[Any]]) -> None:
        """Wait for the tasks of workers that live: one that misses another ends at the deadline of their exchange.

        Where a task has an error of its own, nothing is to begin again that would need them.
        """
        end = time.monotonic() + 2 * self.workers.health.deadline
        while left := [h for h in pending if not h.future.done() and self._where[h.future.key] not in self._lost()]:
            if any(_is_own(error) for _, error in self._failed(handles)):
                return
            if time.monotonic() > end:
                raise ClusterError(
                    f"{len(left)} of {len(self.addresses)} workers do not end what they began together",
                    where=self.what, fix="see their logs, and start them again",
                )  # fmt: skip
            self._wait(left, "ALL_COMPLETED")
            self.workers.poll()

    def _raise_failed(self, handles: Sequence[DaskHandle[Any]]) -> None:
        """Raise what is wrong with a task, rather than what came of it in the others, which missed it."""
        found = self._failed(handles)
        for handle, error in found:
            if is_out_of_memory(error):
                raise LimitError(f"a worker is out of memory: {error}", where=handle.label, fix=MORE_MEMORY) from error
            if isinstance(error, GpupipeError):
                raise error
        self.require_all()
        for handle, error in found:
            if isinstance(error, RuntimeError):  # what PyTorch raises of processes that do not answer
                raise GangError(f"an exchange failed: {str(error).splitlines()[0]}", where=handle.label) from error
            explained = self.workers.health.explain(error, handle.label)
            raise explained from (None if explained is error else error)

    def _failed(self, handles: Sequence[DaskHandle[Any]]) -> list[tuple[DaskHandle[Any], BaseException]]:
        """Return the tasks that have ended with an error, with that."""
        ended = [handle for handle in handles if handle.future.done() and handle.future.status != "finished"]
        return [(handle, handle.future.exception(timeout=self.workers.health.deadline)) for handle in ended]

    def _lost(self) -> list[str]:
        return [address for address in self.addresses if address not in self.workers.health.workers]


def _is_own(error: BaseException) -> bool:
    """Return whether a task has failed by itself, and not because it missed another."""
    return isinstance(error, GpupipeError) or is_out_of_memory(error)
