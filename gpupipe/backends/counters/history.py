"""Samples of hardware counters over a run, in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from gpupipe.backends.counters.counter import HardwareCounter

MOST_SAMPLES = 512


class HardwareSamples:
    """Values of hardware counters on a regular grid of time.

    Each value describes one period. Once there are `most` of them, neighbours are combined and the period doubles, so
    that a run of any length has between ``most / 2`` and `most` values of each counter.

    - `start_seconds`: start of the first period, in seconds after the start of the run's timeline
    - `most`: an even number

    - `period_seconds`: the current period of the values
    - `devices`: prefix of the counters of a GPU to its name: ``{"gpu0": "NVIDIA H100 80GB HBM3"}``
    - `unavailable`: counter to the reason that it cannot be read

    Examples
    --------
    >>> samples = HardwareSamples([HardwareCounter("gpu0_power_watts", "W")], period_seconds=1.0)
    >>> samples.add(1.0, {"gpu0_power_watts": 400.0})
    >>> samples.add(3.0, {"gpu0_power_watts": 300.0})
    >>> samples.values("gpu0_power_watts")
    [400.0, None, 300.0]
    """

    def __init__(
        self,
        counters: Iterable[HardwareCounter],
        period_seconds: float,
        start_seconds: float = 0.0,
        most: int = MOST_SAMPLES,
    ) -> None:
        self.period_seconds, self.start_seconds = period_seconds, start_seconds
        self.devices: dict[str, str] = {}
        self.unavailable: dict[str, str] = {}
        self._most = most
        self._counters = {counter.name: counter for counter in counters}
        self._series: dict[str, list[float | None]] = {}
        # The slot of the last value of each counter, and the number of samples in it.
        self._last: dict[str, int] = {}
        self._in_last: dict[str, int] = {}
        self._n_slots, self._n_combined = 0, 1
        self._lock = threading.Lock()  # of the sampling thread and those that show or write the values

    def add(self, seconds: float, values: Mapping[str, float]) -> None:
        """Add the values that were read `seconds` after the start of the first period, which ends their period."""
        with self._lock:
            slot = self._slot(seconds)
            while slot >= self._most:
                self._halve()
                slot = self._slot(seconds)
            self._n_slots = max(self._n_slots, slot + 1)
            for name, value in values.items():
                self._add_value(self._counters[name], slot, value)

    def drop(self, name: str, reason: str) -> None:
        """Record that a counter cannot be read."""
        with self._lock:
            self.unavailable[name] = reason

    def values(self, name: str) -> list[float | None]:
        """Return the values of a counter by period; None for a period in which it was not read."""
        with self._lock:
            return self._padded(name)

    def to_json(self) -> dict[str, Any]:
        """Return the contents of ``samples`` in timeline.json."""
        with self._lock:
            return {
                "start_seconds": round(self.start_seconds, 6),
                "period_seconds": self.period_seconds,
                "devices": dict(self.devices),
                "counters": {
                    name: {
                        "unit": counter.unit,
                        "limit": counter.limit,
                        "values": [None if value is None else rounded(value) for value in self._padded(name)],
                    }
                    for name, counter in self._counters.items()
                    if name in self._series or name not in self.unavailable
                },
                "unavailable": dict(self.unavailable),
            }

    def _slot(self, seconds: float) -> int:
        """Return the position of a sample; a thread may wake up early, by the resolution of its clock."""
        n_periods = int(seconds / (self.period_seconds / self._n_combined) + 0.25)
        return max(0, n_periods - 1) // self._n_combined

    def _add_value(self, counter: HardwareCounter, slot: int, value: float) -> None:
        series = self._series.setdefault(counter.name, [])
        series += [None] * (slot + 1 - len(series))
        before, n = series[slot], self._in_last[counter.name] if slot == self._last.get(counter.name) else 0
        self._last[counter.name], self._in_last[counter.name] = slot, n + 1
        if before is None:
            series[slot] = value
        else:
            series[slot] = max(before, value) if counter.is_peak else (before * n + value) / (n + 1)

    def _halve(self) -> None:
        """Combine neighbours, and double the period; all values are complete, since the next sample is after them."""
        for name, series in self._series.items():
            padded = [*series, None] if len(series) % 2 else series
            pairs = zip(padded[::2], padded[1::2], strict=True)
            is_peak = self._counters[name].is_peak
            self._series[name] = [_combined(first, second, is_peak) for first, second in pairs]
        self._last.clear()
        self._n_slots = (self._n_slots + 1) // 2
        self._n_combined *= 2
        self.period_seconds *= 2

    def _padded(self, name: str) -> list[float | None]:
        series = self._series.get(name, [])
        return series + [None] * (self._n_slots - len(series))


def _combined(first: float | None, second: float | None, is_peak: bool) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return max(first, second) if is_peak else (first + second) / 2


def rounded(value: float) -> float | int:
    """Return a value for a file: whole numbers from 1,000 on, one decimal below."""
    return round(value) if abs(value) >= 1000 else round(value, 1)
