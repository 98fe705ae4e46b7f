"""Mean and largest value of hardware counters."""

from __future__ import annotations

from collections.abc import Mapping

from gpupipe.backends.counters.history import rounded


class CounterStatistics:
    """Mean and largest value of each hardware counter over some samples.

    Examples
    --------
    >>> statistics = CounterStatistics()
    >>> statistics.add({"gpu0_power_watts": 300.0})
    >>> statistics.add({"gpu0_power_watts": 420.0})
    >>> statistics.to_json()
    {'gpu0_power_watts': {'mean': 360.0, 'max': 420.0}}
    """

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, float, float]] = {}  # number of values, their sum, and the largest

    def add(self, values: Mapping[str, float]) -> None:
        """Add the values of a sample."""
        for name, value in values.items():
            n, total, largest = self._found.get(name, (0, 0.0, value))
            self._found[name] = n + 1, total + value, max(largest, value)

    def to_json(self) -> dict[str, dict[str, float]]:
        """Return mean and largest value by counter, for timeline.json."""
        found = dict(self._found)
        return {
            name: {"mean": rounded(total / n), "max": rounded(largest)} for name, (n, total, largest) in found.items()
        }
