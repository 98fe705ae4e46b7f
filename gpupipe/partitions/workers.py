"""Workers that hold and process the partitions of a table: the interface, and workers of this process.

A function that is submitted is module-level, so that every process can import it; it takes the worker's backend first,
and takes and returns what can be pickled. It may be run again, somewhere else, if a worker is lost: it changes nothing
that it is given, and depends on nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from re import sub
from typing import Any, Concatenate, Generic, TypeVar

from gpupipe.backends.base import Backend
from gpupipe.backends.stage import Place, StageUse
from gpupipe.models.progress import ProgressReport

Result = TypeVar("Result")


class ResultHandle(Generic[Result]):
    """A present or future result on a worker; it is freed with the last reference to the handle."""


@dataclass(frozen=True)
class WorkerUsage:
    """Work and memory of one worker.

    Attributes
    ----------
    address : str
    tasks : int
        Worked on by the process that lives now: one that was started again begins at 0.
    seconds : float
        That they took, all threads together.
    bytes_held, bytes_spilled : int
        Results in memory, and those moved to the disk.
    peak_bytes : int
        The most memory that the process has held.
    """

    address: str
    tasks: int
    seconds: float
    bytes_held: int
    bytes_spilled: int
    peak_bytes: int


class Workers(ABC):
    """Processes that hold partitions and work on them.

    Attributes
    ----------
    n_workers : int
        How many there are; they may become fewer.
    n_threads : int
        Of all of them together: as many tasks are worked on at a time.
    device, reason : str
        Where they compute, and why there, in words.
    """

    n_workers: int
    n_threads: int
    device: str = "cpu"
    reason: str = ""
    _before_stage: Mapping[str, WorkerUsage] = {}
    _stage_usage: tuple[Mapping[str, Any], ...] = ()
    _stage_remarks: Sequence[str] = ()

    @property
    def label(self) -> str:
        """What they are called in the timeline."""
        return f"{self.n_workers} workers" if self.n_workers > 1 else "1 worker"

    @property
    def place(self) -> Place:
        """The place of a stage that runs on the workers."""
        return Place(self.device, f"{self.label}; {self.reason}".rstrip("; "), self, self.progress)

    def open_stage(self) -> None:
        """See `gpupipe.backends.stage.Meter.open_stage`."""
        self._before_stage = {use.address: use for use in self.usage()}

    def synchronize(self) -> None:
        """Collect the remarks, and what each worker has done since `open_stage`."""
        usage = []
        for use in self.usage():
            done, before = asdict(use), self._before_stage.get(use.address)
            if before is not None and before.tasks <= use.tasks:  # it was not started again meanwhile
                done |= {"tasks": use.tasks - before.tasks, "seconds": use.seconds - before.seconds}
            usage.append(done)
        self._stage_usage, self._stage_remarks = tuple(usage), self.remarks()

    def close_stage(self) -> StageUse:
        """Return what `synchronize` collected; of a stage that failed, the fallbacks alone."""
        usage, self._stage_usage = self._stage_usage, ()
        return StageUse(fallbacks=self.take_fallbacks(), workers=usage)

    def take_remarks(self) -> list[str]:
        """Return the remarks that `synchronize` collected, once."""
        found, self._stage_remarks = list(self._stage_remarks), ()
        return found

    @abstractmethod
    def submit(
        self,
        function: Callable[Concatenate[Backend, ...], Result],
        *arguments: Any,
        worker: int | None = None,
        label: str = "",
    ) -> ResultHandle[Result]:
        """Have ``function(backend, *arguments)`` run on a worker; return a handle of its result without waiting.

        Parameters
        ----------
        function : callable
            See the module.
        *arguments
            Handles are given as their results, where the function runs: on the worker that holds most of them, if
            `worker` is None. One inside a list or another container is not looked for.
        worker : int, optional
            In 0..n_workers - 1: where to run it as long as that one lives.
        label : str
            What it does to which partition, for messages: ``"reading partition 3 of 7"``.
        """

    def map(
        self,
        function: Callable[Concatenate[Backend, ...], Result],
        each: Iterable[Sequence[Any]],
        labels: Sequence[str],
    ) -> list[ResultHandle[Result]]:
        """Have a function run with each of several lists of arguments; return handles, in their order.

        As `submit` of one after the other, with less to send. Where that runs it at once, the lists are asked for one
        by one, and handles in them are let go of.
        """
        given = zip(each, labels, strict=True)
        return [self.submit(function, *arguments, label=label) for arguments, label in given]

    def map_partitions(
        self,
        partitions: Sequence[ResultHandle[Any]],
        function: Callable[Concatenate[Backend, ...], Result],
        arguments: Sequence[Any],
        each: Sequence[Iterable[Any]],
        label: str,
    ) -> list[ResultHandle[Result]]:
        """Have ``function(backend, partition, *arguments, *own)`` run on every partition; return handles, in order.

        Parameters
        ----------
        each : sequence of sequences
            What each partition has its own of: the first of every sequence, the second...
        label : str
            What is done, for messages.
        """
        n = len(partitions)
        own = list(zip(*each, strict=True)) if each else [()] * n
        given = ((part, *arguments, *more) for part, more in zip(partitions, own, strict=True))
        return self.map(function, given, [f"{label} of partition {at + 1} of {n}" for at in range(n)])

    def rows_by_worker(self, partitions: Sequence[ResultHandle[Any]], heights: Sequence[int]) -> dict[str, int]:
        """Return how many rows each worker holds, by its address."""
        rows: dict[str, int] = {}
        for home, height in zip(self.homes(partitions), heights, strict=True):
            if home:
                rows[home] = rows.get(home, 0) + height
        return rows

    def wait(self, handles: Iterable[ResultHandle[Any]]) -> None:  # noqa: B027 - where there is nothing to wait for
        """Wait until all results are there; they stay where they are. Raises as `gather`."""

    @abstractmethod
    def gather(self, handles: Iterable[ResultHandle[Result]]) -> list[Result]:
        """Return the results, in the order of the handles, as soon as all are there.

        Raises
        ------
        GpupipeError
            The very error of a function, of the first handle in order that has one; or what says that workers were
            lost, and with them what.
        """

    def progress(self) -> ProgressReport | None:
        """Return the partition that the current pass is at, None between passes; may be called by any thread."""
        return None

    def fall_back(self, what: str, where: str, fix: str) -> None:  # noqa: B027 - on the host nothing is to be said
        """Say that something runs on the host though the workers have devices; see `Backend.fall_back`."""

    def take_fallbacks(self) -> tuple[str, ...]:
        """Return what has fallen back since the last call."""
        return ()

    def usage(self) -> list[WorkerUsage]:
        """Return what each worker has done and holds."""
        return []

    def homes(self, handles: Sequence[ResultHandle[Any]]) -> list[str]:
        """Return the address of a worker that holds each result; ``""`` where none does, or it is this process."""
        return ["" for _ in handles]

    def remarks(self) -> list[str]:
        """Return what should be known and was not told yet."""
        return []

    @abstractmethod
    def put(self, value: Any) -> ResultHandle[Any]:
        """Send a value to the workers once, for all functions that will need it."""


@dataclass(frozen=True)
class _InlineHandle(ResultHandle[Result]):
    """A result in this process."""

    result: Result


class InlineWorkers(Workers):
    """Workers of this process, which run every function at once: `submit` raises its errors.

    Parameters
    ----------
    backend : Backend
    n_workers : int
        As many as are claimed.
    """

    def __init__(self, backend: Backend, n_workers: int = 1) -> None:
        self.backend, self.n_workers, self.n_threads = backend, n_workers, n_workers

    def submit(
        self,
        function: Callable[Concatenate[Backend, ...], Result],
        *arguments: Any,
        worker: int | None = None,
        label: str = "",
    ) -> ResultHandle[Result]:
        """See `Workers.submit`."""
        given = [a.result if isinstance(a, _InlineHandle) else a for a in arguments]
        return _InlineHandle(function(self.backend, *given))

    def gather(self, handles: Iterable[ResultHandle[Result]]) -> list[Result]:
        """See `Workers.gather`."""
        return [handle.result for handle in handles if isinstance(handle, _InlineHandle)]

    def put(self, value: Any) -> ResultHandle[Any]:
        """See `Workers.put`."""
        return _InlineHandle(value)


def pass_progress(label: str, n_done: int, n_tasks: int) -> ProgressReport | None:
    """Return the progress of a pass over partitions, None of a pass over one.

    Parameters
    ----------
    label : str
        Of any of its tasks: ``"features of partition 3 of 7"``.
    n_done, n_tasks : int
        Tasks that are complete, and all.
    """
    if n_tasks < 2:
        return None
    unit = sub(r" \d+ of \d+$", "", label)
    return ProgressReport(min(n_done + 1, n_tasks), n_tasks, unit or "partition", is_one_pass=True)
