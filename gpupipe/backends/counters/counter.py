"""Hardware counters: named quantities of the machine or a GPU, and the calls that read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


class CounterUnavailable(Exception):
    """A counter cannot be read on this machine; the message has the reason."""


@dataclass(frozen=True)
class HardwareCounter:
    """Quantity that is sampled over a run.

    Attributes
    ----------
    name : str
        With the unit as its suffix: ``"gpu0_power_watts"``.
    unit : str
        For display: ``"W"``.
    limit : float, optional
        The largest possible value, such as the memory of the GPU.
    is_peak : bool
        Whether two values are combined to the larger one instead of the mean.
    """

    name: str
    unit: str
    limit: float | None = None
    is_peak: bool = False


@dataclass(frozen=True)
class CounterReader:
    """Call that reads counters together.

    Attributes
    ----------
    counters : tuple of HardwareCounter
        May be empty, for a call that other readers depend on.
    read : callable
        Returns the value of each counter; None for a value that is not known yet. Raises `CounterUnavailable` if the
        counters cannot be read on this machine, and any other exception if this one reading failed.
    name : str
        Name of a reader without counters, for the record of what is unavailable.
    """

    counters: tuple[HardwareCounter, ...]
    read: Callable[[], Sequence[float | None]]
    name: str = ""

    @property
    def names(self) -> list[str]:
        """Names of the counters, or the one of the reader."""
        return [counter.name for counter in self.counters] or [self.name]


@dataclass(frozen=True)
class HardwareSample:
    """Values of all hardware counters at one moment.

    Attributes
    ----------
    seconds : float
        Seconds since the start of the run's timeline.
    values : mapping of str to float
        Counter name to value. A counter that could not be read is missing.
    counters : mapping of str to HardwareCounter
        Every counter of the run by name, with its unit and limit.
    """

    seconds: float
    values: Mapping[str, float]
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
