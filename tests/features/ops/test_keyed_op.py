"""Ops over the history of a key, against pandas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe import FeatureProgram
from gpupipe.errors import ConfigError

DAY = pd.Timedelta(days=1)


@pytest.fixture(scope="module")
def visits() -> pd.DataFrame:
    """Return visits of a few customers, not in order of time, with ties, nulls, and one customer who owns half."""
    rng = np.random.default_rng(0)
    n = 400
    customer = np.where(rng.random(n) < 0.5, 1, rng.integers(2, 30, n))
    hours = rng.integers(0, 24 * 60, n)  # 60 days; some at the same hour
    spend = np.where(rng.random(n) < 0.2, np.nan, rng.normal(20, 10, n).round(2))
    return pd.DataFrame(
        {
            "customer": customer,
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(hours, unit="h"),
            "spend": spend,
            "shop": rng.choice(np.array(["north", "south", "west", None], object), n),
            "returned": rng.random(n) < 0.3,
        }
    )


def features(frame: pd.DataFrame, op: dict[str, Any]) -> pd.DataFrame:
    program = FeatureProgram([op], view="codes").fit(frame)
    derivation = program.fitted_.derivation
    assert derivation is not None
    made = [f.name for f in program.fitted_.features if f.inputs[0] in derivation.made]
    return as_frame(program.transform(frame), program)[made]


def as_frame(matrix: Any, program: FeatureProgram) -> pd.DataFrame:
    """Return a matrix of features with their names."""
    names: Any = program.get_feature_names_out()
    return pd.DataFrame(matrix, columns=names)


def by_hand(frame: pd.DataFrame, figure: Callable[[pd.DataFrame, pd.Series], Any], current: bool = False) -> list[Any]:
    """Return `figure(earlier rows of the same customer, this row)` for each row: the definition, spelt out."""
    ordered = frame.assign(place=np.arange(len(frame))).sort_values(["at", "place"], kind="stable")
    result: dict[int, Any] = {}
    for _, rows in ordered.groupby("customer"):
        for i in range(len(rows)):
            row = rows.iloc[i]
            result[int(row["place"])] = figure(rows.iloc[: i + int(current)], row)
    return [result[i] for i in range(len(frame))]


HISTORY = {"key": "customer", "time": "at"}


@pytest.mark.parametrize("function", ["count", "sum", "mean", "min", "max", "std"])
@pytest.mark.parametrize("current", [False, True])
def test_an_aggregate_covers_the_rows_before(visits: pd.DataFrame, function: str, current: bool) -> None:
    made = features(visits, {"aggregate": HISTORY | {"columns": {"spend": function}, "current": current}})

    expected = by_hand(visits, lambda before, row: before["spend"].agg(function), current)

    np.testing.assert_allclose(made[f"spend_{function}"], np.array(expected, float), rtol=2e-5, atol=1e-4)


def test_rows_are_counted_if_no_column_is_named(visits: pd.DataFrame) -> None:
    made = features(visits, {"aggregate": HISTORY})

    assert made["count"].tolist() == by_hand(visits, lambda before, row: len(before))


def test_the_last_shop_is_a_category_again(visits: pd.DataFrame) -> None:
    program = FeatureProgram(
        [{"aggregate": HISTORY | {"columns": {"shop": ["last", "nunique"]}}}, {"one_hot": "shop_last"}]
    )

    matrix = as_frame(program.fit_transform(visits), program)

    last = by_hand(visits, lambda before, row: next(iter(before["shop"].dropna()[::-1]), None))
    kinds = by_hand(visits, lambda before, row: before["shop"].nunique())
    assert matrix["shop_last=north"].tolist() == [float(shop == "north") for shop in last]
    scaled = (np.array(kinds) - np.mean(kinds)) / np.std(kinds)
    np.testing.assert_allclose(matrix["shop_nunique"], scaled, rtol=1e-4, atol=1e-5)


def test_a_lag_is_the_value_of_the_row_before(visits: pd.DataFrame) -> None:
    made = features(visits, {"lag": HISTORY | {"columns": "spend", "periods": [1, 3, -1, -2]}})

    ordered = visits.assign(place=np.arange(len(visits))).sort_values(["at", "place"], kind="stable")
    for k in (1, 3, -1, -2):
        expected = ordered.groupby("customer")["spend"].shift(k).sort_index()
        np.testing.assert_allclose(made[f"spend_lag_{k}" if k > 0 else f"spend_lead_{-k}"], expected, rtol=1e-6)


def test_a_difference_matches_pandas(visits: pd.DataFrame) -> None:
    visits = visits.assign(spend=visits["spend"] + 1.7e9)  # float32 holds their differences, but not these numbers
    made = features(visits, {"difference": HISTORY | {"columns": "spend", "periods": [1, 2, -1, -3]}})

    ordered = visits.assign(place=np.arange(len(visits))).sort_values(["at", "place"], kind="stable")
    for k in (1, 2, -1, -3):
        expected = ordered.groupby("customer")["spend"].diff(k).sort_index()
        np.testing.assert_allclose(made[f"spend_difference_{k}"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("key", [["customer"], []])
def test_a_number_orders_rows_as_a_time_does(visits: pd.DataFrame, key: list[str]) -> None:
    rng = np.random.default_rng(1)
    step = rng.choice([-np.inf, -1e-300, -0.0, 0.0, 2.5, 1e300, np.nan, *np.arange(-5, 5) / 3], len(visits))
    frame = visits.assign(step=np.where(np.isinf(step), -1e308, step)).drop(columns="at")
    schema = {"step": "float"}
    op = {"key": key, "time": "step", "columns": "spend", "periods": [1, -1]}
    ops: list[Any] = [{"lag": op}, {"difference": op | {"prefix": "d_"}}, {"drop": "step"}]
    program = FeatureProgram(ops, view="codes", schema=schema).set_output(transform="pandas").fit(frame)
    made: Any = program.transform(frame)
    known = frame[frame.step.notna() & (frame.step.abs() < 2.0**125)]  # larger numbers are missing
    ordered = known.assign(by=0).sort_values("step", kind="stable")
    for k, name in ((1, "spend_lag_1"), (-1, "spend_lead_1")):
        expected = ordered.groupby(key or "by")["spend"].shift(k).reindex(frame.index)
        np.testing.assert_allclose(made[name], expected, rtol=1e-6)
        expected = ordered.groupby(key or "by")["spend"].diff(k).reindex(frame.index)
        np.testing.assert_allclose(made[f"d_spend_difference_{k}"], expected, rtol=1e-4, atol=1e-5)


def test_later_rows_are_refused_where_they_do_not_exist_and_otherwise_said(visits: pd.DataFrame, tmp_path: Any) -> None:
    op = HISTORY | {"columns": "spend", "periods": -1}
    for more, words in (({"gap": 0}, "reads later rows; remove"), ({"periods": 0}, "or after .-1. a row; got 0")):
        with pytest.raises(ConfigError, match=words):
            FeatureProgram([{"lag": op | more}]).fit(visits)
    frame = visits.assign(y=visits.returned.astype(float))
    with pytest.raises(ConfigError, match=r"which do not exist when a model predicts those of split.time; remove it"):
        gp.Pipeline(frame, target="returned", features=[{"difference": op}], split={"time": "at"}).features()
    with pytest.raises(ConfigError, match="is the target, which is not known"):
        gp.Pipeline(frame, target="spend", features=[{"lag": op}]).features()
    with pytest.warns(gp.RunWarning, match="lag: periods -1 read later rows of a key; a model needs these rows"):
        gp.Pipeline(frame, target="returned", features=[{"lag": op}, {"drop": "y"}]).features()
    number = HISTORY | {"columns": "spend", "time": "y"}
    for name, own in (("lag", {"periods": "7d"}), ("rolling", {"windows": "7d"})):
        with pytest.raises(ConfigError, match="expected datetime, found numeric"):
            FeatureProgram([{name: number | own}]).fit(frame)


@pytest.mark.parametrize("function", ["count", "sum", "mean", "min", "max", "std"])
def test_a_window_of_rows_matches_pandas(visits: pd.DataFrame, function: str) -> None:
    op = HISTORY | {"columns": "spend", "functions": function, "windows": 4, "current": True}
    made = features(visits, {"rolling": op})

    ordered = visits.assign(place=np.arange(len(visits))).sort_values(["at", "place"], kind="stable")
    rolled = ordered.groupby("customer")["spend"].rolling(4, min_periods=0).agg(function).droplevel(0).sort_index()
    expected = rolled.where(rolled.notna() | (function not in ("sum", "count")), 0.0)
    np.testing.assert_allclose(made[f"spend_{function}_4"], expected, rtol=2e-5, atol=1e-3)


@pytest.mark.parametrize("function", ["count", "sum", "mean", "min", "max"])
@pytest.mark.parametrize("current", [False, True])
def test_a_window_of_time_reaches_back_so_long(visits: pd.DataFrame, function: str, current: bool) -> None:
    op = HISTORY | {"columns": "spend", "functions": [function], "windows": ["7d"], "current": current}
    made = features(visits, {"rolling": op})

    def figure(before: pd.DataFrame, row: pd.Series) -> Any:
        age = row["at"] - before["at"]
        return before.loc[(age < 7 * DAY) if current else (age <= 7 * DAY), "spend"].agg(function)

    expected = np.array(by_hand(visits, figure, current), float)
    np.testing.assert_allclose(made[f"spend_{function}_7d"], expected, rtol=2e-5, atol=1e-3)


def test_a_decayed_sum_halves_with_each_half_life(visits: pd.DataFrame) -> None:
    made = features(visits, {"decay": HISTORY | {"columns": "spend", "half_life": "3d"}})
    counted = features(visits, {"decay": HISTORY | {"half_life": "12h"}})

    def faded(before: pd.DataFrame, row: pd.Series, half_life: pd.Timedelta, values: Any) -> float:
        return float((values * 0.5 ** ((row["at"] - before["at"]) / half_life)).sum())

    expected = by_hand(visits, lambda before, row: faded(before, row, 3 * DAY, before["spend"].fillna(0)))
    np.testing.assert_allclose(made["spend_decay_3d"], expected, rtol=1e-5, atol=1e-4)
    expected = by_hand(visits, lambda before, row: faded(before, row, DAY / 2, 1.0))
    np.testing.assert_allclose(counted["decay_12h"], expected, rtol=1e-5, atol=1e-6)


def test_a_session_ends_with_a_long_gap(visits: pd.DataFrame) -> None:
    made = features(visits, {"sessions": HISTORY | {"gap": "2d", "unit": "hours"}})

    def session(before: pd.DataFrame, row: pd.Series) -> tuple[float, float, float]:
        if before.empty:
            return 0.0, 0.0, np.nan
        starts = before["at"].diff().gt(2 * DAY).cumsum()
        newest = before[starts == starts.iloc[-1]]
        return starts.iloc[-1] + 1.0, len(newest), (row["at"] - newest["at"].iloc[0]) / pd.Timedelta(hours=1)

    expected = np.array(by_hand(visits, session))
    np.testing.assert_allclose(made[["session_count", "session_rows", "session_age"]], expected, rtol=1e-5)


def test_time_since_is_null_before_anything_happened(visits: pd.DataFrame) -> None:
    made = features(visits, {"time_since": HISTORY | {"of": ["last", "first"]}})
    returned = features(visits, {"time_since": HISTORY | {"columns": "returned"}})

    def since(before: pd.DataFrame, row: pd.Series, at: int) -> float:
        return np.nan if before.empty else (row["at"] - before["at"].iloc[at]) / DAY

    for which, at in (("last", -1), ("first", 0)):
        expected = by_hand(visits, partial(since, at=at))
        np.testing.assert_allclose(made[f"time_since_{which}"], expected, rtol=1e-5, atol=1e-7)
    expected = by_hand(visits, lambda before, row: since(before[before["returned"]], row, -1))
    np.testing.assert_allclose(returned["time_since_last_returned"], expected, rtol=1e-5, atol=1e-7)


def test_rfm_says_how_long_ago_how_often_and_how_much(visits: pd.DataFrame) -> None:
    made = features(visits, {"rfm": HISTORY | {"amount": "spend"}})

    assert list(made) == ["recency", "tenure", "frequency", "monetary", "monetary_mean"]
    expected = by_hand(visits, lambda before, row: (len(before), before["spend"].sum()))
    np.testing.assert_allclose(made[["frequency", "monetary"]], np.array(expected), rtol=1e-5, atol=1e-3)


def test_gaps_are_the_days_between_one_row_and_the_next(visits: pd.DataFrame) -> None:
    made = features(visits, {"aggregate": HISTORY | {"gaps": ["mean", "std", "max"]}})

    def gap(before: pd.DataFrame, row: pd.Series, function: str) -> Any:
        gaps: Any = before["at"].diff()
        return (gaps / DAY).agg(function)

    for function in ("mean", "std", "max"):
        expected = by_hand(visits, partial(gap, function=function))
        np.testing.assert_allclose(made[f"gap_{function}"], np.array(expected, float), rtol=1e-4, atol=1e-4)


def test_rows_after_the_cut_off_change_nothing(visits: pd.DataFrame) -> None:
    op = {"aggregate": HISTORY | {"as_of": "2024-02-01", "columns": {"spend": ["sum", "last"]}}}
    changed = visits.assign(spend=visits["spend"].where(visits["at"] < "2024-02-01", 1e6))

    pd.testing.assert_frame_equal(features(visits, op), features(changed, op))


def test_a_row_without_a_key_or_a_time_has_no_history() -> None:
    frame = pd.DataFrame(
        {
            "who": ["a", None, "a", None, "a"],
            "at": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "NaT"]),
            "x": [1.0, 2.0, 3.0, 4.0, 5.0],
        }
    )

    made = features(frame, {"aggregate": {"key": "who", "time": "at", "columns": {"x": "sum", "*": "count"}}})

    assert made["count"].tolist() == [0, 0, 1, 0, 0]
    assert made["x_sum"].tolist() == [0, 0, 1, 0, 0]


def test_a_key_of_two_columns_is_a_pair() -> None:
    frame = pd.DataFrame({"a": ["x", "x", "y", "x"], "b": [1, 2, 1, 1], "at": pd.to_datetime(["2024-01-01"] * 4)})

    made = features(frame, {"aggregate": {"key": ["a", "b"], "time": "at"}})

    assert made["count"].tolist() == [0, 0, 0, 1]


def test_the_key_is_not_a_feature_unless_an_op_names_it(visits: pd.DataFrame) -> None:
    op = {"aggregate": HISTORY}

    assert "customer" not in FeatureProgram([op]).fit(visits).get_feature_names_out()
    assert "customer" in FeatureProgram([op, {"impute": ["customer"]}]).fit(visits).get_feature_names_out()


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            {"aggregate": {"key": "customer", "time": "spend"}},
            "column 'spend' of the table: expected datetime, found numeric",
        ),
        ({"aggregate": HISTORY | {"columns": {"shop": "mean"}}}, "mean does not apply to 'shop', which is categorical"),
        ({"aggregate": HISTORY | {"columns": {"spent": "mean"}}}, "no column 'spent'"),
        ({"lag": HISTORY | {"columns": "*"}}, "history ops take column names"),
        ({"rfm": {"table": "orders", "time": "at", "as_of": "2024-01-01"}}, "no event table 'orders'"),
    ],
)
def test_wrong_columns_and_tables_are_rejected(visits: pd.DataFrame, op: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FeatureProgram([op]).fit(visits)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ({"aggregate": {"time": "at"}}, "set key and time"),
        ({"rolling": HISTORY | {"windows": "7 moons"}}, "expected a duration"),
    ],
)
def test_invalid_settings_are_rejected(op: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FeatureProgram([op]).fit(pd.DataFrame({"x": [1.0]}))
