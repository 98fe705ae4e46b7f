"""Calls of libraries that run their own collectives on Dask, without a deadline.

If one worker is lost or fails, the others wait for it in a collective, and the library waits for them. Such a call
is watched from outside: waiting workers are restarted, and their results are recomputed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, TypeVar

import distributed

from gpupipe.dask.gang import GangError, blame_lost_workers, retry_collective
from gpupipe.dask.workers import LOOK_SECONDS, DaskWorkers
from gpupipe.errors import ClusterError

Result = TypeVar("Result")

RETURN_SECONDS = 20.0  # for a lost worker to restart
RESTART_SECONDS = 60.0  # for a restart by `restart`: if it is interrupted, the nanny gives up (Dask 2026.8)


def call_library(workers: DaskWorkers, call: Callable[[], Result], where: str) -> Result:
    """Return ``call()`` with Dask's client as the current client; retry if a worker is lost.

    Raise ClusterError if workers were lost in every attempt or there was no progress for the deadline, and else the
    exception of the call, or of one of its tasks that it does not notice.
    """
    return retry_collective(workers, lambda attempt: _watch(workers, call, where), where)


def _watch(workers: DaskWorkers, call: Callable[[], Result], where: str) -> Result:
    """Return ``call()``; raise a GangError if a worker is lost. By then all its tasks have ended."""
    known = set(workers.client.futures)
    running = Future[Result]()
    try:
        with blame_lost_workers(workers, where) as n_lost:
            _start(workers, call, running)
            return _awaited(workers, running, n_lost, known, where)
    except BaseException as error:
        if isinstance(error, GangError):
            _await_return(workers)
        _free(workers, running, known, where)
        raise


def _start(workers: DaskWorkers, call: Callable[[], Result], running: Future[Result]) -> None:
    """Run a call in a thread that does not keep the process alive: the call may wait forever."""

    def run() -> None:
        try:
            with workers.client.as_current():
                running.set_result(call())
        except BaseException as error:
            running.set_exception(error)

    threading.Thread(target=run, name="library call", daemon=True).start()


def _awaited(workers: DaskWorkers, running: Future[Result], n_lost: int, known: set[Any], where: str) -> Result:
    failed, stranded = set[Any](), set[Any]()
    while not wait([running], LOOK_SECONDS).done:
        workers.poll([where])
        if workers.n_lost > n_lost:
            raise GangError("a worker was lost", where=where)
        before, failed = failed, _in_state("error", workers) - known
        for key in before & failed:  # since the last poll, and the call continues
            raise workers.client.futures[key].exception
        before, stranded = stranded, _stranded(workers, _in_state("pending", workers) - known)
        if before & stranded:
            raise GangError("the worker of a task was lost", where=where)
    return running.result()


def _in_state(status: str, workers: DaskWorkers) -> set[Any]:
    """Return the keys of the client's futures with this status."""
    return {key for key, state in list(workers.client.futures.items()) if state.status == status}


def _stranded(workers: DaskWorkers, keys: set[Any]) -> set[Any]:
    """Return the keys of tasks that no worker may run: libraries pin tasks to addresses.

    A worker that joined and was lost between two polls is not known to be lost, but its tasks wait forever.
    """
    states = workers.health.query(workers.client.scheduler.get_task_status(keys=list(keys))) if keys else {}
    return {key for key, state in states.items() if state == "no-worker"}


def _await_return(workers: DaskWorkers) -> None:
    """Wait for lost workers to restart: with no workers, Dask forgets task restrictions."""
    with suppress(TimeoutError):
        workers.client.wait_for_workers(workers.n_workers_at_first, timeout=RETURN_SECONDS)


def _free(workers: DaskWorkers, running: Future[Any], known: set[Any], where: str) -> None:
    """Cancel the tasks of a call and restart the workers that still wait for each other, until the call has ended.

    Nothing else ends a collective. Without the cancellation, Dask would give the tasks to the restarted workers, which
    would wait again and block the next call. A call that was waiting for workers submits its tasks to the restarted
    ones, so tasks are searched repeatedly. `known` are the futures older than the call.
    """
    until, is_first = time.monotonic() + RETURN_SECONDS, True
    while True:
        has_ended = running.done()
        states = {key: state.status for key, state in list(workers.client.futures.items()) if key not in known}
        if "pending" in states.values() or (is_first and not has_ended):
            workers.client.cancel([distributed.Future(key, workers.client) for key in states], force=True)
            _restart(workers, where)
        elif has_ended or time.monotonic() > until:
            return
        is_first = False
        wait([running], LOOK_SECONDS)


def _settle(workers: DaskWorkers) -> None:
    """Wait until the nannies report running workers: a worker that stops before is not restarted (Dask 2026.8)."""
    until = time.monotonic() + RETURN_SECONDS
    while time.monotonic() < until:
        found = workers.client.run(_nanny_status, nanny=True, on_error="ignore")
        if len(found) >= workers.n_workers_at_first and set(found.values()) == {"running"}:
            return
        time.sleep(0.05)  # a nanny sends no event


def _nanny_status(dask_worker: Any) -> str:
    return str(dask_worker.status.name)


def _restart(workers: DaskWorkers, where: str) -> None:
    try:
        _settle(workers)
        for use in workers.usage():
            workers.client.restart_workers([use.address], RESTART_SECONDS, raise_for_error=False)
    except ValueError as error:  # they have no nanny
        raise ClusterError(
            f"the workers wait for a lost one and cannot be restarted: {error}",
            where=where,
            fix="start them with nannies, as `dask worker` and `dask cuda worker` do",
        ) from error
    workers.poll()
