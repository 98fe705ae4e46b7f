"""Keyed features beside cuDF's own groupby and rolling, on the device: same events, same results, sorting counted.

cuDF is the peer here, so this is the one file beside the GPU backend that imports it; `gpupipe.bench.device` does so
after it has found a GPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe_kernels import keyed

if TYPE_CHECKING:
    import cudf

DAY = 86_400_000_000  # microseconds
EVENTS_A_KEY = 50
CALLS = 5
ROWS, LAG = 7, 1

Array = Any
Ours = Callable[[keyed.History, Array], Array]
Theirs = Callable[["cudf.DataFrame"], "cudf.Series"]


def compare(n_events: int) -> list[dict[str, Any]]:
    """Return the seconds of both for each feature, and whether they agree."""
    import cudf

    key, when, value = _events(n_events)
    frame = cudf.DataFrame({"key": key, "when": when, "value": value})
    n_keys = int(key.max()) + 1
    return [_one(name, ours, theirs, (key, when, value, n_keys), frame) for name, (ours, theirs) in FEATURES.items()]


def line_of(row: Mapping[str, Any]) -> str:
    """Return a feature's figures as people read them."""
    return (
        f"{row['feature']}: {row['gpupipe_seconds'] * 1e3:.2f} ms, cuDF {row['cudf_seconds'] * 1e3:.2f} ms, "
        f"{row['ratio']:.1f}x, {'equal' if row['equal'] else 'NOT EQUAL'}"
    )


def _events(n: int) -> tuple[Array, Array, Array]:
    """Return (key, time, value): half of the events are of one key; times are all different, and in no order."""
    import cupy

    rng = np.random.default_rng(0)
    key = rng.integers(0, max(1, n // EVENTS_A_KEY), n).astype(np.int32)
    key[rng.random(n) < 0.5] = 0
    when = rng.permutation(n) * (365 * DAY // n)
    return cupy.asarray(key), cupy.asarray(when), cupy.asarray(rng.normal(size=n))


def _one(name: str, ours: Ours, theirs: Theirs, events: tuple[Any, ...], frame: cudf.DataFrame) -> dict[str, Any]:
    import cupy

    key, when, value, n_keys = events

    def run_ours() -> tuple[Array, Array]:
        order = cupy.lexsort(cupy.stack([when, key.astype(when.dtype)])).astype(np.int32)
        history = keyed.order_events(key, when, n_keys, order=order)
        return order, ours(history, value[order])

    def run_theirs() -> cudf.Series:
        return theirs(frame.sort_values(["key", "when"], ignore_index=True))

    order, made = run_ours()
    expected = run_theirs().to_cupy(dtype="float64", na_value=np.nan)
    equal = bool(cupy.allclose(cupy.asarray(made)[order], expected, rtol=1e-5, atol=1e-4, equal_nan=True))
    mine, others = _seconds_of(run_ours), _seconds_of(run_theirs)
    return {
        "feature": name,
        "events": len(key),
        "gpupipe_seconds": mine,
        "cudf_seconds": others,
        "ratio": others / mine,
        "equal": equal,
    }


def _seconds_of(function: Callable[[], object]) -> float:
    import cupy

    seconds = []
    for _ in range(CALLS):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        function()
        cupy.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _rolling_sum(history: keyed.History, value: Array) -> Array:
    queries = keyed.queries_of_events(history, include_current=True)
    return keyed.aggregate(value, keyed.last_rows(queries, ROWS), "sum")


def _span_mean(history: keyed.History, value: Array) -> Array:
    queries = keyed.queries_of_events(history, include_current=True)
    return keyed.aggregate(value, keyed.last_span(queries, 7 * DAY), "mean")


def _running_sum(history: keyed.History, value: Array) -> Array:
    return keyed.aggregate(value, keyed.queries_of_events(history, include_current=True), "sum")


def _lag(history: keyed.History, value: Array) -> Array:
    return keyed.lag(value, keyed.queries_of_events(history), LAG)


def _cudf_span_mean(frame: cudf.DataFrame) -> cudf.Series:
    by_time = frame.set_index(frame["when"].astype("datetime64[us]"))
    return by_time[["key", "value"]].groupby("key").rolling("7D", min_periods=1).mean()["value"]


FEATURES: dict[str, tuple[Ours, Theirs]] = {
    f"sum of the last {ROWS} events": (
        _rolling_sum,
        lambda frame: frame[["key", "value"]].groupby("key").rolling(ROWS, min_periods=1).sum()["value"],
    ),
    "mean of the last 7 days": (_span_mean, _cudf_span_mean),
    "running sum": (_running_sum, lambda frame: frame.groupby("key")["value"].cumsum()),
    "value of the event before": (_lag, lambda frame: frame.groupby("key")["value"].shift(LAG)),
}
