"""Keyed features compared with cuDF's groupby and rolling on the same events; times include sorting."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peers import keyed_cudf
from benchmarks.peers.keyed_cudf import DAYS, LAG, ROWS
from gpupipe.table.device.keys import sort_by_key
from gpupipe.typing import Array
from gpupipe.units import DAY_US
from gpupipe_kernels import keyed

if TYPE_CHECKING:
    import cudf

EVENTS_A_KEY = 50
CALLS = 5

Ours = Callable[[keyed.History, Array], Array]
Theirs = Callable[["cudf.DataFrame"], "cudf.Series"]


def compare(n_events: int) -> Iterator[dict[str, Any]]:
    """Yield the result of `compare_runs` for each feature."""
    import cudf

    key, when, value = _events(n_events)
    frame = cudf.DataFrame({"key": key, "when": when, "value": value})
    n_keys = int(key.max()) + 1
    for name, (ours, theirs) in FEATURES.items():
        yield {"feature": name, "events": n_events, **_one(ours, theirs, (key, when, value, n_keys), frame)}


def line_of(row: Mapping[str, Any]) -> str:
    """Return a feature's results as a line of text."""
    if "error" in row:
        ours = f"{row['gpupipe_seconds'] * 1e3:.2f} ms, " if "gpupipe_seconds" in row else ""
        return f"{row['feature']}: {ours}{row['error']}"
    return (
        f"{row['feature']}: {row['gpupipe_seconds'] * 1e3:.2f} ms, cuDF {row['cudf_seconds'] * 1e3:.2f} ms, "
        f"{row['ratio']:.1f}x, {'equal' if row['equal'] else 'NOT EQUAL'}"
    )


def failure_of(row: Mapping[str, Any]) -> str:
    """Return the problem of a result, or ``""``."""
    if "error" in row:
        return f"{row['feature']}: {row['error']}"
    return "" if row["equal"] else f"{row['feature']} differs from cuDF's result"


def compare_runs(
    run_ours: Callable[[], Any],
    run_theirs: Callable[[], Any],
    are_equal: Callable[[Any, Any], bool],
    seconds_of: Callable[[Callable[[], Any]], float],
) -> dict[str, Any]:
    """Return the seconds of both and whether they agree; after an error, partial results and ``error``."""
    row: dict[str, Any] = {}
    side = "gpupipe"
    try:
        made = run_ours()
        row["gpupipe_seconds"] = seconds_of(run_ours)
        side = "cuDF"
        expected = run_theirs()
        row["cudf_seconds"] = seconds_of(run_theirs)
        side = "the comparison"
        row |= {"ratio": row["cudf_seconds"] / row["gpupipe_seconds"], "equal": are_equal(made, expected)}
    except Exception as error:  # from any library; the other features are still measured
        row["error"] = f"{side} failed: {type(error).__name__}: {error}"
    return row


def _events(n: int) -> tuple[Array, Array, Array]:
    """Return (key, time, value): half of the events have one key; times are distinct and unordered."""
    import cupy

    rng = np.random.default_rng(0)
    key = rng.integers(0, max(1, n // EVENTS_A_KEY), n).astype(np.int32)
    key[rng.random(n) < 0.5] = 0
    when = rng.permutation(n) * (365 * DAY_US // n)
    return cupy.asarray(key), cupy.asarray(when), cupy.asarray(rng.normal(size=n))


def _one(ours: Ours, theirs: Theirs, events: tuple[Any, ...], frame: cudf.DataFrame) -> dict[str, Any]:
    import cupy

    key, when, value, n_keys = events

    def run_ours() -> tuple[Array, Array]:
        order = sort_by_key(key, when, cupy)
        history = keyed.order_events(key, when, n_keys, order=order, allocate=cupy.empty)
        return order, ours(history, value[order])

    def run_theirs() -> cudf.Series:
        return theirs(frame.sort_values(["key", "when"], ignore_index=True))

    def are_equal(made: tuple[Array, Array], expected: cudf.Series) -> bool:
        order, values = made
        others = expected.to_cupy(dtype="float64", na_value=np.nan)
        return bool(cupy.allclose(cupy.asarray(values)[order], others, rtol=1e-5, atol=1e-4, equal_nan=True))

    return compare_runs(run_ours, run_theirs, are_equal, _seconds_of)


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


def _sum_of_last_events(history: keyed.History, value: Array) -> Array:
    queries = keyed.queries_of_events(history, include_current=True)
    return keyed.aggregate(value, keyed.last_rows(queries, ROWS), "sum")


def _mean_of_last_days(history: keyed.History, value: Array) -> Array:
    queries = keyed.queries_of_events(history, include_current=True)
    return keyed.aggregate(value, keyed.last_span(queries, DAYS * DAY_US), "mean")


def _running_sum(history: keyed.History, value: Array) -> Array:
    return keyed.aggregate(value, keyed.queries_of_events(history, include_current=True), "sum")


def _value_of_event_before(history: keyed.History, value: Array) -> Array:
    return keyed.lag(value, keyed.queries_of_events(history), LAG)


FEATURES: dict[str, tuple[Ours, Theirs]] = {
    f"sum of the last {ROWS} events": (_sum_of_last_events, keyed_cudf.sum_of_last_events),
    f"mean of the last {DAYS} days": (_mean_of_last_days, keyed_cudf.mean_of_last_days),
    "running sum": (_running_sum, keyed_cudf.running_sum),
    "value of the previous event": (_value_of_event_before, keyed_cudf.value_of_event_before),
}
