"""list_stats against pandas: explode and groupby."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpupipe as gp
from gpupipe.errors import ConfigError
from tests.examples import examples

NUMBERS = st.lists(st.none() | st.lists(st.none() | st.floats(-1e6, 1e6, width=32), max_size=5), min_size=2, max_size=8)
TEXTS = st.lists(st.none() | st.lists(st.none() | st.sampled_from(["b", "a", "ü", ""]), max_size=6), min_size=2)


def fitted(lists: list[Any], **settings: Any) -> gp.FeatureProgram:
    ops: list[Any] = [{"list_stats": {"columns": "x", **settings}}, {"categorify": "@categorical"}]
    frame = pd.DataFrame({"x": pd.Series(lists, dtype=object), "n": 1.0})
    return gp.FeatureProgram(ops, view="codes").set_output(transform="pandas").fit(frame)


def frame_of(lists: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(lists, dtype=object), "n": 1.0})


@examples(40)
@given(NUMBERS)
def test_numbers_match_pandas(lists: list[Any]) -> None:
    lists = [*lists, [1.0]]
    items = frame_of(lists)["x"].explode().astype(float)
    groups = items.groupby(level=0)
    has = pd.Series([bool(each) for each in lists])
    expected = pd.DataFrame(
        {
            "x_length": [np.nan if each is None else len(each) for each in lists],
            "x_first": [each[0] if each else np.nan for each in lists],
            "x_last": [each[-1] if each else np.nan for each in lists],
            "x_min": groups.min().where(has),
            "x_max": groups.max().where(has),
            "x_mean": groups.mean().where(has),
        },
        dtype="float32",
    )
    found = fitted(lists).transform(frame_of(lists))
    pd.testing.assert_frame_equal(found[list(expected)], expected, rtol=1e-6)
    alone = [fitted(lists).transform(frame_of(lists).iloc[[i]]) for i in range(2)]
    pd.testing.assert_frame_equal(pd.concat(alone), found.iloc[:2], check_exact=True)


@examples(30)
@given(TEXTS)
def test_texts_match_the_mode_of_pandas(lists: list[Any]) -> None:
    lists = [*lists, ["a", "b", "a"]]
    found = fitted(lists, stats=["most_frequent", "first"])
    levels = {name: sorted({each for each in own if each is not None}) for name, own in expected_texts(lists).items()}
    values = found.transform(frame_of(lists))
    for name, own in expected_texts(lists).items():
        expected = [0 if each is None else 3 + levels[name].index(each) for each in own]
        assert values[name].tolist() == expected, name


def expected_texts(lists: list[Any]) -> dict[str, list[Any]]:
    known = [[item for item in each or () if item is not None] for each in lists]
    return {
        "x_most_frequent": [max(dict.fromkeys(each), key=each.count) if each else None for each in known],
        "x_first": [each[0] if each else None for each in lists],
    }


def test_an_unseen_item_is_unseen_and_another_is_known() -> None:
    found = fitted([["a"], ["b", "a"]], stats=["first"]).transform(frame_of([["new"], ["b"], None]))
    assert found["x_first"].tolist() == [1.0, 4.0, 0.0]


@pytest.mark.parametrize(
    ("lists", "settings", "message"),
    [
        ([["a"], ["b"]], {"stats": ["mean"]}, "mean needs lists of numbers; 'x' has lists of texts"),
        ([1.0, 2.0], {}, "expected lists in column 'x'; found double values"),
        (["[1]", "oops"], {}, "found 'oops': a text that is not a JSON array"),
        ([[1], [2**60]], {}, "integers above 2[*][*]53"),
        (["[1]", '["a"]'], {}, "lists of numbers and lists of texts"),
        (['[1, "a"]', "[2]"], {}, "a list of numbers and texts"),
        (["[1152921504606846976]", "[2]"], {}, "an integer above 2[*][*]53"),
    ],
)
def test_other_values_are_refused(lists: list[Any], settings: Any, message: str) -> None:
    with pytest.raises((ConfigError, gp.errors.SchemaError), match=message):
        fitted(lists, **settings)


def test_a_number_that_float32_cannot_subtract_is_null_in_a_list_as_in_a_cell() -> None:
    found = fitted([[1.0], [2.0]], stats=["max", "first"]).transform(frame_of([[1e38, 5.0], [np.inf]]))
    np.testing.assert_array_equal(found[["x_max", "x_first"]], [[5, np.nan], [np.nan, np.nan]])


def test_a_hash_counts_items_or_tells_whether_there_are_any() -> None:
    for value, most in (("count", 3), ("binary", 1)):
        ops = [{"list_hash": {"columns": "x", "buckets": 4, "value": value}}]
        found = gp.FeatureProgram(ops, view="codes").fit_transform(frame_of([["a", "a", "a"], ["b"]]))
        assert found[0, 1:].max() == found[0, 1:].sum() == most


@pytest.mark.parametrize("value", [3.0, [1.0], "oops"])
def test_a_served_column_of_another_kind_is_refused(value: Any) -> None:
    with pytest.raises(gp.errors.SchemaError, match=r"expected a (list of texts|JSON array) in column 'x'"):
        fitted([["a"], ["b"]]).transform(frame_of([value]))
