"""one_hot against scikit-learn's OneHotEncoder and pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder

from gpupipe.errors import ConfigError
from tests.examples import examples

LEVELS = st.lists(st.sampled_from(["a", "b", "ä", "(null)", "10", "9", "", None]), min_size=1, max_size=40)


def encoder(levels: list, **settings) -> OneHotEncoder:
    return OneHotEncoder(sparse_output=False, handle_unknown="ignore", **settings).fit(column(levels))


def column(levels: list) -> np.ndarray:
    return np.array([*levels, "end"], object)[:-1, None]


@examples(60)
@given(levels=LEVELS, served=LEVELS)
def test_it_matches_scikit_learn_for_rows_seen_and_unseen(fit, levels: list, served: list) -> None:
    made = fit(strings(levels), [{"one_hot": {"columns": "c", "max_categories": None}}])
    reference = encoder(levels)
    order = [("(null)" if c is None else "'(null)'" if c == "(null)" else c) for c in reference.categories_[0]]
    by_name = [f"c={label}" for label in order]
    assert sorted(made.names) == sorted(by_name)
    np.testing.assert_array_equal(made.training[by_name], reference.transform(column(levels)))
    np.testing.assert_array_equal(made.serve(strings(served))[by_name], reference.transform(column(served)))


def strings(levels: list) -> pd.DataFrame:
    return pd.DataFrame({"c": pd.array(levels, dtype="string")})


@examples(40)
@given(levels=LEVELS, k=st.integers(1, 5))
def test_levels_below_min_frequency_share_the_column_rare(fit, levels: list, k: int) -> None:
    made = fit(strings(levels), [{"one_hot": {"columns": "c", "min_frequency": k}}])
    counts = pd.Series(levels, dtype="string").value_counts()
    assert len(made.names) == (counts >= k).sum() + (counts < k).any() + (None in levels)
    rare = pd.Series(levels, dtype="string").map(counts).lt(k).fillna(False).astype(int)
    assert made.training.get("c=(rare)", pd.Series(0, rare.index)).tolist() == rare.tolist()
    assert (made.training.sum(axis=1) == 1).all()


@pytest.mark.parametrize(("share", "kept"), [(0.2, ["b", "c"]), (0.21, ["c"])])
def test_min_frequency_may_be_a_share_and_the_first_level_may_have_no_column(fit, share: float, kept: list) -> None:
    levels = ["a", "b", "b", "c", "c", "c", "c", "d", "c", "c"]
    made = fit(strings(levels), [{"one_hot": {"columns": "c", "min_frequency": share}}])
    theirs = OneHotEncoder(min_frequency=share, sparse_output=False).fit_transform(np.array(levels)[:, None])
    assert made.names == [*(f"c={level}" for level in kept), "c=(rare)"]
    np.testing.assert_array_equal(made.training.to_numpy(), theirs)
    first = fit(strings(levels), [{"one_hot": {"columns": "c", "drop": "first"}}])
    theirs = OneHotEncoder(drop="first", sparse_output=False).fit_transform(np.array(levels)[:, None])
    np.testing.assert_array_equal(first.training.to_numpy(), theirs)
    ids = fit(strings(levels), [{"categorify": {"columns": "c", "min_frequency": share}}]).training["c"]
    assert [ids[0] == 2, ids[1] == 3, ids[3] > 2] == [True, "b" in kept, True]


def test_max_categories_keeps_the_most_frequent_and_of_equals_the_first(fit) -> None:
    levels = ["d"] * 3 + ["b"] * 2 + ["c"] * 2 + ["a"] + [None] * 5
    made = fit(strings(levels), [{"one_hot": {"columns": "c", "max_categories": 2}}])
    assert made.names == ["c=b", "c=d", "c=(rare)", "c=(null)"]
    assert made.serve(strings(["a", "c", "new", None])).to_numpy().tolist() == [
        [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1],
    ]  # fmt: skip


def test_columns_come_in_the_order_of_the_levels_and_whole_numbers_count(fit) -> None:
    made = fit({"zip": ["10", "9", "100"], "c": ["10", "9", "x"]}, [{"one_hot": ["zip", "c"]}])
    assert made.names == ["zip=9", "zip=10", "zip=100", "c=10", "c=9", "c=x"]


def test_nulls_without_a_column_are_zero_everywhere(fit) -> None:
    made = fit({"c": ["a", "b"]}, [{"one_hot": "c"}])
    assert made.names == ["c=a", "c=b"]
    assert made.serve(strings([None, "a"])).to_numpy().tolist() == [[0, 0], [1, 0]]


def test_a_level_named_rare_differs_from_the_rare_levels(fit) -> None:
    levels = ["(rare)"] * 3 + ["x"]
    got = fit(strings(levels), [{"one_hot": {"columns": "c", "min_frequency": 2}}]).training
    assert got.to_dict("list") == {"c='(rare)'": [1, 1, 1, 0], "c=(rare)": [0, 0, 0, 1]}


def test_booleans_have_a_column_each(fit) -> None:
    got = fit({"b": [True, False, True]}, [{"one_hot": "b"}]).training
    assert got.to_dict("list") == {"b=false": [0, 1, 0], "b=true": [1, 0, 1]}


def test_two_features_of_one_name_are_an_error_and_not_one_feature(fit) -> None:
    with pytest.raises(ConfigError, match=r"(?s)two features are named 'a=b=c'.*rename or drop"):
        fit({"a": ["b=c", "x"], "a=b": ["c", "y"]}, [{"one_hot": ["a", "a=b"]}])


def test_a_number_has_no_levels(fit) -> None:
    with pytest.raises(ConfigError, match=r"(?s)one_hot takes categorical columns; 'x' is numeric.*schema: \{x: cat"):
        fit({"x": [1.0, 2.0]}, [{"one_hot": "x"}])
