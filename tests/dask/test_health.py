"""Workers that die, run out of memory or hang: the same result, or a clear error within the deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from gpupipe.backends import choose
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.connect import connect
from gpupipe.dask.health import key_of, label_of
from gpupipe.dask.workers import DaskWorkers
from gpupipe.errors import ClusterError, LimitError
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.units import MIB
from tests.dask import chores
from tests.dask.somebody import processes_below, started
from tests.inline_workers import InlineWorkers

LIMIT = 400 * MIB
SECONDS_AT_MOST = 60  # seconds that a test waits for a process before it fails


def small(**settings: object) -> ClusterSettings:
    given = {"scheduler": "local", "workers": 2, "threads": 1, "memory_limit": LIMIT, "deadline": 20, "retries": 1}
    return ClusterSettings(**{**given, **settings})


@pytest.fixture(scope="module")
def workers() -> Iterator[DaskWorkers]:
    """Two processes that are restarted when they die."""
    with connect(small(), "cpu") as workers:
        yield workers


@pytest.fixture
def two(workers: DaskWorkers) -> DaskWorkers:
    """The same workers, once both are running."""
    end = time.monotonic() + SECONDS_AT_MOST
    while len(workers.usage()) < 2:
        assert time.monotonic() < end, "a worker was not started again"
        time.sleep(0.05)  # Dask's nannies send no notification
    return workers


def parts_of(workers: Workers) -> list[ResultHandle[np.ndarray]]:
    """Return partitions on the workers, each derived from one that was read there."""
    factor = workers.put([3.0])
    read = [workers.submit(chores.numbers, i * 1000, i * 1000 + 1000, label=f"reading part {i}") for i in range(6)]
    return [workers.submit(chores.scaled, part, factor, label=f"scaling part {i}") for i, part in enumerate(read)]


def total_of(workers: Workers, parts: list[ResultHandle[np.ndarray]]) -> float:
    return workers.gather([workers.submit(chores.total, *parts, label="adding up")])[0]


def expected() -> float:
    inline = InlineWorkers(choose("cpu"))
    return total_of(inline, parts_of(inline))


def kill_workers(workers: DaskWorkers, *which: int) -> None:
    """Kill worker processes as the kernel does when memory runs out."""
    end = time.monotonic() + SECONDS_AT_MOST
    while len(pids := workers.client.run(os.getpid)) <= max(which):  # one is being started again, on a busy machine
        assert time.monotonic() < end, pids
    for address in [sorted(pids)[i] for i in which]:
        os.kill(pids[address], signal.SIGKILL)


def test_a_worker_that_dies_at_work_is_replaced_and_said_to_be_lost(workers: DaskWorkers, tmp_path: Path) -> None:
    workers.take_warnings()
    handle = workers.submit(chores.killed_once, str(tmp_path / "witness"), 7)
    assert workers.gather([handle]) == [7]
    (note,) = workers.take_warnings()
    assert note.startswith("worker tcp://127.0.0.1:")
    assert workers.take_warnings() == []


@pytest.mark.parametrize("which", [(0,), (0, 1)], ids=["one", "all"])
def test_results_of_lost_workers_are_recomputed(two: DaskWorkers, which: tuple[int, ...]) -> None:
    parts = parts_of(two)
    assert total_of(two, parts) == expected()
    kill_workers(two, *which)
    assert total_of(two, parts) == expected()


def test_a_result_lost_before_it_is_fetched_is_recomputed(two: DaskWorkers) -> None:
    parts = parts_of(two)
    before = [part.sum() for part in two.gather(parts)]
    kill_workers(two, 0, 1)
    assert [part.sum() for part in two.gather(parts)] == before


def test_a_task_that_kills_several_workers_is_named(workers: DaskWorkers) -> None:
    doomed = workers.submit(chores.killed, label="reading partition 3 of 7")
    with pytest.raises(ClusterError, match="2 workers in turn died") as caught:
        workers.gather([workers.submit(chores.total, doomed, label="adding up")])
    assert caught.value.where == "reading partition 3 of 7"
    assert "memory" in caught.value.fix


def test_a_task_that_exceeds_the_memory_of_a_worker_is_named_with_a_fix(workers: DaskWorkers) -> None:
    with pytest.raises(LimitError, match=r"exceeded their memory of 0\.4 GiB") as caught:
        workers.gather([workers.submit(chores.greedy, label="reading partition 3 of 7")])
    assert caught.value.where == "reading partition 3 of 7"
    assert "cluster.memory_limit" in caught.value.fix


def test_paused_workers_are_an_error_after_the_deadline() -> None:
    with connect(small(workers=1, deadline=3), "cpu") as workers:
        workers.gather([workers.submit(chores.hoarded, LIMIT)])
        await_pause(workers)
        with pytest.raises(LimitError, match="1 of 1 workers are paused for lack of memory") as caught:
            workers.gather([workers.submit(chores.process, label=f"reading partition {i}") for i in range(9)])
    assert caught.value.where.startswith("reading partition ")
    assert "cluster.memory_limit" in caught.value.fix


def await_pause(workers: DaskWorkers) -> None:
    """Return when a worker has noticed that its memory is full: it looks now and then, and takes tasks until then."""
    end = time.monotonic() + 60
    while "paused" not in [worker["status"] for worker in workers.client.scheduler_info()["workers"].values()]:
        assert time.monotonic() < end


def test_an_endless_task_is_ended_at_the_deadline_and_named() -> None:
    before = processes_below()
    with connect(small(deadline=2), "cpu") as workers:
        handles: list[Any] = [
            workers.submit(chores.stuck, label="training"),
            workers.submit(chores.process, label="reading"),
        ]
        with pytest.raises(ClusterError, match="2 workers made no progress for 2 s") as caught:
            workers.gather(handles)
    assert caught.value.where == "training"
    assert "cluster.deadline" in caught.value.fix
    assert processes_below() == before


def test_a_task_of_a_lost_cluster_ends_at_the_deadline() -> None:
    with connect(small(deadline=3, retries=3), "cpu") as workers:
        (handle,) = workers.map(chores.stuck, [()], ["training"], pinned_to=min(workers.health.workers))
        kill_workers(workers, 0, 1)
        with pytest.raises(ClusterError, match="all workers that could run a task were lost") as caught:
            workers.gather([handle])
    assert caught.value.where == "training"


def test_a_task_that_computes_may_take_longer_than_the_deadline() -> None:
    with connect(small(workers=1, deadline=2), "cpu") as workers:
        assert workers.gather([workers.submit(chores.busy_for, 3.0)]) == [3.0]


def test_a_worker_that_no_longer_answers_is_replaced() -> None:
    with connect(small(deadline=14), "cpu") as workers:
        frozen, _ = workers.client.run(os.getpid).values()
        os.kill(frozen, signal.SIGSTOP)
        try:
            answers = workers.gather(workers.map(chores.process, [()] * 8, ["waiting"] * 8))
            assert frozen not in answers
            assert len(workers.take_warnings()) == 1
        finally:
            with suppress(ProcessLookupError):
                os.kill(frozen, signal.SIGKILL)


def test_the_end_of_a_scheduler_is_reported_at_once(tmp_path: Path) -> None:
    with started(tmp_path, 1) as running:
        settings = small(scheduler=str(running.file), workers=1)
        with pytest.raises(ClusterError, match="the scheduler is gone"), connect(settings, "cpu") as workers:
            handle = workers.submit(chores.stuck)
            running.scheduler.kill()
            workers.gather([handle])


def test_the_end_of_all_workers_is_reported_at_the_deadline(tmp_path: Path) -> None:
    with started(tmp_path, 2) as running:
        settings = small(scheduler=str(running.file), deadline=5)
        scheduler_error = r"no workers are left; .* were lost"
        with pytest.raises(ClusterError, match=scheduler_error) as caught, connect(settings, "cpu") as workers:
            parts = parts_of(workers)
            for worker in running.workers:
                worker.kill()
            total_of(workers, parts)
    assert caught.value.where == "adding up"


def test_an_unresponsive_scheduler_is_reported_at_the_deadline(tmp_path: Path) -> None:
    with started(tmp_path, 1) as running:
        settings = small(scheduler=str(running.file), workers=1, deadline=5)
        with (
            pytest.raises(ClusterError, match="did not answer within 5 s"),
            connect(settings, "cpu") as workers,
        ):
            handle = workers.submit(chores.stuck)
            running.scheduler.send_signal(signal.SIGSTOP)
            workers.gather([handle])


def test_a_label_is_read_back_from_the_key_of_a_task() -> None:
    assert label_of(key_of("reading partition 3 of 7")) == "reading partition 3 of 7"
    assert key_of("reading partition 3 of 7").startswith("reading partition-")
    assert label_of("fit-12") == "fit-12"


# A complete program: its output, its exit code, and the files and processes that remain.

PROGRAM = """
import os
from tests.dask import chores
from gpupipe.dask.connect import connect
from gpupipe.config.cluster import ClusterSettings

