"""Library calls that submit their own tasks: lost workers and single failures end in a result or an error."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial

import pytest
from distributed import default_client, wait

from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.connect import connect
from gpupipe.dask.gang import ATTEMPTS
from gpupipe.dask.library_calls import call_library
from gpupipe.dask.workers import DaskWorkers
from gpupipe.errors import ClusterError
from tests.dask import chores


@pytest.fixture(scope="module")
def workers() -> Iterator[DaskWorkers]:
    """Two processes that are restarted when they die."""
    settings = ClusterSettings(scheduler="local", workers=2, threads=1, deadline=120, retries=1)
    with connect(settings, "cpu") as workers:
        yield workers


def collective(*functions: object) -> list[object]:
    """Act as cuml.dask: submit a task to each worker that waits for the others, wait for all, then check them."""
    client = default_client()
    client.wait_for_workers(len(functions), timeout=100)  # a lost worker is restarted
    addresses = sorted(client.scheduler_info()["workers"])
    futures = [
        client.submit(function, None, workers=[address], pure=False)
        for function, address in zip(functions, addresses, strict=True)
    ]
    wait(futures)
    return client.gather(futures)


def settle() -> None:
    """Wait until every nanny has registered its worker: one killed before is not restarted (Dask 2026.8)."""
    while set(default_client().run(chores.status, nanny=True).values()) != {"running"}:
        time.sleep(0.02)  # a nanny sends no notification


def test_it_returns_the_result_of_the_call_made_with_the_client(workers: DaskWorkers) -> None:
    first, second = call_library(workers, partial(collective, chores.process, chores.process), "training")
    assert first != second


def test_an_error_of_the_call_is_raised_unchanged(workers: DaskWorkers) -> None:
    def refuse() -> None:
        raise ValueError("alpha must be non-negative")

    with pytest.raises(ValueError, match="non-negative"):
        call_library(workers, refuse, "training")


def test_a_single_failed_task_ends_the_waiting_ones(workers: DaskWorkers) -> None:
    with pytest.raises(ZeroDivisionError, match="a bug"):
        call_library(workers, partial(collective, chores.broken, chores.stuck), "training")
    assert workers.gather([workers.submit(chores.total, [1.0, 2.0])]) == [3.0]


def test_a_call_that_loses_a_worker_is_repeated_and_its_partitions_are_recomputed(workers: DaskWorkers) -> None:
    parts = workers.map(chores.numbers, [(0, 100)] * 2, [""] * 2)
    workers.wait(parts)
    victim = workers.client.run(os.getpid)[workers.homes(parts)[0]]
    calls: list[int] = []

    def call() -> float:
        calls.append(len(calls))
        if len(calls) == 1:
            settle()
            os.kill(victim, signal.SIGKILL)
            collective(chores.stuck, chores.stuck)
        return sum(values.sum() for values in default_client().gather([part.future for part in parts]))

    assert call_library(workers, call, "training") == 2 * sum(range(100))
    assert calls == [0, 1]
    # No worker still has a task of the previous call: it would never end there either.
    assert [key for key in workers.client.run_on_scheduler(chores.task_keys) if "stuck" in key] == []


def test_tasks_that_are_pinned_to_a_worker_lost_unseen_are_submitted_again(workers: DaskWorkers) -> None:
    calls = []

    def call() -> int:
        calls.append(1)
        # The address of a worker that joined and left between two checks.
        scheduler_error = [] if len(calls) > 1 else ["tcp://127.0.0.1:9"]
        return default_client().submit(chores.process, None, workers=scheduler_error, pure=False).result()

    assert call_library(workers, call, "training") > 0
    assert len(calls) == 2


def test_a_call_that_loses_workers_every_time_is_an_error(workers: DaskWorkers) -> None:
    calls = []

    def call() -> None:
        calls.append(1)
        collective(chores.process, chores.process)
        settle()
        # By address: a worker that is still restarting after the previous call counts as lost.
        address, pid = min(default_client().run(os.getpid).items())
        os.kill(pid, signal.SIGKILL)
        while address in default_client().scheduler_info()["workers"]:
            time.sleep(0.02)  # the scheduler sends no notification
        raise RuntimeError("a peer is gone")

    with pytest.raises(ClusterError, match=f"lost in all {ATTEMPTS} attempts") as caught:
        call_library(workers, call, "training Ridge")
    assert len(calls) == ATTEMPTS
    assert (caught.value.where, caught.value.exit_code) == ("training Ridge", 4)
