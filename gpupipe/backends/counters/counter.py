"""Hardware counters: named quantities of the machine or a GPU, and the calls that read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


class CounterUnavailable(Exception):
    """A counter cannot be read on this machine; the message has the reason."""


@dataclass(frozen=True)
class HardwareCounter:
    """Quantity that is sampled over a run."""

    name: str  # with the unit as its suffix: ``"gpu0_power_watts"``
    unit: str  # for display: ``"W"``
    limit: float | None = None  # the largest possible value, such as the memory of the GPU
    is_peak: bool = False  # whether two values are combined to the larger one instead of the mean


@dataclass(frozen=True)
class CounterReader:
    """Call that reads counters together."""

    counters: tuple[HardwareCounter, ...]  # may be empty, for a call that other readers depend on
    # Returns the value of each counter; None for a value that is not known yet. Raises `CounterUnavailable` if the
    # counters cannot be read on this machine, and any other exception if this one reading failed.
    read: Callable[[], Sequence[float | None]]
    name: str = ""  # name of a reader without counters, for the record of what is unavailable

    @property
    def names(self) -> list[str]:
        """Names of the counters, or the one of the reader."""
        return [counter.name for counter in self.counters] or [self.name]


@dataclass(frozen=True)
class HardwareSample:
    """Values of all hardware counters at one moment."""

    seconds: float  # seconds since the start of the run's timeline
    # Counter name to value. A counter that could not be read is missing.
    values: Mapping[str, float]
    # Every counter of the run by name, with its unit and limit
    counters: Mapping[str, HardwareCounter] = field(default_factory=dict)


class GrowthRate:
    """Rate at which a total grows, per second, between two readings.

    `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: tuple[float, float] | None = None

    def update(self, total: float) -> float | None:
        """Return the rate since the last reading; None for the first one. A total that shrinks has the rate 0."""
        now, last = self._clock(), self._last
        self._last = now, total
        if last is None or now <= last[0]:
            return None
        return max(0.0, (total - last[1]) / (now - last[0]))
