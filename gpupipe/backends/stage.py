"""Place of a stage of the timeline, and the meter of what it uses there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class StageUse:
    """Device use of a stage, and the work of each worker."""

    # `bytes_to_device`, `bytes_to_host`: bytes that gpupipe moved between host and device
    bytes_to_device: int = 0
    bytes_to_host: int = 0
    peak_bytes: int | None = None  # peak device memory; None without a device
    fallbacks: tuple[str, ...] = ()  # work that fell back to the host, with the reason
    # The engine of each family of kernels that computed on the host
    engines: Mapping[str, str] = field(default_factory=dict)
    workers: tuple[Mapping[str, Any], ...] = ()  # ``address``, tasks, seconds and bytes of each worker of a cluster


class Meter(Protocol):
    """Meter of the use of stages: a `gpupipe.backends.base.Backend` or `gpupipe.partitions.workers.Workers`."""

    def open_stage(self) -> None:
        """Start counting for a stage."""

    def synchronize(self) -> None:
        """Wait until the work of the stage is done; not called for a stage that failed."""

    def close_stage(self) -> StageUse:
        """Return the use of the innermost stage."""

    def take_notes(self) -> list[str]:
        """Return the warnings of the stage, each once."""


@dataclass(frozen=True)
class Place:
    """Place of a stage: host, device or workers."""

    device: str  # "cpu" or "gpu"
    reason: str = ""
    meter: Meter | None = None  # counts what the stage uses; None if nothing is counted
    # Returns the current `gpupipe.models.progress.ProgressReport` of the stage, or None
    progress: Callable[[], Any] | None = None
