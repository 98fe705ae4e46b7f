"""yeo_johnson against scikit-learn's PowerTransformer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.preprocessing import PowerTransformer

from gpupipe.errors import ConfigError
from gpupipe.features.statistics import numbers as number_statistics
from gpupipe.features.statistics.power_exponent import find_exponent
from tests.examples import examples

RNG = np.random.default_rng(0)
SKEWED = {
    "lognormal": RNG.lognormal(10, 1, 2000),
    "exponential": RNG.exponential(size=2000),
    "negative": -RNG.exponential(size=2000),
    "of both signs": RNG.normal(size=2000) ** 3,
    "normal": RNG.normal(size=2000),
    "heavy tail": RNG.pareto(1, 2000),
    "left tail": RNG.beta(8, 2, 2000) * 100,
    "tiny": RNG.normal(size=2000) * 1e-3,
    "huge": RNG.lognormal(60, 3, 1000),
    "both tails": RNG.standard_t(1, 1000) * 1e6,
    "counts": RNG.poisson(2, 2000).astype(float),
    "two values": np.array([0.0, 1.0, 1.0]),
}


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("name", SKEWED)
def test_exponent_and_result_match_scikit_learn(fit, name: str, standardize: bool) -> None:
    x = SKEWED[name]
    made = fit({"x": x}, [{"yeo_johnson": {"columns": "x", "standardize": standardize}}], view="codes")
    reference = PowerTransformer(standardize=standardize).fit(x[:, None])
    (state,) = made.features.states
    assert state["exponent"] == pytest.approx(reference.lambdas_[0], rel=1e-3, abs=1e-4)
    expected = reference.transform(x[:, None])[:, 0]
    np.testing.assert_allclose(made.training["x"], expected, rtol=2e-3, atol=1e-3 * expected.std())
    assert "yeo_johnson" not in made.notes


@examples(40)
@given(x=st.lists(st.integers(-2000, 2000).map(lambda i: i / 64), min_size=5, max_size=60, unique=True))
def test_no_exponent_is_more_likely(x: list[float]) -> None:
    """The likelihood of scipy.stats, at the exponent found and around it."""
    from scipy.stats import yeojohnson_llf

    values = np.array(x)
    found, is_limited, _ = find_exponent(values)
    assume(not is_limited)
    best = yeojohnson_llf(found, values)
    assert all(best >= yeojohnson_llf(found + step, values) - 1e-6 for step in (-1.0, -0.01, 0.01, 1.0))


def test_null_stays_null_and_is_ignored_in_the_fit(fit) -> None:
    x = np.where(np.arange(2000) % 7 == 0, np.nan, SKEWED["exponential"])
    made = fit({"x": x}, [{"yeo_johnson": "x"}], view="codes")
    expected = PowerTransformer().fit_transform(x[:, None])[:, 0]
    np.testing.assert_allclose(made.training["x"], expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(np.isnan(made.serve({"x": [1.0, None]})["x"]), [False, True])


def test_results_outside_float32_are_null_and_imputed_for_models_without_nulls(fit) -> None:
    x, later = SKEWED["left tail"], {"x": [1e35, 90.0]}
    ops = [{"impute": "x"}, {"yeo_johnson": {"columns": "x", "standardize": False}}]
    codes, dense = (fit({"x": x}, ops, view=view).serve(later)["x"] for view in ("codes", "dense"))
    assert np.isnan(codes).tolist() == [True, False]
    assert np.isfinite(dense).all()
    assert dense[1] == codes[1]


def test_served_rows_are_transformed_as_the_training_rows(fit) -> None:
    x, later = SKEWED["of both signs"], np.array([-100.0, -1.0, 0.0, 0.5, 1000.0])
    got = fit({"x": x}, [{"yeo_johnson": "x"}]).serve({"x": later})["x"]
    expected = PowerTransformer().fit(x[:, None]).transform(later[:, None])[:, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", [0.0, -3.5, 1e9])
def test_a_constant_becomes_zero(fit, value: float) -> None:
    assert (fit({"x": np.full(50, value)}, [{"yeo_johnson": "x"}]).training["x"] == 0).all()


def test_a_column_without_any_value_does_no_harm(fit) -> None:
    frame = {"x": pd.array([None] * 4, "Float64"), "y": [1.0, 2.0, 3.0, 9.0]}
    assert np.isfinite(fit(frame, [{"yeo_johnson": "x"}]).training.to_numpy()).all()


@pytest.mark.parametrize(
    "x",
    [
        1950 + RNG.exponential(10, 500),
        1e9 + RNG.normal(size=500) * 1e6,
        -1e9 + RNG.normal(size=500) * 1e6,
        1e9 + RNG.normal(size=500),
        10_000 + RNG.lognormal(8, 1, 500),
        RNG.normal(size=500) * 1e30,
    ],
    ids=["years", "far from 0", "far below 0", "farther than float32 reaches", "incomes with a floor", "of both sides"],
)
def test_an_exponent_limited_by_float32_is_noted_and_preserves_order(fit, x: np.ndarray) -> None:
    made = fit({"x": x}, [{"yeo_johnson": "x"}], view="codes")
    assert "x: yeo_johnson uses exponent" in made.notes and "standardize the column first" in made.notes
    got = made.training["x"].to_numpy()
    assert got.std() == pytest.approx(1, abs=0.01)
    assert np.diff(got[np.argsort(x)]).min() >= 0
    assert len(np.unique(got)) > 0.8 * len(np.unique(x))  # compiled formulas compute in float32


def test_values_with_nearly_equal_logarithms_keep_their_exponent() -> None:
    assert find_exponent(np.array([1.0, 1.0 - 2.0**-52])) == (1.0, True, None)


def test_standardizing_first_also_matches_scikit_learn(fit) -> None:
    x = 1e9 + RNG.lognormal(0, 1, 500)
    made = fit({"x": x}, [{"standardize": "x"}, {"yeo_johnson": "x"}], view="codes")
    z = ((x - x.mean()) / x.std())[:, None]
    np.testing.assert_allclose(made.training["x"], PowerTransformer().fit_transform(z)[:, 0], rtol=1e-2, atol=1e-2)


def test_many_rows_are_sampled_the_same_way_each_time(fit, monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.lognormal(1, 0.5, 20_000)
    everything = fit({"x": x}, [{"yeo_johnson": "x"}]).features.states[0]["exponent"]
    monkeypatch.setattr(number_statistics, "SAMPLE_ROWS", 4000)
    some, again = (fit({"x": x}, [{"yeo_johnson": "x"}]).features.states[0]["exponent"] for _ in range(2))
    assert some == again != everything
    assert some == pytest.approx(everything, abs=0.1)


def test_a_category_has_no_power(fit) -> None:
    with pytest.raises(ConfigError, match="yeo_johnson takes numeric columns; 'c' is categorical"):
        fit({"c": ["a", "b"]}, [{"yeo_johnson": "c"}])
