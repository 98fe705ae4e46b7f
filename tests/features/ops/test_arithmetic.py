"""arithmetic against NumPy in float64 and pandas."""

from __future__ import annotations

import operator
import re
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from gpupipe.errors import ConfigError
from tests.examples import examples

NULL = float("nan")
NUMBER = st.integers(-400, 400).map(lambda i: i / 8) | st.just(NULL) | st.just(0.0)
ROWS = st.lists(st.tuples(NUMBER, NUMBER, NUMBER), min_size=1, max_size=40)
SCHEMA = dict.fromkeys("abc", "float")
KINDS = {"sum": operator.add, "difference": operator.sub, "product": operator.mul, "ratio": operator.truediv}


@pytest.mark.parametrize("kind", KINDS)
@examples(40)
@given(rows=ROWS)
@example(rows=[(1.0, 0.0, 1.0), (0.0, 0.0, 1.0), (-1.0, -0.0, 1.0), (NULL, 0.0, 1.0)])
def test_it_matches_float64_and_is_null_for_null_operands_and_zero_divisors(fit, kind: str, rows: list) -> None:
    frame = pd.DataFrame(rows, columns=list("abc"))
    columns = list("ab") if kind in ("difference", "ratio") else list("abc")
    got = fit(frame, [{"arithmetic": {kind: columns, "as": "x"}}], view="codes", schema=SCHEMA).training["x"]
    operands = [frame[column] for column in columns]
    if kind == "ratio":
        operands[1] = operands[1].where(operands[1] != 0)
    np.testing.assert_allclose(got, reduce(KINDS[kind], operands), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["ratio", "product"])
def test_dense_holds_no_null_after_a_division_by_0(fit, kind: str) -> None:
    made = fit({"a": [1.0, 2.0, 3.0], "b": [0.0, 4.0, 2.0]}, [{"arithmetic": {kind: ["a", "b"]}}])
    assert np.isfinite(made.training.to_numpy()).all()
    served = made.serve({"a": [1.0, None], "b": [0.0, None]})
    assert np.isfinite(served.to_numpy()).all()


@pytest.mark.parametrize(
    ("kind", "a", "b"),
    [("product", 1e30, -1e30), ("sum", 2e38, 3e38), ("difference", -3e38, 3e38), ("ratio", 1e30, 1e-30)],
)
@pytest.mark.parametrize("view", ["codes", "dense"])
def test_a_result_that_exceeds_float32_is_null_and_can_be_imputed(
    fit, kind: str, a: float, b: float, view: str
) -> None:
    frame = {"a": [1.0, a, 3.0, 4.0], "b": [1.0, b, 2.0, 4.0]}
    made = {"arithmetic": {kind: ["a", "b"], "as": "x"}}
    expected = KINDS[kind](np.array(frame["a"]), np.array(frame["b"]))[[0, 2, 3]]
    if view == "codes":
        got = fit(frame, [made], view=view).training["x"]
        np.testing.assert_array_equal(got, [expected[0], NULL, *expected[1:]])
    impute = {"impute": {"columns": "x", "strategy": "constant", "value": 7, "indicator": True}}
    filled = fit(frame, [made, impute], view=view).training
    np.testing.assert_array_equal(filled["x"], [expected[0], 7, *expected[1:]])
    np.testing.assert_array_equal(filled["x_missing"], [0, 1, 0, 0])


@pytest.mark.parametrize("ops", [[], [{"impute": "x"}], [{"standardize": "x"}], [{"min_max": "x"}], [{"log1p": "x"}]])
def test_served_rows_that_overflow_are_imputed_in_the_dense_view(fit, ops: list) -> None:
    frame = {"a": [1.0, 2.0, 3.0], "b": [2.0, 2.0, 5.0]}
    filled = [{"impute": ["a", "b"]}]  # so that nothing but the product can be null
    made = fit(frame, [*filled, {"arithmetic": {"product": ["a", "b"], "as": "x"}}, *ops])
    served = made.serve({"a": [1e30, 2.0], "b": [1e30, 2.0]})
    assert np.isfinite(served["x"]).all()
    assert served["x"][0] == pytest.approx(served["x"][1], abs=1e-6)  # the median is that of the second row


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"ratio": ["a", "b"]}, "a_per_b"),
        ({"difference": ["b", "a"]}, "b_minus_a"),
        ({"product": ["a", "b", "c"]}, "a_times_b_times_c"),
        ({"sum": "?"}, "a_plus_b_plus_c"),
        ({"sum": "@numeric", "as": "total"}, "total"),
    ],
)
@pytest.mark.parametrize("view", ["codes", "dense"])
def test_names_and_selections_and_the_columns_stay_features(fit, settings: dict, name: str, view: str) -> None:
    frame = {"a": [1.0, 2.0, 4.0], "b": [2.0, 3.0, 9.0], "c": [1.0, 5.0, 7.0]}
    made = fit(frame, [{"arithmetic": settings}], view=view)
    assert made.names == ["a", "b", "c", name]
    if view == "dense":
        assert made.training[name].mean() == pytest.approx(0, abs=1e-6)


