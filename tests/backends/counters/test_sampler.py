"""The sampler of hardware counters: failures of single counters, and its own cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from gpupipe.backends.counters.counter import CounterReader, CounterUnavailable, HardwareCounter
from gpupipe.backends.counters.sampler import CORE_SHARE, HardwareSampler


class Machine:
    """A machine whose counters succeed or fail as told, at the cost that they are given."""

    def __init__(self, **costs: float) -> None:
        self.now = self.cpu = 0.0
        self.failures: dict[str, Exception] = {}
        self.n_readings = dict.fromkeys(costs, 0)
        readers = [
            CounterReader((HardwareCounter(name, "%"),), self._reader(name, cost)) for name, cost in costs.items()
        ]
        self.sampler = HardwareSampler(readers, 1.0, lambda: self.now, lambda: self.cpu)

    def _reader(self, name: str, cost: float) -> Callable[[], Sequence[float]]:
        def read() -> Sequence[float]:
            self.n_readings[name] += 1
            self.cpu += cost
            if name in self.failures:
                raise self.failures[name]
            return (7.0,)

        return read

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            self.sampler.sample()


def test_an_unavailable_counter_is_dropped_alone_and_is_not_asked_again() -> None:
    machine = Machine(power=0.0, fan=0.0)
    machine.failures["fan"] = CounterUnavailable("this GPU has no fan")
    machine.run(3)
    record = machine.sampler.samples.to_json()
    assert record["counters"]["power"]["values"] == [7.0, 7.0, 7.0]
    assert record["unavailable"] == {"fan": "this GPU has no fan"}
    assert machine.n_readings == {"power": 4, "fan": 2}


def test_a_failure_that_passes_leaves_a_gap_and_no_reason() -> None:
    machine = Machine(power=0.0)
    machine.run(1)
    machine.failures["power"] = OSError("busy")
    machine.run(2)
    machine.failures.clear()
    machine.run(1)
    record = machine.sampler.samples.to_json()
    assert record["counters"]["power"]["values"] == [7.0, None, None, 7.0]
    assert record["unavailable"] == {}


def test_a_counter_that_never_succeeds_has_its_last_error_as_the_reason() -> None:
    machine = Machine(power=0.0)
    machine.sampler._readers[0].has_succeeded = False
    machine.failures["power"] = OSError("still busy")
    machine.run(2)
    record = machine.sampler.samples.to_json()
    assert record["counters"] == {} and record["unavailable"] == {"power": "OSError: still busy"}


@pytest.mark.parametrize("cost", [0.001, 0.02, 3.0])
def test_expensive_counters_are_read_less_often_and_cheap_ones_are_not(cost: float) -> None:
    machine = Machine(cheap=0.0001, pcie=cost, scan=cost / 2)
    machine.run(4)  # the first readings, which find the cost
    before = machine.cpu
    machine.run(2_000)
    assert machine.cpu - before <= 2_000 * CORE_SHARE
    assert machine.n_readings["cheap"] == 2_005
    assert machine.n_readings["pcie"] >= min(2_005, int(2_000 * CORE_SHARE / 3 / cost))
