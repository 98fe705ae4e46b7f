"""Timing of single calls with a fake clock, and their order statistics."""

from __future__ import annotations

import numpy as np
import pytest

from gpupipe.model_parts import latency as timing
from gpupipe.model_parts.latency import order_statistic, time_calls


class Clock:
    """A clock that only calls advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def call(self, seconds: float) -> None:
        """Take the given time."""
        self.now += seconds


@pytest.mark.parametrize("n", [1, 2, 99, 100, 101, 500, 763, 10_000])
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_order_statistics_are_those_of_numpy(n: int, share: float) -> None:
    values = np.random.default_rng(n).gamma(2.0, size=n)
    assert order_statistic(values.tolist(), share) == np.quantile(values, share, method="inverted_cdf")


def test_calls_are_timed_in_turn_after_the_warm_up() -> None:
    clock, rows = Clock(), [0.001, 0.002, 0.003]
    seconds = time_calls(clock.call, rows, 1.0, clock=clock)
    first = timing.WARM_UP_CALLS % len(rows)
    assert seconds[:3] == pytest.approx(rows[first:] + rows[:first])
    assert np.mean(seconds) == pytest.approx(0.002, rel=0.01)
    assert sum(seconds) == pytest.approx(timing.LEAST_SECONDS, abs=0.01)  # 1,000 calls


def test_fast_calls_end_with_their_number_and_slow_ones_with_enough_of_them() -> None:
    clock = Clock()
    assert len(time_calls(clock.call, [1e-6], 1.0, clock=clock)) == timing.MOST_CALLS
    assert len(time_calls(clock.call, [0.05], 1.0, clock=clock)) == timing.LEAST_CALLS


def test_a_slow_warm_up_is_cut_short() -> None:
    clock, n_calls = Clock(), []

    def call(seconds: float) -> None:
        clock.call(seconds)
        n_calls.append(clock.now)

    seconds = time_calls(call, [0.3], 1.0, clock=clock)
    assert len(n_calls) - len(seconds) == 2


@pytest.mark.parametrize(("n_slow", "is_cut_short"), [(5, False), (6, True)])
def test_calls_over_the_limit_end_a_measurement_once_they_decide_it(n_slow: int, is_cut_short: bool) -> None:
    """Five slow calls of 500 leave the p99 within the limit, six do not, however fast the others would be."""
    clock = Clock()
    warm_up = [0.0] * timing.WARM_UP_CALLS
    rows = [*warm_up, *[1.0] * n_slow, *[0.001] * timing.LEAST_CALLS]
    seconds = time_calls(clock.call, rows, 0.5, clock=clock)
    assert (len(seconds) < timing.LEAST_CALLS) == is_cut_short
    assert (order_statistic(seconds, 0.99) > 0.5) == is_cut_short


def test_a_measurement_can_be_stopped_between_two_calls() -> None:
    clock, places = Clock(), []

    def check(where: str) -> None:
        places.append((where, clock.now))
        if clock.now > 1.0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_calls(clock.call, [0.01], 1.0, clock=clock, check=check)
    where, seconds = places[-1]
    assert where == "while measuring the latency"
    assert seconds == pytest.approx(1.0, abs=2 * timing.CHECK_SECONDS)
