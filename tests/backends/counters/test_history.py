"""Samples of hardware counters in bounded memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.backends.counters.counter import HardwareCounter
from gpupipe.backends.counters.history import HardwareSamples

LOAD, MEMORY = HardwareCounter("load", "%"), HardwareCounter("memory", "B", is_peak=True)
TICKS = st.lists(st.one_of(st.none(), st.floats(0, 1e9)), max_size=150)


def added(ticks: list[float | None], period: float = 0.5, most: int = 16) -> HardwareSamples:
    samples = HardwareSamples([LOAD, MEMORY], period, most=most)
    for i, value in enumerate(ticks, 1):
        samples.add(i * period, {} if value is None else {"load": value, "memory": value})
    return samples


@given(ticks=TICKS)
def test_each_value_is_that_of_its_samples_and_their_number_is_bounded(ticks: list[float | None]) -> None:
    samples = added(ticks)
    n = round(samples.period_seconds / 0.5)
    assert n & (n - 1) == 0 and len(ticks) <= 16 * n and (n == 1 or len(ticks) > 8 * n)
    groups = [[value for value in ticks[i : i + n] if value is not None] for i in range(0, len(ticks), n)]
    for name, largest in (("load", False), ("memory", True)):
        values = samples.values(name)
        assert len(values) == len(groups)
        for value, group in zip(values, groups, strict=True):
            if not group:
                assert value is None
            elif largest:
                assert value == max(group)
            else:
                assert value is not None and min(group) * (1 - 1e-12) <= value <= max(group) * (1 + 1e-12)


@given(ticks=st.lists(st.floats(0, 1e6), min_size=1, max_size=150))
def test_without_gaps_a_value_is_the_mean_of_its_samples(ticks: list[float]) -> None:
    samples = added([*ticks])
    n = round(samples.period_seconds / 0.5)
    means = [np.mean(ticks[i : i + n]) for i in range(0, len(ticks), n)]
    np.testing.assert_allclose(np.array(samples.values("load"), float), np.array(means), rtol=1e-12, atol=1e-9)


def test_a_late_sample_leaves_a_gap_and_an_early_one_keeps_its_place() -> None:
    samples = HardwareSamples([LOAD], 1.0)
    for seconds in (1.0004, 1.9996, 4.3):
        samples.add(seconds, {"load": seconds})
    assert samples.values("load") == [1.0004, 1.9996, None, 4.3]
