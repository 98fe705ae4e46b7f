"""Keyed features against pandas, on a table that is not sorted by time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe_kernels import keyed
from gpupipe_kernels.engines import HostEngine
from gpupipe_kernels.keyed.features import Function
from gpupipe_kernels.typing import Array

HOUR = 3_600_000_000
ENGINES = pytest.mark.parametrize("engine", ["numpy", "numba"])


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Return unsorted lines of customers, with ties in time, nulls, and one customer with half of them."""
    rng = np.random.default_rng(0)
    n = 3000
    lines = pd.DataFrame(
        {
            "key": np.where(rng.random(n) < 0.5, 7, rng.integers(0, 150, n)).astype(np.int32),
            "time": rng.integers(0, 24 * 120, n) * HOUR,
            "x": np.where(rng.random(n) < 0.15, np.nan, rng.gamma(2.0, 20.0, n).round(2)),
            "code": rng.integers(1, 40, n).astype(np.int32),
        }
    )
    return lines


def ordered(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(at=pd.to_datetime(frame["time"], unit="us")).sort_values(["key", "time"], kind="stable")


def of_events(frame: pd.DataFrame, engine: HostEngine, current: bool) -> tuple[keyed.Queries, keyed.KeyedColumn]:
    history = keyed.order_events(frame["key"].to_numpy(), frame["time"].to_numpy(), engine=engine, n_threads=2)
    column = keyed.column(history, frame["x"].to_numpy()[history.order])
    return keyed.queries_of_events(history, current), column


def assert_same(made: Array, expected: pd.Series) -> None:
    np.testing.assert_allclose(made, expected.sort_index().to_numpy(float), rtol=2e-6, atol=1e-6)


CUMULATIVE: dict[str, Callable[[Any], pd.Series]] = {
    "sum": lambda x: x.cumsum(),
    "min": lambda x: x.cummin(),
    "max": lambda x: x.cummax(),
}


@ENGINES
@pytest.mark.parametrize("function", CUMULATIVE)
def test_an_aggregate_up_to_each_line_is_cumulative(
    frame: pd.DataFrame, engine: HostEngine, function: Function
) -> None:
    queries, column = of_events(frame, engine, current=True)
    lines = ordered(frame)
    expected = CUMULATIVE[function](lines.groupby("key")["x"]).groupby(lines["key"]).ffill()
    made = keyed.aggregate(column, queries, function)
    assert_same(made, expected.fillna(0.0) if function == "sum" else expected)


@ENGINES
@pytest.mark.parametrize("function", ["count", "mean", "std", "sum", "min", "max"])
@pytest.mark.parametrize("current", [True, False])
def test_a_window_of_time_is_that_of_rolling(
    frame: pd.DataFrame, engine: HostEngine, function: Function, current: bool
) -> None:
    if not current:  # of events at the same time, ours see those above them, and pandas' none
        frame = frame.drop_duplicates(["key", "time"]).reset_index(drop=True)
    queries, column = of_events(frame, engine, current)
    windows = keyed.last_span(queries, 7 * 24 * HOUR)
    lines = ordered(frame)
    rolling = lines.set_index("at").groupby("key")["x"].rolling("7D", closed="right" if current else "left")
    expected = pd.Series(rolling.agg(function).to_numpy(), lines.index)
    made = keyed.aggregate(column, windows, function)
    assert_same(made, expected.fillna(0.0) if function in ("count", "sum") else expected)


@ENGINES
@pytest.mark.parametrize("function", ["count", "mean", "std", "sum", "min", "max"])
def test_a_window_of_rows_is_that_of_rolling(frame: pd.DataFrame, engine: HostEngine, function: Function) -> None:
    queries, column = of_events(frame, engine, current=True)
    lines = ordered(frame)
    rolled = lines.groupby("key")["x"].rolling(5, min_periods=0 if function == "count" else 1).agg(function)
    expected = rolled.droplevel(0)
    made = keyed.aggregate(column, keyed.last_rows(queries, 5), function)
    assert_same(made, expected.fillna(0.0) if function == "sum" else expected)


@ENGINES
@pytest.mark.parametrize("k", [1, 4])
def test_a_lag_is_that_of_shift(frame: pd.DataFrame, engine: HostEngine, k: int) -> None:
    queries, column = of_events(frame, engine, current=False)
    assert_same(keyed.lag(column, queries, k), ordered(frame).groupby("key")["x"].shift(k))


@ENGINES
def test_the_newest_value_less_an_earlier_one_is_that_of_diff(frame: pd.DataFrame, engine: HostEngine) -> None:
    queries, column = of_events(frame, engine, current=True)
    change = keyed.lag(column, queries, 1).astype(float) - keyed.lag(column, queries, 3)
    np.testing.assert_allclose(change, ordered(frame).groupby("key")["x"].diff(2).sort_index(), rtol=1e-4, atol=1e-4)


@ENGINES
def test_the_time_between_events_is_that_of_diff(frame: pd.DataFrame, engine: HostEngine) -> None:
    queries, column = of_events(frame, engine, current=False)
    lines = ordered(frame)
    assert_same(keyed.time_since(queries, unit=HOUR), lines.groupby("key")["time"].diff() / HOUR)
    gaps = keyed.gaps(column.history, HOUR)
    np.testing.assert_array_equal(gaps, lines.groupby("key")["time"].diff().to_numpy() / HOUR)


@ENGINES
def test_different_codes_are_those_without_duplicates(frame: pd.DataFrame, engine: HostEngine) -> None:
    queries, column = of_events(frame, engine, current=True)
    lines = ordered(frame)
    for values in ("code", "x"):
        is_new = ~lines.duplicated(["key", values]) & lines[values].notna()
        expected = is_new.groupby(lines["key"]).cumsum()
        sorted_values = lines[values].to_numpy()
        made = (
            keyed.aggregate_codes(sorted_values, queries, "nunique")
            if values == "code"
            else keyed.aggregate(column, queries, "nunique")
        )
        assert_same(made, expected)


@ENGINES
def test_a_decayed_sum_is_that_of_an_exponential_mean(frame: pd.DataFrame, engine: HostEngine) -> None:
    """pandas has the time-weighted mean, which equals the decayed sum divided by that of ones."""
    known = frame.dropna().reset_index(drop=True)
    queries, column = of_events(known, engine, current=True)
    lines = ordered(known)
    weighted = keyed.decayed_sum(column, queries, 36.0 * HOUR) / keyed.decayed_sum(None, queries, 36.0 * HOUR)
    half_life: Any = "36h"  # the stubs of pandas know numbers only
    for key, rows in lines.groupby("key"):
        expected = rows["x"].ewm(halflife=half_life, times=rows["at"]).mean()
        np.testing.assert_allclose(weighted[rows.index], expected, rtol=3e-6, err_msg=f"key {key}")


@ENGINES
def test_sessions_are_runs_without_a_long_gap(frame: pd.DataFrame, engine: HostEngine) -> None:
    queries, _ = of_events(frame, engine, current=True)
    count, events, age = keyed.sessions(queries, 12 * HOUR, unit=HOUR)
    lines = ordered(frame)
    begins = lines.groupby("key")["time"].diff().fillna(np.inf) > 12 * HOUR
    number = begins.groupby(lines["key"]).cumsum()
    session = lines.groupby([lines["key"], number])["time"]
    assert_same(count, number)
    assert_same(events, session.cumcount() + 1)
    assert_same(age, (lines["time"] - session.transform("first")) / HOUR)


@ENGINES
def test_features_at_a_cut_off_equal_a_group_by_of_earlier_lines(frame: pd.DataFrame, engine: HostEngine) -> None:
    column = of_events(frame, engine, current=False)[1]
    cutoff = 60 * 24 * HOUR
    queries = keyed.queries_before(column.history, np.arange(150, dtype=np.int32), np.array(cutoff))
    earlier = frame[frame["time"] < cutoff].groupby("key")["x"]
    functions: tuple[Function, ...] = ("count", "sum", "mean", "std", "min", "max")
    for function in functions:
        expected = earlier.agg(function).reindex(range(150))
        made = keyed.aggregate(column, queries, function)
        assert_same(made, expected.fillna(0.0) if function in ("count", "sum") else expected)
    ordered_lines = ordered(frame)
    newest = ordered_lines[ordered_lines["time"] < cutoff].groupby("key")
    picked = keyed.pick(ordered_lines["code"].to_numpy(), queries, "last")
    np.testing.assert_array_equal(picked, newest["code"].last().reindex(range(150), fill_value=0))