def test_a_sum_of_a_glob(fit) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(50, 12)), columns=[f"usage_{i}" for i in range(12)])
    got = fit(frame, [{"arithmetic": {"sum": "usage_*", "as": "usage"}}], view="codes").training["usage"]
    np.testing.assert_allclose(got, frame.sum(axis=1), rtol=1e-4, atol=1e-5)
    with pytest.raises(ConfigError, match=r"(?s)the sum of 12 columns needs a name.*as:"):
        fit(frame, [{"arithmetic": {"sum": "usage_*"}}])


def test_it_reads_results_of_earlier_ops_and_later_ops_read_it(fit) -> None:
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "b": [2.0, 4.0, 8.0]})
    ops = [
        {"impute": {"columns": "a", "strategy": "constant", "value": 5}},
        {"arithmetic": {"sum": ["a", "b"], "as": "s"}},
        {"arithmetic": {"ratio": ["s", "b"], "as": "r"}},
        {"clip": {"columns": "r", "upper": 2}},
    ]
    made = fit(frame, ops, view="codes")
    assert made.training["r"].tolist() == [1.5, 2.0, 1.375]
    assert made.training["s"].tolist() == [3.0, 9.0, 11.0]
    assert made.names == ["a", "r", "b", "s"]
    assert made.features.lineage["r"] == ["a", "b"]


def test_booleans_are_numbers(fit) -> None:
    frame = pd.DataFrame({"a": pd.array([True, False, None], "boolean"), "x": [2.0, 3.0, 4.0]})
    got = fit(frame, [{"arithmetic": {"product": ["a", "x"], "as": "p"}}], view="codes").training["p"]
    np.testing.assert_array_equal(got, [2.0, 0.0, NULL])


UNITS: dict[str, Any] = {"days": "D", "hours": "h", "minutes": "min", "seconds": "s"}
TIMES = st.lists(
    st.tuples(*[st.datetimes(pd.Timestamp("1900-01-01"), pd.Timestamp("2100-01-01")) | st.none()] * 2), min_size=1
)


@examples(40)
@given(times=TIMES, unit=st.sampled_from([*UNITS, None]))
def test_the_difference_of_times_matches_pandas(fit, times: list, unit: str | None) -> None:
    frame = pd.DataFrame(times, columns=["end", "start"]).astype("datetime64[us]")
    given_unit = {} if unit is None else {"unit": unit}
    made = fit(frame, [{"arithmetic": {"difference": ["end", "start"], **given_unit}}], view="codes")
    span: Any = frame["end"] - frame["start"]
    expected = span / pd.Timedelta(1, UNITS[unit or "days"])
    np.testing.assert_allclose(made.training["end_minus_start"], expected, rtol=1e-6)


def test_times_that_nothing_else_reads_are_both_read(fit) -> None:
    days = pd.to_datetime(["2024-01-01", "2024-01-03", "2024-01-07"])
    frame = pd.DataFrame({"a": days, "b": days[::-1], "x": [1.0, 2.0, 3.0]})
    made = fit(frame, [{"arithmetic": {"difference": ["b", "a"], "as": "d"}}, {"drop": ["a", "b"]}], view="codes")
    assert made.training["d"].tolist() == [6.0, 0.0, -6.0]


def test_a_second_is_kept_between_times_of_today(fit) -> None:
    start = pd.Timestamp("2024-05-06 07:08:09.5")
    frame = {"a": [start, start], "b": [start + pd.Timedelta("1s"), start - pd.Timedelta("250us")]}
    ops = [{"arithmetic": {"difference": ["b", "a"], "unit": "seconds", "as": "s"}}]
    np.testing.assert_allclose(fit(frame, ops, view="codes").training["s"], [1.0, -0.00025], rtol=1e-6)


