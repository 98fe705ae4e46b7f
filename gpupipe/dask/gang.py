"""Collective computations: tasks that run on several workers at the same time and restart if one is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, TypeVar

from distributed import CancelledError, wait

from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.dask.health import MORE_MEMORY
from gpupipe.dask.workers import LOOK_SECONDS, DaskHandle, DaskWorkers
from gpupipe.errors import ClusterError, GpupipeError, LimitError

Result = TypeVar("Result")

ATTEMPTS = 3  # all but the last may lose a worker


class GangError(ClusterError):
    """A worker of a gang was lost or does not answer; the remaining workers may start over."""


def retry_collective(workers: DaskWorkers, call: Callable[[int], Result], where: str) -> Result:
    """Return ``call(attempt)``, retried on the remaining workers if one is lost; attempts count from 1.

    The deadline of `workers` limits every wait. `call` raises `GangError` if a worker is lost; its other exceptions
    pass through. `where` says what is computed, for messages. Raise ClusterError if workers were lost in every attempt.
    """
    for attempt in range(1, ATTEMPTS + 1):
        workers.poll()  # only known workers can be reported as lost
        try:
            return call(attempt)
        except GangError as error:
            cause = error
    raise ClusterError(
        f"workers were lost in all {ATTEMPTS} attempts: {cause.what}",
        where=where,
        fix="find out what stops them: memory (cluster.memory_limit) or the machine; if an exchange between them takes "
        "longer, raise cluster.deadline",
    ) from cause


@contextmanager
def blame_lost_workers(workers: DaskWorkers, where: str) -> Iterator[int]:
    """Raise a GangError for an exception in the ``with`` block if a worker was lost; gpupipe's errors pass through.

    Yield the number of workers lost before.
    """
    n_lost = workers.n_lost
    try:
        yield n_lost
    except GpupipeError:
        raise
    except Exception as error:
        workers.poll()
        if workers.n_lost == n_lost:
            raise
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise GangError(f"a worker was lost: {said}", where=where) from error


class Gang:
    """Workers of a cluster by rank; a context manager that releases its tasks on exit.

    `addresses` are in the order of the ranks. `what` names the computation, for messages.
    """

    def __init__(self, workers: DaskWorkers, addresses: Sequence[str], what: str) -> None:
        self.workers = workers
        self.addresses = tuple(addresses)
        self.what = what
        self.n_threads: dict[str, int] = workers.client.nthreads(list(addresses))
        self._where: dict[DaskHandle[Any], str] = {}  # each task, and the address of its worker

    def __enter__(self) -> Gang:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for handle in self._where:
            handle.future.release()

    def submit(self, rank: int, function: Callable[..., Result], *arguments: Any) -> DaskHandle[Result]:
        """Run a task on the worker of this rank only, even if it is lost; see `Workers.submit`."""
        address, label = self.addresses[rank], f"{self.what}, worker {rank + 1} of {len(self.addresses)}"
        (handle,) = self.workers.map(function, [arguments], [label], address)
        self._where[handle] = address
        return handle

    def submit_each(self, function: Callable[..., Result], each: Iterable[Sequence[Any]]) -> list[DaskHandle[Result]]:
        """Run a task on every rank, with the rank's arguments in `each`; see `submit`."""
        return [self.submit(rank, function, *arguments) for rank, arguments in enumerate(each)]

    def await_threads(self) -> None:
        """Wait until every worker has a free thread: tasks that wait for each other must all run at once.

        Raise GangError if a worker is lost, and ClusterError if there is no progress for the deadline.
        """
        self.workers.health.restart_clock()
        while busy := self._busy():
            self.workers.poll([f"{self.what}: a free thread of {address}" for address in busy])
            self.require_all()
            time.sleep(LOOK_SECONDS)  # Dask sends no event when a thread becomes free

    def gather(self, handles: Sequence[DaskHandle[Result]]) -> list[Result]:
        """Return the results of tasks of the gang, in order.

        Raise GangError if a worker is lost or does not answer; by then the tasks of the others have ended. Raise the
        error of a task immediately, and ClusterError if there is no progress for the deadline.
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
        """Return the number of tasks of each worker without a free thread."""
        tasks = {address: len(keys) for address, keys in self.workers.client.processing(self.addresses).items()}
        return {address: n for address, n in tasks.items() if n >= self.n_threads.get(address, 1)}

    def _wait(self, pending: Sequence[DaskHandle[Any]], until: str) -> None:
        with self.workers.client.as_current(), suppress(TimeoutError, CancelledError):
            wait([handle.future for handle in pending], timeout=LOOK_SECONDS, return_when=until)

    def _let_end(self, pending: Sequence[DaskHandle[Any]], handles: Sequence[DaskHandle[Any]]) -> None:
        """Wait for the tasks of live workers: a task that waits for a lost worker ends at the deadline of the exchange.

        A task with its own error ends the wait: nothing will be retried.
        """
        end = time.monotonic() + 2 * self.workers.health.deadline
        while left := [h for h in pending if not h.future.done() and self._where[h] not in self._lost()]:
            if any(_is_own(error) for _, error in self._failed(handles)):
                return
            if time.monotonic() > end:
                raise ClusterError(
                    f"{len(left)} of {len(self.addresses)} workers did not finish their collective task",
                    where=self.what,
                    fix="see their logs, and restart them",
                )
            self._wait(left, "ALL_COMPLETED")
            self.workers.poll()

    def _raise_failed(self, handles: Sequence[DaskHandle[Any]]) -> None:
        """Raise the error of the task that failed first, not the errors of tasks that waited for it."""
        found = self._failed(handles)
        for handle, error in found:
            if is_out_of_memory(error):
                raise LimitError(f"a worker is out of memory: {error}", where=handle.label, fix=MORE_MEMORY) from error
            if isinstance(error, GpupipeError):
                raise error
        self.require_all()
        for handle, error in found:
            if isinstance(error, RuntimeError):  # PyTorch's error for processes that do not answer
                raise GangError(f"an exchange failed: {str(error).splitlines()[0]}", where=handle.label) from error
            explained = self.workers.health.explain(error, handle.label)
            raise explained from (None if explained is error else error)

    def _failed(self, handles: Sequence[DaskHandle[Any]]) -> list[tuple[DaskHandle[Any], BaseException]]:
        """Return the failed tasks with their errors."""
        ended = [handle for handle in handles if handle.future.done() and handle.future.status != "finished"]
        return [(handle, handle.future.exception(timeout=self.workers.health.deadline)) for handle in ended]

    def _lost(self) -> list[str]:
        return [address for address in self.addresses if address not in self.workers.health.workers]


def _is_own(error: BaseException) -> bool:
    """Return whether a task failed by itself, not because it waited for a failed one."""
    return isinstance(error, GpupipeError) or is_out_of_memory(error)
