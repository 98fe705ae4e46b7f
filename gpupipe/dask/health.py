"""Health of workers: failures detected within the deadline, with clear messages.

A cluster is alive as long as it makes progress: a task starts or ends, bytes are transferred, a worker joins or
computes. Without progress for `deadline` seconds, the run ends.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from distributed import Client
from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

from gpupipe.dask.worker_output import last_output
from gpupipe.errors import ClusterError, GpupipeError, LimitError
from gpupipe.units import GIB

Answer = TypeVar("Answer")

BUSY_PERCENT = 10.0  # of a core: an idle worker uses less, including Dask's heartbeats and profiler
MORE_MEMORY = (
    "give each worker more memory (cluster.memory_limit), or start fewer of them or with fewer threads "
    "(cluster.workers, cluster.threads), so that each gets more of the machine"
)
LABELS_SHOWN = 5


class HealthMonitor:
    """Health of the workers of a cluster, polled while waiting for tasks.

    `deadline` is in seconds; `outputs` is the folder with the output of the workers. `workers` maps each address to the
    scheduler's record as of the last poll; `lost` lists the addresses of lost workers.
    """

    def __init__(self, client: Client, deadline: float, outputs: Path | None = None) -> None:
        self.client = client
        self.deadline = deadline
        self._outputs = outputs
        self.workers: dict[str, dict[str, Any]] = {}
        self.lost: list[str] = []
        self._motion: object = None
        self._signs: dict[str, float] = {}  # address → time of the last heartbeat
        self._moved = time.monotonic()
        self._memory_limit = 0  # bytes, the largest of all workers seen: a killed one is no longer listed

    def poll(self, progress: object = None, waiting_for: Sequence[str] = ()) -> None:
        """Poll the scheduler once; without `waiting_for`, idle workers are not an error.

        `progress` is a value that changes while the caller makes progress; `waiting_for` are the labels of the tasks
        that the caller waits for. Raise ClusterError if the scheduler is lost, or there was no progress for `deadline`
        seconds; it names the tasks; LimitError if the workers ran out of memory.
        """
        workers = self.query(self.client.scheduler.identity())["workers"]
        self.lost += [address for address in self.workers if address not in workers]
        self.workers = workers
        self._memory_limit = max([self._memory_limit, *(worker["memory_limit"] or 0 for worker in workers.values())])
        motion = progress, {address: _motion(worker) for address, worker in workers.items()}
        if motion != self._motion or self._anyone_computes():
            self.restart_clock()
        self._motion = motion
        self._signs = {address: worker["last_seen"] for address, worker in workers.items()}
        if waiting_for and time.monotonic() - self._moved > self.deadline:
            raise self._standstill(waiting_for)

    def restart_clock(self) -> None:
        """Restart the deadline after a result has arrived."""
        self._moved = time.monotonic()

    def query(self, question: Coroutine[Any, Any, Answer], seconds: float | None = None) -> Answer:
        """Return the scheduler's answer within `seconds` (by default the deadline), or raise ClusterError."""
        asked = asyncio.run_coroutine_threadsafe(question, self.client.loop.asyncio_loop)
        try:
            return asked.result(seconds or self.deadline)
        except TimeoutError:
            asked.cancel()
            raise self.scheduler_error(f"did not answer within {seconds or self.deadline:g} s") from None
        except OSError:
            raise self.scheduler_error("is gone") from None

    def check_scheduler(self) -> None:
        """Raise a ClusterError if the scheduler is lost, and with it all results on workers."""
        if self.client.status != "running":
            raise self.scheduler_error("is gone")

    def scheduler_error(self, how: str) -> ClusterError:
        """Return the error for a lost scheduler; `how` is the predicate of its message."""
        return ClusterError(
            f"the scheduler {how}, and with it what the workers held",
            where=_address(self.client),
            fix="see its log, restart it, and run again",
        )

    def explain(self, error: BaseException, label: str) -> BaseException:
        """Return the error to raise for a failed task; errors of gpupipe and of Python are returned as they are."""
        if isinstance(error, GpupipeError):
            return error
        if isinstance(error, MemoryError):
            return LimitError(f"a worker is out of memory: {error}", where=label, fix=MORE_MEMORY)
        if isinstance(error, KilledWorker):
            return self._killed(error, label)
        if isinstance(error, (NoValidWorkerError, NoWorkerError)):
            return self._homeless(label)
        if isinstance(error, asyncio.CancelledError) or type(error).__module__.startswith("distributed."):
            return ClusterError(
                f"a task was lost: {error}", where=label, fix="run again; the log of the scheduler has the cause"
            )
        return error

    def last_output(self, address: str) -> str:
        """Return the last lines that a worker printed, to append to a message."""
        return last_output(self._outputs, address)

    def _killed(self, error: KilledWorker, waiting_for: str) -> GpupipeError:
        """Return the error for a task that killed one worker after another."""
        # A sent value computes nothing; the task that needs it is the cause.
        label = waiting_for if str(error.task).startswith(f"{SENT}-") else label_of(error.task)
        count = error.allowed_failures + 1
        if self.client.get_events("worker-restart-memory"):
            having = f" of {self._memory_limit / GIB:.1f} GiB" if self._memory_limit else ""
            return LimitError(
                f"{count} workers in turn exceeded their memory{having} on the same task",
                where=label,
                fix=MORE_MEMORY,
            )
        return ClusterError(
            f"{count} workers in turn died on the same task" + self.last_output(error.last_worker.address),
            where=label,
            fix="if the system killed them for lack of memory (see its log): " + MORE_MEMORY,
        )

    def _homeless(self, label: str) -> GpupipeError:
        """Return the error for a task that no worker may or can run."""
        if not any(worker["status"] == "running" for worker in self.workers.values()):
            return self._standstill([label])
        return ClusterError(
            f"all workers that could run a task were lost, and none took it for {self.deadline:g} s",
            where=label,
            fix="run again; if workers are lost again, find out what stops them: memory or their machines",
        )

    def _anyone_computes(self) -> bool:
        """Return whether a worker computes a task, according to a new heartbeat."""
        return any(
            worker["metrics"].get("task_counts", {}).get("executing")
            and worker["metrics"].get("cpu", 0.0) >= BUSY_PERCENT
            and self._signs.get(address) != worker["last_seen"]
            for address, worker in self.workers.items()
        )

    def _standstill(self, waiting_for: Sequence[str]) -> GpupipeError:
        where = ", ".join(waiting_for[:LABELS_SHOWN])
        if len(waiting_for) > LABELS_SHOWN:
            where += f", and {len(waiting_for) - LABELS_SHOWN} more"
        paused = [address for address, worker in self.workers.items() if worker["status"] == "paused"]
        if paused:
            return LimitError(
                f"{len(paused)} of {len(self.workers)} workers are paused for lack of memory",
                where=where,
                fix=MORE_MEMORY,
            )
        if not self.workers:
            what, fix = "no workers are left", "start workers, or have their nannies restart them (`dask worker`)"
        else:
            what = f"{len(self.workers)} workers made no progress for {self.deadline:g} s"
            fix = "if such a wait is expected, raise cluster.deadline; otherwise see their logs"
        if self.lost:
            what += f"; {len(self.lost)} were lost ({', '.join(self.lost[-3:])})"
        return ClusterError(what, where=where, fix=fix)


SENT = "put"  # prefix of the keys of values sent to workers


def key_of(label: str, name: str = "") -> str:
    """Return a new key for the task with a label; Dask's dashboard shows `name`, by default the label's first words."""
    return f"{name or _first_words(label)}-{uuid4().hex}|{label}"


def label_of(key: Any) -> str:
    """Return the label in a key made by `task_key`; other keys unchanged."""
    name, _, label = str(key).partition("|")
    return label or name


def _first_words(label: str) -> str:
    """Return the words before the first number or name, the same for all tasks of a kind."""
    found = re.match("[a-z ]*", label)
    return found[0].strip() if found and found[0].strip() else "task"


def _motion(worker: dict[str, Any]) -> tuple[Any, ...]:
    """Return a value that changes when a worker makes progress."""
    metrics = worker["metrics"]
    figures = [sorted(metrics.get(name, {}).items()) for name in ("task_counts", "transfer", "spilled_bytes")]
    return (worker["status"], *figures)


def _address(client: Client) -> str:
    return client.scheduler.address if client.scheduler is not None else ""