if __name__ == "__main__":
    settings = ClusterSettings(scheduler="local", workers=2, threads=1, deadline=30, retries=1)
    with connect(settings, "cpu") as workers:
        pids = workers.client.run(os.getpid).values()
        print(*pids, flush=True)
        {body}
"""


def program(tmp_path: Path, body: str) -> subprocess.Popen[str]:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(body=body))
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, start_new_session=True,
    )  # fmt: skip


def wait_until_gone(pids: list[int]) -> None:
    end = time.monotonic() + SECONDS_AT_MOST
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids):
        assert time.monotonic() < end, f"{pids} are still there"
        time.sleep(0.05)  # the processes are not ours to wait for


@pytest.mark.nightly
def test_a_program_that_recovers_from_a_lost_worker_prints_nothing_about_dask(tmp_path: Path) -> None:
    witness = str(tmp_path / "witness")
    process = program(tmp_path, f"print(workers.gather([workers.submit(chores.killed_once, {witness!r}, [3.0])])[0])")
    output, errors = process.communicate(timeout=SECONDS_AT_MOST)
    assert (errors, process.returncode) == ("", 0)
    pids, answer = output.splitlines()
    assert answer == "[3.0]"
    wait_until_gone([int(pid) for pid in pids.split()])


def test_an_interrupt_from_the_terminal_ends_all_processes(tmp_path: Path) -> None:
    process = program(tmp_path, "workers.gather([workers.submit(chores.stuck) for _ in range(4)])")
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS_AT_MOST)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1
    wait_until_gone(pids)


def test_workers_do_not_outlive_a_process_that_is_killed(tmp_path: Path) -> None:
    process = program(tmp_path, "workers.gather([workers.submit(chores.stuck) for _ in range(4)])")
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    process.kill()
    process.communicate(timeout=SECONDS_AT_MOST)
    wait_until_gone(pids)
