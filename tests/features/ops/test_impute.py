"""Imputation against scikit-learn's SimpleImputer and MissingIndicator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.impute import MissingIndicator, SimpleImputer

from gpupipe.errors import ConfigError
from tests.examples import examples

NULL = float("nan")
# Fixed-point numbers repeat, so that the most frequent one is meaningful.
NUMBERS = st.lists(st.integers(-500, 500).map(lambda i: i / 4) | st.just(NULL), min_size=1, max_size=60)
SOME_NUMBERS = NUMBERS.filter(lambda x: not np.isnan(x).all())
LEVELS = st.lists(st.sampled_from(["a", "b", "10", "9", None]), min_size=1, max_size=40)


@pytest.mark.parametrize("strategy", ["median", "mean", "most_frequent"])
@examples(40)
@given(x=SOME_NUMBERS)
def test_numbers_are_filled_as_by_scikit_learn(fit, strategy: str, x: list[float]) -> None:
    got = fit({"x": x}, [{"impute": {"columns": "x", "strategy": strategy}}]).training["x"]
    expected = SimpleImputer(strategy=strategy).fit_transform(np.array(x)[:, None])[:, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-5)


@examples(25)
@given(x=NUMBERS)
def test_a_constant_and_an_indicator_mark_nulls(fit, x: list[float]) -> None:
    op = {"impute": {"columns": "x", "strategy": "constant", "value": -7, "indicator": True}}
    made = fit({"x": x}, [op])
    column = np.array(x)[:, None]
    np.testing.assert_array_equal(made.training["x"], np.where(np.isnan(x), -7, x))
    np.testing.assert_array_equal(
        made.training["x_missing"], MissingIndicator(features="all").fit_transform(column)[:, 0]
    )
    assert made.names == ["x", "x_missing"]


def test_nulls_in_new_rows_get_the_value_learned_by_fit(fit) -> None:
    made = fit({"x": [1.0, 2.0, 9.0]}, [{"impute": {"columns": "x", "indicator": True}}])
    assert made.serve({"x": [None, 5.0]}).to_numpy().tolist() == [[2, 1], [5, 0]]


@examples(40)
@given(levels=LEVELS.filter(lambda x: any(x)))
def test_categories_get_the_most_frequent_level(fit, levels: list[str | None]) -> None:
    got = fit({"c": levels}, [{"impute": {"columns": "c", "strategy": "most_frequent"}}, {"one_hot": "c"}]).training
    filled = SimpleImputer(strategy="most_frequent", missing_values=None).fit_transform(
        np.array(levels, object)[:, None]
    )[:, 0]
    # Of equally frequent levels, scikit-learn takes the first in text order and gpupipe the first in level order.
    counts = pd.Series(levels).value_counts()
    if (counts == counts.max()).sum() == 1:
        got.columns = [name.removeprefix("c=") for name in got.columns]
        assert got.idxmax(axis=1).tolist() == filled.tolist()
    assert (got.sum(axis=1) == 1).all()


def test_a_constant_level_is_found_in_any_spelling(fit) -> None:
    frame = {"c": pd.array([1, 2, None], "Int64"), "b": pd.array([True, False, None], "boolean")}
    ops = [
        {"impute": {"columns": "c", "strategy": "constant", "value": 2}},
        {"impute": {"columns": "b", "strategy": "constant", "value": True}},
        {"categorify": ["c", "b"]},
    ]
    got = fit(frame, ops, schema={"c": "categorical"}).training
    assert got["c"].tolist() == [3, 4, 4]
    assert got["b"].tolist() == [4, 3, 4]


def test_a_constant_that_is_not_a_level_is_an_error(fit) -> None:
    with pytest.raises(ConfigError, match=r"'x' is not a level of 'c'[^$]*one of a, b"):
        fit({"c": ["a", "b"]}, [{"impute": {"columns": "c", "strategy": "constant", "value": "x"}}])


def test_a_constant_text_for_a_number_is_an_error(fit) -> None:
    with pytest.raises(ConfigError, match="expected a number for the numeric column 'x'; got 'none'"):
        fit({"x": [1.0, None]}, [{"impute": {"columns": "x", "strategy": "constant", "value": "none"}}])


def test_an_indicator_of_a_category_is_a_separate_column(fit) -> None:
    op = {"impute": {"columns": "c", "strategy": "most_frequent", "indicator": True}}
    got = fit({"c": ["a", None, "a"]}, [op, {"one_hot": "c"}]).training
    assert got.to_dict("list") == {"c_missing": [0, 1, 0], "c=a": [1, 1, 1]}


def test_an_indicator_is_made_of_whatever_column_has_nulls(fit) -> None:
    frame = {"b": pd.array([True, None, False], "boolean"), "t": pd.to_datetime(["2020-01-05", "NaT", "2021-01-07"])}
    ops = [
        {"datetime_parts": {"columns": "t", "parts": ["day"]}},
        {"standardize": "b"},
        {"impute": {"columns": ["b", "t_day"], "indicator": True}},
    ]
    got = fit(frame, ops).training
    assert got["b_missing"].tolist() == [0, 1, 0]
    assert got["t_day_missing"].tolist() == [0, 1, 0]
    assert got["t_day"].tolist() == [5, 6, 7]


def test_a_category_that_was_only_imputed_is_encoded_all_the_same(fit) -> None:
    got = fit({"c": ["a", None, "b", "a"]}, [{"impute": {"columns": "c", "strategy": "most_frequent"}}])
    assert got.training.to_dict("list") == {"c=a": [1, 1, 0, 1], "c=b": [0, 0, 1, 0]}


def test_a_category_with_only_nulls_is_not_imputed(fit) -> None:
    frame = {"c": pd.array([None, None], "string"), "x": [1.0, 2.0]}
    made = fit(frame, [{"impute": {"columns": "c", "strategy": "most_frequent"}}, {"one_hot": "c"}])
    assert made.training["c=(null)"].tolist() == [1, 1]
    assert "c: all values are null" in made.notes


def test_numbers_with_only_nulls_become_zero(fit) -> None:
    got = fit({"x": [None, None], "y": [1.0, 2.0]}, [{"impute": "x"}], schema={"x": "float"}).training
    assert got["x"].tolist() == [0, 0]


@pytest.mark.parametrize("strategy", ["median", "mean"])
def test_categories_have_no_median(fit, strategy: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)does not apply to 'c', which is categorical.*most_frequent"):
        fit({"c": ["a", "b"]}, [{"impute": {"columns": "@all", "strategy": strategy}}])


@pytest.mark.parametrize(
    "op",
    [
        {"columns": "x", "strategy": "constant"},
        {"columns": "x", "value": 3},
        {"columns": "x", "strategy": "constant", "value": float("inf")},
    ],
)
def test_a_constant_and_its_value_go_together(fit, op: dict) -> None:
    with pytest.raises(ValidationError):
        fit({"x": [1.0]}, [{"impute": op}])


@pytest.mark.parametrize("view", ["codes", "dense"])
def test_a_category_with_an_indicator_is_still_to_be_encoded(fit, view: str) -> None:
    op = {"impute": {"columns": "c", "strategy": "most_frequent", "indicator": True}}
    names = fit({"c": ["a", None, "b", "b"]}, [op], view=view).names
    assert names == (["c_missing", "c"] if view == "codes" else ["c_missing", "c=a", "c=b"])
