"""multi_hot against pandas: explode and get_dummies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpupipe as gp
from gpupipe.errors import ConfigError
from gpupipe.features.ops.multi_hot import MultiHot
from tests.examples import examples

ITEMS = st.sampled_from(["b", "a", "ü", "", "c d"]) | st.none()
LISTS = st.lists(st.none() | st.lists(ITEMS, max_size=6), min_size=2, max_size=12)


def frame(lists: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(lists, dtype=object), "n": 1.0})


def program(**settings: Any) -> gp.FeatureProgram:
    op = {"multi_hot": {"columns": "x", **settings}}
    return gp.FeatureProgram([op], view="dense").set_output(transform="pandas")


def indicators(lists: list[Any], weights: Any, n: int | None, least: float) -> pd.DataFrame:
    """Return the indicators of pandas, of the items in most rows."""
    items = pd.Series(lists, dtype=object).explode().dropna().astype(str)
    dummies = (
        pd.get_dummies(items).groupby(level=0).max().reindex(range(len(lists)), fill_value=False).astype("float32")
    )
    counts = dummies.mul(weights, axis=0).sum()
    kept = counts[(counts > 0) & (counts >= (least * np.sum(weights) if least < 1 else least))]
    kept = kept.sort_index().sort_values(ascending=False, kind="stable").iloc[:n].sort_index()
    return dummies[kept.index].add_prefix("x=")


@examples(60)
@given(LISTS, st.sampled_from([None, 1, 2]), st.sampled_from([None, 2, 0.25]), st.randoms())
def test_indicators_match_pandas(lists: list[Any], n: int | None, least: Any, random: Any) -> None:
    weights = np.array([random.randint(1, 3) for _ in lists], float)
    fitted = program(max_levels=n, min_frequency=least).fit(frame(lists), sample_weight=weights)
    expected = indicators(lists, weights, n, least or 0)
    found = fitted.transform(frame(lists)).drop(columns="n")
    pd.testing.assert_frame_equal(found, expected, check_column_type=False)  # not standardized


def test_levels_are_learned_from_rows_with_a_weight_and_others_are_ignored() -> None:
    fitted = program().fit(frame([["a"], ["b", "b"], None]), sample_weight=[1.0, 0.0, 1.0])
    found = fitted.transform(frame([["b"], ["new", "a"], [], None])).drop(columns="n")
    assert found.to_dict("list") == {"x=a": [0.0, 1.0, 0.0, 0.0]}


def test_numbers_have_levels_and_given_levels_need_no_training() -> None:
    found = program().fit_transform(frame([[7, 1], [1.5], [7]])).drop(columns="n")
    assert found.to_dict("list") == {"x=1": [1, 0, 0], "x=1.5": [0, 1, 0], "x=7": [1, 0, 1]}
    given_levels = program(levels=[7, 2]).fit(frame([[1], [2]]))
    assert given_levels.transform(frame([[7], [2, 1]])).drop(columns="n").to_dict("list") == {
        "x=7": [1, 0],
        "x=2": [0, 1],
    }
    with pytest.raises(ConfigError, match="the level 'a' needs lists of texts; 'x' has lists of numbers"):
        program(levels=["a"]).fit(frame([[1], [2]]))


def test_a_column_of_that_name_is_an_error() -> None:
    with pytest.raises(ConfigError, match="column 'x=a' already exists"):
        program().fit(frame([["a"], ["b"]]).assign(**{"x=a": [1.0, 2.0]}))


@pytest.mark.parametrize("levels", [["ü", "", "b"], [1.0, 2.5], []])
def test_levels_survive_a_model(levels: list[Any]) -> None:
    op = MultiHot(columns=["x"])._with({"x": levels})
    assert op.with_arrays(op.arrays())._learned == {"x": levels}


@pytest.mark.parametrize("content", [b'["a"', b"{}", b"[1]", b'[["a"]]', b'["\xff"]'])
def test_malformed_levels_are_refused(content: bytes) -> None:
    arrays = {"0_levels": np.frombuffer(content, np.uint8)}
    with pytest.raises(ValueError, match=r"malformed levels|delimiter|codec"):
        MultiHot(columns=["x"]).with_arrays(arrays)
