"""Ops that replace a column with their result or, with ``as``, add a new column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.errors import ConfigError

SETTINGS: dict[str, dict[str, Any]] = {
    "log1p": {},
    "clip": {"quantiles": [0.1, 0.9]},
    "standardize": {},
    "min_max": {},
    "robust_scale": {},
    "yeo_johnson": {},
    "impute": {"indicator": True},
    "bucketize": {"bins": 4},
}


@pytest.mark.parametrize("view", ["dense", "codes"])
@pytest.mark.parametrize("op", SETTINGS)
def test_as_adds_the_result_and_keeps_the_column(fit, people: pd.DataFrame, op: str, view: str) -> None:
    frame, settings = people[["age", "income"]], {"columns": ["age", "income"], **SETTINGS[op]}
    plain = fit(frame, view=view)
    replaced = fit(frame, [{op: settings}], view=view)
    added = fit(frame, [{op: {**settings, "as": "new {column}"}}], view=view)
    for name in frame:
        pd.testing.assert_series_equal(added.training[name], plain.training[name])
        pd.testing.assert_series_equal(added.training[f"new {name}"], replaced.training[name], check_names=False)
        np.testing.assert_array_equal(added.serve(frame)[f"new {name}"], replaced.serve(frame)[name])
    assert added.features.lineage["new age"] == ["age"]
    assert list(added.serve(people)) == added.names


def test_later_ops_select_the_result_like_any_other_column(fit, people: pd.DataFrame) -> None:
    ops = [
        {"log1p": {"columns": "income", "as": "income_log"}},
        {"bucketize": {"columns": "age", "edges": [30, 60], "as": "age_bin"}},
        {"standardize": "@numeric"},
        {"cross": ["age_bin", "plan"]},
        {"one_hot": "@categorical"},
    ]
    got = fit(people[["income", "age", "plan"]], ops).training
    logged = np.log1p(people["income"])
    np.testing.assert_allclose(got["income_log"], (logged - logged.mean()) / logged.std(ddof=0), rtol=1e-5, atol=1e-5)
    assert {"income", "age", "plan=pro", "age_bin=[30, 60)", "age_bin_x_plan=[30, 60)|pro"} <= set(got)
    assert "age_bin" not in got
    assert got["age_bin=[30, 60)"].sum() == people["age"].between(30, 60, inclusive="left").sum()
    bins = pd.cut(people["age"], [-np.inf, 30, 60, np.inf], right=False)
    both = (bins == pd.Interval(30, 60, "left")) & (people["plan"] == "pro")
    assert got["age_bin_x_plan=[30, 60)|pro"].sum() == both.sum()


def test_hashed_levels_are_added_and_the_category_kept(fit) -> None:
    frame = {"c": ["a", "b", None, "a"]}
    replaced = fit(frame, [{"hash_bucket": {"columns": "c", "buckets": 8}}], view="codes").training
    got = fit(frame, [{"hash_bucket": {"columns": "c", "buckets": 8, "as": "h"}}], view="codes").training
    assert got["h"].tolist() == replaced["c"].tolist()
    assert got["c"].tolist() == [3, 4, 0, 3]


def test_imputed_levels_are_added_and_the_category_kept(fit) -> None:
    impute = {"columns": "c", "strategy": "most_frequent", "as": "filled"}
    got = fit({"c": ["a", "b", None, "a"]}, [{"impute": impute}], view="codes").training
    assert got.to_dict("list") == {"c": [3, 4, 0, 3], "filled": [3, 4, 3, 3]}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": ["a", "b"], "as": "x"}, r"(?s)2 columns cannot all be named 'x'.*as: '\{column\}_log1p'"),
        ({"columns": "a", "as": "b"}, "column 'b' already exists"),
        ({"columns": "a", "as": "a"}, "column 'a' already exists"),
        ({"columns": "a", "as": "a_missing"}, "column 'a_missing' already exists"),
    ],
)
def test_an_invalid_name_is_rejected(fit, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fit({"a": [1.0, None], "b": [1.0, 2.0]}, [{"impute": {"columns": "a", "indicator": True}}, {"log1p": settings}])