def test_imputed_times_have_an_indicator(fit) -> None:
    frame = pd.DataFrame({"a": pd.to_datetime(["2024-01-05", "NaT", "2024-01-02"])})
    frame["b"] = pd.to_datetime(["2024-01-01", "2024-01-01", "NaT"])
    ops = [
        {"arithmetic": {"difference": ["a", "b"], "as": "days"}},
        {"impute": {"columns": "days", "indicator": True}},
    ]
    got = fit(frame, ops, view="codes").training
    assert got["days"].tolist() == [4.0, 4.0, 4.0]
    assert got["days_missing"].tolist() == [0.0, 1.0, 1.0]


def test_close_large_numbers_keep_their_difference(fit) -> None:
    """Seconds since 1970 as floats: float32 alone knows the minute. A few are 0, as sloppy tables have them."""
    rng = np.random.default_rng(0)
    start = 1.4e9 + rng.integers(0, 10**7, 1000).astype(float)
    start[:20] = 0.0
    frame = pd.DataFrame({"start": start, "end": start + rng.integers(0, 100, 1000)})
    got = fit(frame, [{"arithmetic": {"difference": ["end", "start"], "as": "s"}}], view="codes").training["s"]
    np.testing.assert_allclose(got[20:], (frame["end"] - frame["start"])[20:], atol=0.5)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_small_numbers_minus_large_ones_keep_their_digits(fit, scale: float) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.lognormal(0, 3, 500) * scale, "b": rng.lognormal(0, 3, 500) * scale})
    got = fit(frame, [{"arithmetic": {"difference": ["a", "b"], "as": "d"}}], view="codes").training["d"]
    expected = frame["a"] - frame["b"]
    assert (np.abs(got - expected) <= 1.2e-7 * frame.max(axis=1)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ratio": ["a", "b", "c"]}, "ratio takes two columns; got 3: a, b, c"),
        ({"sum": ["a"]}, "sum takes two or more columns; got 1: a"),
        ({"product": ["a", "a"]}, r"(?s)product takes two or more columns; got 1: a.*polynomial"),
        ({"sum": ["a", "k"]}, r"(?s)arithmetic: sum takes numeric columns; 'k' is categorical"),
        ({"ratio": ["a", "t"]}, r"(?s) takes numeric columns; 't' is datetime"),
        (
            {"difference": ["t", "a"]},
            r"(?s)got 't' .datetime. and 'a' .numeric..*schema: \{a: datetime",
        ),
        ({"difference": ["a", "b"], "unit": "days"}, r"(?s)unit: days applies to times; 'a' is numeric.*remove unit"),
        ({"sum": ["a", "z"]}, r"(?s)no column 'z'.*where: features\[0\]\.arithmetic"),
        ({"sum": ["a", "b"], "as": "c"}, "column 'c' already exists"),
    ],
)
def test_operations_that_cannot_be_computed_are_explained(fit, settings: dict, message: str) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [1.0, 1.0], "k": ["x", "y"]})
    frame["t"] = pd.to_datetime(["2024-01-01", "2024-02-01"])
    with pytest.raises(ConfigError, match=message):
        fit(frame, [{"arithmetic": settings}])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "expected exactly one of ratio, difference, product, sum$"),
        ({"ratio": ["a", "b"], "sum": ["a", "b"]}, "got ratio and sum"),
        ({"ratio": ["a", "b"], "unit": "days"}, "unit applies to the difference of two times, not to a ratio"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(fit, settings: dict, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        fit({"a": [1.0], "b": [2.0]}, [{"arithmetic": settings}])
    (error,) = caught.value.errors()
    assert re.search(message, error["msg"])


def test_columns_nested_too_deeply_are_rejected(fit) -> None:
    frame = {"a": [1.0, 2.0], "b": [3.0, 5.0]}
    chain = [{"arithmetic": {"ratio": ["a", "b"], "as": "x0"}}]
    chain += [{"arithmetic": {"ratio": ["a", f"x{i}"], "as": f"x{i + 1}"}} for i in range(6)]
    assert fit(frame, chain, view="codes").training["x6"].notna().all()
    with pytest.raises(ConfigError, match=r"(?s)'x7' needs 8 registers.*has 7.*first"):
        fit(frame, [*chain, {"arithmetic": {"ratio": ["a", "x6"], "as": "x7"}}])
    other_way = [{"arithmetic": {"ratio": ["a", "b"], "as": "y0"}}]
    other_way += [{"arithmetic": {"ratio": [f"y{i}", "a"], "as": f"y{i + 1}"}} for i in range(12)]
    assert fit(frame, other_way, view="codes").training["y12"].notna().all()
