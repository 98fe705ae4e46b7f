"""polynomial against scikit-learn's PolynomialFeatures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from gpupipe.errors import ConfigError, LimitError
from tests.examples import examples

NULL = float("nan")
VALUE = st.integers(-40, 40).map(lambda i: i / 8) | st.just(NULL)
ROWS = st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[VALUE] * width), min_size=1, max_size=20))


def reference(frame: pd.DataFrame, degree: int, interaction_only: bool) -> pd.DataFrame:
    """Return the terms of degree 2 and higher; nulls, which scikit-learn rejects, are computed as in NumPy."""
    made = PolynomialFeatures(degree, interaction_only=interaction_only, include_bias=False).fit(frame.fillna(0))
    powers, names = made.powers_, made.get_feature_names_out()
    values = {
        name: np.prod([frame[c] ** p for c, p in zip(frame, power, strict=True) if p], axis=0)
        for name, power in zip(names, powers, strict=True)
        if power.sum() > 1
    }
    return pd.DataFrame(values)


@examples(60)
@given(rows=ROWS, degree=st.integers(2, 5), interaction_only=st.booleans())
def test_names_order_and_values_match_scikit_learn(fit, rows: list, degree: int, interaction_only: bool) -> None:
    frame = pd.DataFrame(rows, columns=[f"x{i}" for i in range(len(rows[0]))])
    expected = reference(frame, degree, interaction_only)
    if expected.empty:
        return
    settings = {"columns": "@numeric", "degree": degree, "interaction_only": interaction_only}
    made = fit(frame, [{"polynomial": settings}], view="codes", schema=dict.fromkeys(frame, "float"))
    assert made.names == [*frame, *expected]
    np.testing.assert_allclose(made.training[list(expected)], expected, rtol=1e-5)


def test_complete_rows_are_those_of_fit_transform(fit) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 3)), columns=list("abc"))
    got = fit(frame, [{"polynomial": list("abc")}], view="codes").training
    np.testing.assert_allclose(got, PolynomialFeatures(include_bias=False).fit_transform(frame), rtol=1e-5, atol=1e-6)


def test_of_standardized_columns_and_scaled_for_models_that_want_it(fit) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(1e6, 10, 300), "b": rng.normal(5, 2, 300)})
    made = fit(frame, [{"standardize": ["a", "b"]}, {"polynomial": ["a", "b"]}])
    expected = PolynomialFeatures(include_bias=False).fit_transform(StandardScaler().fit_transform(frame))
    expected[:, 2:] = StandardScaler().fit_transform(expected[:, 2:])
    assert made.names == ["a", "b", "a^2", "a b", "b^2"]
    np.testing.assert_allclose(made.training, expected, rtol=1e-4, atol=1e-4)


def test_products_have_no_null_indicators(fit) -> None:
    frame = pd.DataFrame({"a": [1.0, None, 3.0, 5.0], "b": [1.0, 2.0, 1.0, 0.0]})
    assert fit(frame, [{"polynomial": ["a", "b"]}]).names == ["a", "a_missing", "b", "a^2", "a b", "b^2"]


@pytest.mark.parametrize("view", ["codes", "dense"])
def test_a_product_that_exceeds_float32_is_null_and_can_be_imputed(fit, view: str) -> None:
    frame = {"a": [1.0, 1e20, 3.0], "b": [2.0, -1e19, 2.0]}
    ops = [{"polynomial": ["a", "b"]}, {"impute": {"columns": ["a^2", "a b"], "strategy": "constant", "value": 0.5}}]
    got = fit(frame, ops, view=view).training
    assert got[["a^2", "a b"]].to_numpy().tolist() == [[1, 2], [0.5, 0.5], [9, 6]]
    if view == "codes":
        assert fit(frame, ops[:1], view=view).training["b^2"].tolist() == [4, pytest.approx(1e38), 4]
        assert fit(frame, ops[:1], view=view).training["a^2"].isna().tolist() == [False, True, False]
    assert np.isfinite(got.to_numpy()).all()


def test_later_ops_find_a_product_by_its_name(fit) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 1.0]})
    ops = [{"polynomial": {"columns": ["a", "b"], "interaction_only": True}}, {"log1p": "a b"}]
    np.testing.assert_allclose(fit(frame, ops).training["a b"], np.log1p(frame["a"] * frame["b"]), rtol=1e-6)


def test_too_many_products_are_rejected(fit) -> None:
    frame = pd.DataFrame(np.zeros((2, 60)), columns=[f"x{i}" for i in range(60)])
    with pytest.raises(LimitError, match=r"(?s)60 columns have 1,830 products; maximum 1,024.*fewer columns"):
        fit(frame, [{"polynomial": "x*"}])
    with pytest.raises(LimitError, match="lower degree"):
        fit(frame, [{"polynomial": {"columns": "x1*", "degree": 4}}])


def test_one_column_alone_has_no_interaction(fit) -> None:
    with pytest.raises(ConfigError, match="polynomial of 1 column with interaction_only has no products"):
        fit({"a": [1.0]}, [{"polynomial": {"columns": "a", "interaction_only": True}}])


def test_a_category_has_no_powers(fit) -> None:
    with pytest.raises(ConfigError, match="polynomial takes numeric columns; 'k' is categorical"):
        fit({"a": [1.0, 2.0], "k": ["x", "y"]}, [{"polynomial": ["a", "k"]}])
