"""Interface of the workers that hold and process the partitions of a table.

A task is ``function(backend, *arguments)``, with the backend of the worker that runs it. The function is any callable
that cloudpickle sends: a lambda or a `functools.partial` too, with what it captures. Large values are sent once, with
`Workers.put`. A task may run again on another worker if one is lost: it must not modify its arguments or anything else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from re import sub
from typing import Any, Generic, TypeVar

from gpupipe.backends.stage import Place, StageUse
from gpupipe.errors import ConfigError
from gpupipe.models.progress import ProgressReport
from gpupipe.names import count_noun

Result = TypeVar("Result")


class ResultHandle(Generic[Result]):
    """A present or future result on a worker; it is freed with the last reference to the handle."""


@dataclass(frozen=True)
class WorkerUsage:
    """Work and memory of one worker."""

    address: str
    tasks: int  # number of tasks run by the current process; 0 after a restart
    seconds: float  # their duration, summed over all threads
    # bytes_held, bytes_spilled: results in memory and on disk.
    bytes_held: int
    bytes_spilled: int
    peak_bytes: int  # peak memory of the process


class Workers(ABC):
    """Processes that hold partitions and run tasks on them."""

    n_workers: int  # number of workers; it may decrease
    n_threads: int  # number of tasks that all workers together run at a time
    # device, reason: device, and the reason for it.
    device: str = "cpu"
    reason: str = ""
    _before_stage: Mapping[str, WorkerUsage] = {}
    _stage_usage: tuple[Mapping[str, Any], ...] = ()
    _stage_notes: Sequence[str] = ()
    _progress: ProgressReport | None = None

    @property
    def label(self) -> str:
        """Their description in the timeline."""
        return count_noun(self.n_workers, "worker")

    @property
    def place(self) -> Place:
        """Place of a stage that runs on the workers."""
        return Place(self.device, f"{self.label}; {self.reason}".rstrip("; "), self, self.progress)

    def open_stage(self) -> None:
        """See `gpupipe.backends.stage.Meter.open_stage`."""
        self._before_stage = {use.address: use for use in self.usage()}

    def synchronize(self) -> None:
        """Collect the warnings, and the work of each worker since `open_stage`."""
        usage = []
        for use in self.usage():
            done, before = asdict(use), self._before_stage.get(use.address)
            if before is not None and before.tasks <= use.tasks:  # it has not restarted
                done |= {"tasks": use.tasks - before.tasks, "seconds": use.seconds - before.seconds}
            usage.append(done)
        self._stage_usage, self._stage_notes = tuple(usage), self.take_warnings()

    def close_stage(self) -> StageUse:
        """Return what `synchronize` collected; for a failed stage, only the fallbacks."""
        usage, self._stage_usage = self._stage_usage, ()
        return StageUse(fallbacks=self.take_fallbacks(), workers=usage)

    def take_notes(self) -> list[str]:
        """Return the warnings that `synchronize` collected, once."""
        found, self._stage_notes = list(self._stage_notes), ()
        return found

    @abstractmethod
    def map(
        self,
        function: Callable[..., Result],
        each: Iterable[Sequence[Any]],
        labels: Sequence[str],
    ) -> Sequence[ResultHandle[Result]]:
        """Run a function with each of several lists of arguments; return handles of the results without waiting.

        - `function`: called as described in the module
        - `each`: the arguments of each task. A handle is replaced by its result, on a worker that holds it if possible;
          a handle inside a list or another container is not. Workers that run tasks at once take one list after the
          other from the iterable, and release the handles in it.
        - `labels`: description of each task, for messages: ``"reading chunk 3 of 7"``
        """

    def submit(self, function: Callable[..., Result], *arguments: Any, label: str = "") -> ResultHandle[Result]:
        """Run ``function(backend, *arguments)`` on a worker; return a handle of the result, as `map` does."""
        (handle,) = self.map(function, [arguments], [label])
        return handle

    @abstractmethod
    def gather(self, handles: Iterable[ResultHandle[Result]]) -> list[Result]:
        """Return the results in the order of the handles, as soon as all are available.

        Raise the GpupipeError of the first task, in order, that failed, or one that says which workers were lost.
        """

    @abstractmethod
    def put(self, value: Any) -> ResultHandle[Any]:
        """Send a value to the workers once, for all tasks that need it."""

    def partitions(self, collection: Any) -> Sequence[ResultHandle[Any]]:
        """Return handles of the partitions of a Dask collection, in order, computed on workers that hold their inputs.

        Raise ConfigError if these workers do not belong to a Dask cluster, or another one holds the partitions.
        """
        raise ConfigError("expected workers of a Dask cluster for the partitions of a Dask collection", where="cluster")

    def wait(self, handles: Iterable[ResultHandle[Any]]) -> None:  # noqa: B027 - for workers that run tasks at once
        """Wait until all results are available on the workers; raise as `gather`."""

    def homes(self, handles: Sequence[ResultHandle[Any]]) -> list[str]:
        """Return the address of a worker that holds each result; ``""`` if none does or it is in this process."""
        return ["" for _ in handles]

    def progress(self) -> ProgressReport | None:
        """Return the partition that the current pass has reached, None between passes; safe to call in any thread."""
        return self._progress

    def usage(self) -> list[WorkerUsage]:
        """Return the work and memory of each worker."""
        return []

    def take_warnings(self) -> list[str]:
        """Return warnings about the workers since the last call."""
        return []

    def fall_back(self, what: str, where: str, fix: str) -> None:  # noqa: B027 - workers without devices never do
        """Record that something runs on the host although the workers have devices; see `Backend.fall_back`."""

    def take_fallbacks(self) -> tuple[str, ...]:
        """Return the recorded fallbacks since the last call."""
        return ()


def pass_progress(label: str, n_done: int, n_tasks: int) -> ProgressReport | None:
    """Return the progress of a pass over partitions, None for a single partition.

    `label` is that of any of its tasks: ``"features of partition 3 of 7"``.
    """
    if n_tasks < 2:
        return None
    unit = sub(r" \d+ of \d+$", "", label)
    return ProgressReport(min(n_done + 1, n_tasks), n_tasks, unit or "partition", is_one_pass=True)
