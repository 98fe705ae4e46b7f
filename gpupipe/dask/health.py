"""Health of workers: failures detected within the deadline, with clear messages.

A cluster counts as alive as long as anything in it moves: a task begins or ends, bytes travel, a worker joins, or one
computes. Where nothing does for `deadline` seconds, nothing will.
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

BUSY_PERCENT = 10.0  # of a core: a worker that waits needs less, with Dask's own heartbeats and profiler
MORE_MEMORY = (
    "give each worker more memory (cluster.memory_limit), or start fewer of them or with fewer threads "
    "(cluster.workers, cluster.threads), so that each has more of the machine"
)
LABELS_SHOWN = 5


class HealthMonitor:
    """Health of the workers of a cluster, polled while tasks are waited for.

    Parameters
    ----------
    client : distributed.Client
    deadline : float
        Seconds.
    outputs : Path, optional
        The folder of what the workers print.

    Attributes
    ----------
    workers : dict of str to dict
        Address to what the scheduler knows of it, as of the last look.
    lost : list of str
        Addresses of workers that are gone.
    """

    def __init__(self, client: Client, deadline: float, outputs: Path | None = None) -> None:
        self.client, self.deadline, self._outputs = client, deadline, outputs
        self.workers: dict[str, dict[str, Any]] = {}
        self.lost: list[str] = []
        self._motion: object = None
        self._signs: dict[str, float] = {}  # of life: address → when the scheduler last heard of it
        self._moved = time.monotonic()

    def poll(self, progress: object = None, waiting_for: Sequence[str] = ()) -> None:
        """Ask the scheduler once about the workers; without `waiting_for`, idle workers are no error.

        Parameters
        ----------
        progress : object
            Anything that changes while the caller makes progress.
        waiting_for : sequence of str
            Labels of the tasks that the caller waits for.

        Raises
        ------
        ClusterError
            If the scheduler is gone, or nothing has moved for `deadline` seconds: it names what was waited for.
        LimitError
            If that is because the workers have no memory left.
        """
        workers = self.query(self.client.scheduler.identity())["workers"]
        self.lost += [address for address in self.workers if address not in workers]
        self.workers = workers
        motion = progress, {address: _motion(worker) for address, worker in workers.items()}
        if motion != self._motion or self._anyone_computes():
            self.restart_clock()
        self._motion = motion
        self._signs = {address: worker["last_seen"] for address, worker in workers.items()}
        if waiting_for and time.monotonic() - self._moved > self.deadline:
            raise self._standstill(waiting_for)

    def restart_clock(self) -> None:
        """Restart the deadline: the result that was waited for has arrived."""
        self._moved = time.monotonic()

    def query(self, question: Coroutine[Any, Any, Answer], seconds: float | None = None) -> Answer:
        """Return the scheduler's answer to a request, within `seconds`; by default within the deadline.

        Raises
        ------
        ClusterError
        """
        asked = asyncio.run_coroutine_threadsafe(question, self.client.loop.asyncio_loop)
        try:
            return asked.result(seconds or self.deadline)
        except TimeoutError:
            asked.cancel()
            raise self.scheduler_error(f"does not answer within {seconds or self.deadline:g} s") from None
        except OSError:
            raise self.scheduler_error("is gone") from None

    def check_scheduler(self) -> None:
        """Raise a ClusterError if the scheduler is gone: it takes with it all that the workers hold for us."""
        if self.client.status != "running":
            raise self.scheduler_error("is gone")

    def scheduler_error(self, how: str) -> ClusterError:
        """Return the error of a scheduler that is lost; `how` is the predicate of its message."""
        return ClusterError(
            f"the scheduler {how}, and with it what the workers held", where=_address(self.client),
            fix="see why it ended (its log says), start it again, and run again",
        )  # fmt: skip

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
                f"a task was lost: {error}", where=label, fix="run again; the log of the scheduler says what happened"
            )
        return error

    def last_output(self, address: str) -> str:
        """Return the last lines that a worker printed, to append to a message about its end."""
        return last_output(self._outputs, address)

    def _killed(self, error: KilledWorker, waiting_for: str) -> GpupipeError:
        """Return the error of a task, not always the one waited for, that cost one worker after another."""
        # A value that was sent does nothing: it is sent again because of the task that needs it.
        label = waiting_for if str(error.task).startswith(f"{SENT}-") else label_of(error.task)
        count = error.allowed_failures + 1
        if self._killed_by_memory():
            limit = max((worker["memory_limit"] or 0 for worker in self.workers.values()), default=0)
            having = f" of {limit / GIB:.1f} GiB" if limit else ""
            return LimitError(
                f"{count} workers, one after another, went beyond their memory{having} with the same task in hand",
                where=label, fix=MORE_MEMORY,
            )  # fmt: skip
        return ClusterError(
            f"{count} workers died one after another with the same task in hand"
            + self.last_output(error.last_worker.address), where=label,
            fix="if the system ended them for want of memory (its log says): " + MORE_MEMORY,
        )  # fmt: skip

    def _homeless(self, label: str) -> GpupipeError:
        """Return the error of a task that no worker may take, or none is there that could."""
        if not any(worker["status"] == "running" for worker in self.workers.values()):
            return self._standstill([label])
        return ClusterError(
            f"the worker of a task was lost with all others, and none has taken it for {self.deadline:g} s",
            where=label, fix="run again; if workers are lost again, see what ends them: memory, or their machines",
        )  # fmt: skip

    def _killed_by_memory(self) -> bool:
        """Return whether a worker of ours was ended by its nanny because of its memory."""
        return bool(self.client.get_events("worker-restart-memory"))

    def _anyone_computes(self) -> bool:
        """Return whether a worker has a task and a processor to itself, by a sign of life that is new."""
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
                f"{len(paused)} of {len(self.workers)} workers have no memory left and stand still", where=where,
                fix=MORE_MEMORY,
            )  # fmt: skip
        if not self.workers:
            what, fix = "no workers are left", "start workers, or have their nannies restart them (`dask worker`)"
        else:
            what = f"{len(self.workers)} workers have done nothing for {self.deadline:g} s"
            fix = "if they are to wait that long, raise cluster.deadline; else see their logs"
        if self.lost:
            what += f"; {len(self.lost)} were lost ({', '.join(self.lost[-3:])})"
        return ClusterError(what, where=where, fix=fix)


SENT = "put"  # begins the keys of values that are sent to workers


def key_of(label: str, name: str = "") -> str:
    """Return a new key for the task with a label; Dask's dashboard shows `name`, by default the label's first words."""
    return f"{name or _first_words(label)}-{uuid4().hex}|{label}"


def label_of(key: Any) -> str:
    """Return the label in a key of ours; other keys as they are."""
    name, _, label = str(key).partition("|")
    return label or name


def _first_words(label: str) -> str:
    """Return the words before the first number or name: the same for all tasks of a kind."""
    found = re.match("[a-z ]*", label)
    return found[0].strip() if found and found[0].strip() else "task"


def _motion(worker: dict[str, Any]) -> tuple[Any, ...]:
    """Return what changes when a worker does something."""
    metrics = worker["metrics"]
    figures = [sorted(metrics.get(name, {}).items()) for name in ("task_counts", "transfer", "spilled_bytes")]
    return (worker["status"], *figures)


def _address(client: Client) -> str:
    return client.scheduler.address if client.scheduler is not None else ""
