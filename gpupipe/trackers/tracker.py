"""Interface of a tracker, implemented in the child process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

RunStatus = Literal["FINISHED", "FAILED", "KILLED"]


class MetricPoint(NamedTuple):
    """One value of a metric.

    `time_ms` is in milliseconds since 1970-01-01 UTC. `step` is the epoch, the round or 0.
    """

    name: str
    value: float
    time_ms: int
    step: int = 0


class TrackedDataset(NamedTuple):
    """Identity of the data of a run.

    `name` is that of the table, `digest` the hash of the identity of its files and of the settings that read them, and
    `source` its location. `columns` has the name and kind of each input column.
    """

    name: str
    digest: str
    source: str
    n_rows: int
    columns: Sequence[tuple[str, str]]


class ExperimentTracker(ABC):
    """Runs of one tracker, each under a key: "" is the run, others are nested in it.

    Methods raise the errors of the library; `is_temporary` tells which of them may be tried again.

    `settings` are those of the tracker. `ids` has the id of each run of an interrupted run by key; `start` fills it.
    """

    def __init__(self, settings: Mapping[str, Any], ids: dict[str, str]) -> None:
        self.settings, self.ids = settings, ids

    @abstractmethod
    def start(self, run: str, name: str, parent: str | None, tags: Mapping[str, str], time_ms: int) -> dict[str, str]:
        """Start a run, or continue that of `ids`; return its ``id`` and, if known, its ``url``."""

    @abstractmethod
    def log(self, run: str, params: Mapping[str, str], metrics: Sequence[MetricPoint], tags: Mapping[str, str]) -> None:
        """Log parameters and values of metrics, and set tags; parameters that the run has already are kept."""

    @abstractmethod
    def dataset(self, run: str, found: TrackedDataset) -> None:
        """Log the identity of the data."""

    @abstractmethod
    def text(self, run: str, path: str, content: str) -> None:
        """Upload a text file."""

    @abstractmethod
    def files(self, run: str, kind: str, folder: str, paths: Sequence[str]) -> None:
        """Upload files of `folder`, which keep their relative `paths`."""

    @abstractmethod
    def end(self, run: str, status: RunStatus, time_ms: int) -> None:
        """End a run."""

    @abstractmethod
    def is_temporary(self, error: Exception) -> bool:
        """Return whether a later attempt may succeed, such as after a lost connection."""
