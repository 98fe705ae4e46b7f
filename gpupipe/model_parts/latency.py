"""Latency of single rows: timed calls, one after the other, and their order statistics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, TypeVar

from gpupipe.units import format_latency

WARM_UP_CALLS, WARM_UP_SECONDS = 200, 0.5
MOST_CALLS = 10_000
LEAST_CALLS = 500  # the p99 is then the sixth longest call
LEAST_SECONDS = 2.0  # then a measurement may end before MOST_CALLS
CHECK_SECONDS = 0.1  # between two safe points

RowT = TypeVar("RowT")


@dataclass(frozen=True)
class Latency:
    """Latency of single rows: wall time from a dict of values to the prediction.

    `p50_seconds` and `p99_seconds` are order statistics: half of the calls, and 99 % of them, took at most this long.
    The `n_calls` timed calls are made one after the other, on one thread. `limit_seconds` is ``evaluate.max_latency``.
    `engine` is that of the feature program, ``"numba"`` or ``"numpy"``. `estimator` is what computes the prediction, in
    words: ``"compiled trees"``.
    """

    p50_seconds: float
    p99_seconds: float
    n_calls: int
    limit_seconds: float
    engine: str = ""
    estimator: str = ""

    @property
    def is_over_limit(self) -> bool:
        """True if the p99 exceeds the limit."""
        return self.p99_seconds > self.limit_seconds

    def __str__(self) -> str:
        by = ", ".join(filter(None, (self.engine, self.estimator)))
        p50, p99 = format_latency(self.p50_seconds), format_latency(self.p99_seconds)
        return f"p99 {p99}, p50 {p50} of {self.n_calls:,} rows one by one" + (f" ({by})" if by else "")

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values, without the limit."""
        return {
            "p50_seconds": self.p50_seconds,
            "p99_seconds": self.p99_seconds,
            "calls": self.n_calls,
            "engine": self.engine,
            "estimator": self.estimator,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any], limit_seconds: float) -> Latency:
        """Return the latency from the result of `to_json` and the limit."""
        return Latency(
            value["p50_seconds"],
            value["p99_seconds"],
            value["calls"],
            limit_seconds,
            value["engine"],
            value["estimator"],
        )


def time_calls(
    call: Callable[[RowT], object],
    rows: Sequence[RowT],
    limit_seconds: float,
    *,
    clock: Callable[[], float] = time.perf_counter,
    check: Callable[[str], None] = lambda where: None,
) -> list[float]:
    """Return the wall seconds of each call of ``call(row)``, in order, after calls to warm up.

    The rows are used in turn, and the garbage collector stays on. The measurement ends after `MOST_CALLS`, or after
    `LEAST_SECONDS` if there were `LEAST_CALLS`, or enough calls over the limit that their p99 exceeds it in any case.

    `check` is called between the calls with the name of a safe point; it raises an exception to end the measurement.
    """
    begin = now = checked = clock()
    source = cycle(rows)
    for _ in range(WARM_UP_CALLS):
        call(next(source))
        now = clock()
        if now - begin >= WARM_UP_SECONDS:
            break
    begin = now
    n_over = 0
    seconds = list[float]()
    for row in source:
        start = clock()
        call(row)
        now = clock()
        seconds.append(now - start)
        n_over += now - start > limit_seconds
        if now - checked >= CHECK_SECONDS:
            check("while measuring the latency")
            checked = now
        is_certain = len(seconds) >= LEAST_CALLS or n_over > LEAST_CALLS // 100
        if len(seconds) >= MOST_CALLS or (now - begin >= LEAST_SECONDS and is_certain):
            break
    return seconds


def order_statistic(values: Sequence[float], share: float) -> float:
    """Return the smallest of `values` that at least a `share` of them do not exceed.

    Examples
    --------
    >>> order_statistic([4.0, 1.0, 3.0, 2.0], 0.5), order_statistic(range(1, 501), 0.99)
    (2.0, 495)
    """
    return sorted(values)[math.ceil(round(share * len(values), 9)) - 1]
