"""clip against NumPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.examples import examples

NULL = float("nan")
NUMBERS = st.lists(st.integers(-400, 400).map(lambda i: i / 4) | st.just(NULL), min_size=1, max_size=40)
BOUND = st.integers(-300, 300).map(lambda i: i / 4)


@examples(40)
@given(x=NUMBERS, a=BOUND, b=BOUND, which=st.sampled_from(["lower", "upper", "both"]))
def test_values_outside_the_bounds_are_clipped_and_null_stays_null(fit, x, a: float, b: float, which: str) -> None:
    low, high = min(a, b), max(a, b)
    bounds = (
        {"lower": low} if which == "lower" else {"upper": high} if which == "upper" else {"lower": low, "upper": high}
    )
    got = fit({"x": x}, [{"clip": {"columns": "x", **bounds}}], view="codes", schema={"x": "float"}).training["x"]
    np.testing.assert_array_equal(got, np.clip(x, bounds.get("lower", -np.inf), bounds.get("upper", np.inf)))


@examples(40)
@given(x=NUMBERS.filter(lambda x: not np.isnan(x).all()))
def test_quantiles_are_computed_from_the_training_rows(fit, x) -> None:
    made = fit({"x": x}, [{"clip": {"columns": "x", "quantiles": [0.1, 0.85]}}], view="codes")
    low, high = np.nanquantile(x, [0.1, 0.85])
    np.testing.assert_allclose(made.training["x"], np.clip(x, low, high), rtol=1e-6)
    np.testing.assert_allclose(made.serve({"x": [-1e6, 1e6]})["x"], [low, high], rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 999, 70_001])
def test_each_column_has_its_own_quantiles(fit, n: int) -> None:
    rng = np.random.default_rng(n)
    frame = {"a": rng.lognormal(3, 2, n), "b": -rng.exponential(1e6, n), "c": rng.integers(0, 9, n)}
    made = fit(frame, [{"clip": {"columns": "@numeric", "quantiles": [0.01, 0.99]}}], view="codes")
    for name, values in frame.items():
        low, high = np.quantile(values, [0.01, 0.99])
        np.testing.assert_allclose(made.training[name], np.clip(values, low, high), rtol=1e-6)
    (state, *_) = made.features.states
    np.testing.assert_allclose([state["lower"], state["upper"]], np.quantile(frame["a"], [0.01, 0.99]), rtol=1e-6)


def test_quantiles_are_computed_after_earlier_ops(fit) -> None:
    x = np.random.default_rng(0).lognormal(3, 2, 500)
    ops = [{"log1p": "x"}, {"clip": {"columns": "x", "quantiles": [0.05, 0.95]}}]
    logs = np.log1p(x)
    got = fit({"x": x}, ops, view="codes").training["x"]
    np.testing.assert_allclose(got, np.clip(logs, *np.quantile(logs, [0.05, 0.95])), rtol=1e-5)


def test_a_large_mean_with_a_small_spread_keeps_its_digits(fit) -> None:
    x = 1e9 + np.random.default_rng(0).normal(0, 0.1, 1000)
    ops = [{"clip": {"columns": "x", "quantiles": [0.1, 0.9]}}, {"standardize": "x"}]
    clipped = np.clip(x, *np.quantile(x, [0.1, 0.9]))
    expected = (clipped - clipped.mean()) / clipped.std()
    np.testing.assert_allclose(fit({"x": x}, ops).training["x"], expected, rtol=1e-4, atol=1e-5)


def test_the_outermost_quantiles_change_nothing_in_the_training_rows(fit) -> None:
    x = np.random.default_rng(0).normal(size=100)
    made = fit({"x": x}, [{"clip": {"columns": "x", "quantiles": [0, 1]}}], view="codes")
    np.testing.assert_array_equal(made.training["x"], x.astype(np.float32))
    assert made.serve({"x": [99.0, None]})["x"].tolist() == pytest.approx([x.max(), NULL], nan_ok=True)


def test_a_column_without_any_value_does_no_harm(fit) -> None:
    frame = {"x": pd.array([None] * 3, "Float64"), "y": [1.0, 2.0, 3.0]}
    made = fit(frame, [{"clip": {"columns": "x", "quantiles": [0.1, 0.9]}}], view="codes")
    assert made.training["x"].isna().all()


@pytest.mark.parametrize(
    "bounds",
    [
        {},
        {"lower": 2, "upper": 1},
        {"lower": 0, "quantiles": [0.1, 0.9]},
        {"quantiles": [0.9, 0.1]},
        {"quantiles": [0, 1.1]},
    ],
)
def test_invalid_bounds_are_rejected(fit, bounds: dict) -> None:
    with pytest.raises(ValidationError):
        fit({"x": [1.0]}, [{"clip": {"columns": "x", **bounds}}])
