"""standardize, min_max and robust_scale against scikit-learn in float64."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from gpupipe.errors import ConfigError
from tests.examples import examples

NULL = float("nan")
NUMBERS = st.lists(st.integers(-(10**7), 10**7).map(lambda i: i / 128) | st.just(NULL), min_size=1, max_size=60).filter(
    lambda x: not np.isnan(x).all()
)
SCALERS = {"standardize": StandardScaler, "min_max": MinMaxScaler, "robust_scale": RobustScaler}


@pytest.mark.parametrize("op", SCALERS)
@examples(50)
@given(x=NUMBERS)
@example(x=[78125.0, 78125.0, 78125.0078125])
@example(x=[3.25])
def test_it_matches_scikit_learn(fit, op: str, x: list[float]) -> None:
    got = fit({"x": x}, [{op: "x"}], view="codes").training["x"]
    expected = SCALERS[op]().fit_transform(np.array(x)[:, None])[:, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_mean_and_deviation_can_be_left_alone(fit) -> None:
    x = np.array([3.0, 5.0, 10.0])
    kept = fit({"x": x}, [{"standardize": {"columns": "x", "with_mean": False}}]).training["x"]
    np.testing.assert_allclose(kept, x / x.std(), rtol=1e-6)
    centred = fit({"x": x}, [{"standardize": {"columns": "x", "with_std": False}}]).training["x"]
    np.testing.assert_allclose(centred, x - x.mean(), rtol=1e-6)


@pytest.mark.parametrize("low_high", [(-1.0, 1.0), (2.5, 40.0)])
def test_min_max_takes_another_range(fit, low_high: tuple[float, float]) -> None:
    x = 1e9 + np.random.default_rng(0).normal(0, 3, 500)
    op = {"min_max": {"columns": "x", "feature_range": list(low_high)}}
    expected = MinMaxScaler(feature_range=low_high).fit_transform(x[:, None])[:, 0]
    np.testing.assert_allclose(fit({"x": x}, [op]).training["x"], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fit({"x": np.full(4, 7.0)}, [op]).training["x"], low_high[0], rtol=1e-6)
    with pytest.raises(ValidationError, match="expected minimum < maximum"):
        fit({"x": [1.0]}, [{"min_max": {"columns": "x", "feature_range": [1.0, 1.0]}}])


def test_robust_scale_takes_other_quantiles(fit) -> None:
    x = np.random.default_rng(0).lognormal(3, 2, 500)
    got = fit({"x": x}, [{"robust_scale": {"columns": "x", "quantiles": [0.1, 0.9]}}]).training["x"]
    np.testing.assert_allclose(got, RobustScaler(quantile_range=(10, 90)).fit_transform(x[:, None])[:, 0], rtol=1e-5)


@pytest.mark.parametrize("quantiles", [[0.9, 0.1], [-0.1, 0.5], [0.5, 0.5]])
def test_quantiles_out_of_order_are_refused(fit, quantiles: list[float]) -> None:
    with pytest.raises(ValidationError, match="quantiles"):
        fit({"x": [1.0]}, [{"robust_scale": {"columns": "x", "quantiles": quantiles}}])


@pytest.mark.parametrize("op", SCALERS)
@pytest.mark.parametrize(
    "x",
    [
        1e9 + np.random.default_rng(0).normal(0, 0.1, 1000),
        np.append(np.full(3000, NULL), 1e9 + np.random.default_rng(0).normal(0, 0.1, 1000)),
        16_000_000 + np.arange(11),
        pa.array(2015 + np.random.default_rng(1).integers(0, 40, 1000) / 8192, pa.float32()),
        pd.date_range("2024-01-01", periods=100, freq="min").astype("int64").to_numpy() // 1000,
    ],
    ids=["float64", "nulls first", "whole numbers in float32", "float32", "microseconds"],
)
def test_a_large_mean_with_a_small_spread_keeps_its_digits(fit, op: str, x) -> None:
    got = fit(pa.table({"x": x}), [{op: "x"}], view="codes").training["x"]
    wide = np.asarray(x).astype(np.float64)
    expected = SCALERS[op]().fit_transform(wide[:, None])[:, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", SCALERS)
@pytest.mark.parametrize("before", [[], [{"log1p": "x"}], [{"min_max": "x"}]], ids=["", "log1p", "min_max"])
@pytest.mark.parametrize("value", [0.0, 0.1, 12_345.678, 1e30])
def test_a_constant_becomes_zero(fit, op: str, before: list[dict], value: float) -> None:
    got = fit({"x": np.full(1001, value)}, [*before, {op: "x"}]).training["x"]
    assert (got == 0).all()


@examples(25)
@given(value=st.floats(1e-3, 1e9), n=st.integers(1, 3000))
def test_rounding_of_a_constant_mean_is_not_a_spread(fit, value: float, n: int) -> None:
    assert (fit({"x": np.full(n, value)}, [{"log1p": "x"}, {"standardize": "x"}]).training["x"] == 0).all()


@pytest.mark.parametrize("op", SCALERS)
@pytest.mark.parametrize("outlier", [np.inf, -np.inf, 1e300, -1e300, np.finfo(np.float32).max])
def test_numbers_that_overflow_count_as_null(fit, op: str, outlier: float) -> None:
    x = np.array([1.0, 2.0, outlier, 4.0])
    made = fit({"x": x, "y": [1.0, 2.0, 3.0, 5.0]}, [{op: ["x", "y"]}])
    expected = SCALERS[op]().fit_transform(np.array([[1.0, 2.0, 4.0]]).T)[:, 0]
    np.testing.assert_allclose(made.training["x"][[0, 1, 3]], expected, rtol=1e-5, atol=1e-6)
    assert made.training["x"][2] == pytest.approx(expected[1], abs=1e-6)  # the median
    np.testing.assert_allclose(
        made.training["y"], SCALERS[op]().fit_transform(np.array([[1.0, 2.0, 3.0, 5.0]]).T)[:, 0], rtol=1e-5
    )
    assert "x: 1 null imputed by the median" in made.notes


@pytest.mark.parametrize("op", ["standardize", "min_max"])
@examples(60)
@given(x=st.lists(st.floats(), min_size=1, max_size=20))
@example(x=[0.0, 1e-40])
@example(x=[3.4e38, -3.4e38, 0.0])
def test_no_number_makes_the_matrix_infinite(fit, op: str, x: list[float]) -> None:
    made = fit({"x": x, "y": np.arange(len(x)) * 1.0}, [{op: "@numeric"}])
    assert np.isfinite(made.training.to_numpy()).all()
    alone = fit({"y": np.arange(len(x)) * 1.0}, [{op: "@numeric"}])
    np.testing.assert_array_equal(made.training["y"], alone.training["y"])


def test_booleans_are_numbers_too(fit) -> None:
    got = fit({"b": [True, False, True, True]}, [{"standardize": "b"}]).training["b"]
    np.testing.assert_allclose(got, StandardScaler().fit_transform([[1], [0], [1], [1]])[:, 0], rtol=1e-6)


@pytest.mark.parametrize("op", SCALERS)
def test_a_category_cannot_be_scaled(fit, op: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)" + op + r" takes numeric columns; 'c' is categorical.*- encode: c"):
        fit({"c": ["a", "b"]}, [{op: "c"}])
