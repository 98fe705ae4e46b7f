"""Cases of NVTabular's unit tests with their expected values, and one of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import RobustScaler

import gpupipe as gp


def transformed(frame: pd.DataFrame, *ops: dict[str, Any], y: Any = None, **settings: Any) -> pd.DataFrame:
    """Return the features of the rows as new ones."""
    program = gp.FeatureProgram([*ops], view="codes", **settings).set_output(transform="pandas")
    found: pd.DataFrame = program.fit(frame, y).transform(frame)
    return found


def users(letters: str) -> list[str]:
    return [f"User_{letter}" for letter in letters]


def test_a_difference_is_ordered_by_any_number() -> None:  # test_difference_lag
    frame = pd.DataFrame({"userid": [0, 0, 0, 1, 1, 2], "timestamp": [1000, 1005, 1100, 2000, 2001, 3000]})
    op = {"key": "userid", "time": "timestamp", "columns": "timestamp", "periods": [1, -1]}
    found = transformed(frame, {"difference": op}, {"drop": ["userid"]})
    nan = np.nan
    np.testing.assert_array_equal(found["timestamp_difference_1"], [nan, 5, 95, nan, 1, nan])
    np.testing.assert_array_equal(found["timestamp_difference_-1"], [-5, -95, nan, -1, nan, nan])


@pytest.mark.parametrize(
    ("vocabulary", "authors", "engaging"),
    [("shared", [2, 5, 1, 3], [1, 1, 2, 4]), ("separate", [1, 4, 2, 3], [1, 1, 2, 3])],
)
def test_ids_are_in_the_order_of_frequency_alone_or_together(  # test_categorify_multi
    vocabulary: str, authors: list[int], engaging: list[int]
) -> None:
    frame = pd.DataFrame({"Author": users("AEBC"), "Engaging": users("BBAD")})
    op = {"columns": ["Author", "Engaging"], "order": "frequency", "vocabulary": vocabulary}
    found = transformed(frame, {"categorify": op}) - 2  # ours begin at 3
    assert found["Author"].tolist() == authors and found["Engaging"].tolist() == engaging


@pytest.mark.parametrize(
    ("author", "engaging", "expected"),
    [
        ("BEBC", "CBAD", ([1, 3, 1, 2], [3, 2, 1, 4], [2, 4, 1, 3])),
        ("AEBC", "BBAD", ([1, 4, 2, 3], [1, 1, 2, 3], [1, 4, 2, 3])),
        ("CEBC", "BBAD", ([1, 3, 2, 1], [1, 1, 2, 3], [2, 4, 1, 3])),
        ("ABCC", "ABCC", ([2, 3, 1, 1], [2, 3, 1, 1], [2, 3, 1, 1])),
        ("CEBA", "CBAD", ([3, 4, 2, 1], [3, 2, 1, 4], [3, 4, 2, 1])),
    ],
)
def test_combinations_have_ids_by_frequency(  # test_categorify_multi_combo, whose fourth case is not by frequency
    author: str, engaging: str, expected: tuple[list[int], ...]
) -> None:
    frame = pd.DataFrame({"a": users(author), "e": users(engaging)})
    cross = {"cross": {"columns": ["a", "e"], "as": "ae"}}
    found = transformed(frame, cross, {"categorify": {"columns": ["a", "e", "ae"], "order": "frequency"}}) - 2
    assert tuple(found[name].tolist() for name in ("a", "e", "ae")) == expected


def test_a_vocabulary_is_given() -> None:  # test_categorify_lists with vocabs, item by item
    frame = pd.DataFrame({"author": users("AABCC"), "Post": range(5)})
    frame.loc[1, "author"] = "User_E"
    found = transformed(frame, {"categorify": {"columns": "author", "levels": users("ACBE")}})
    assert (found["author"] - 2).tolist() == [1, 4, 3, 2, 2]


def test_levels_above_a_size_share_buckets() -> None:  # test_categorify_max_size
    frame = pd.DataFrame({"Author": users("AEBCAEBCDFF")})
    op = {"columns": "Author", "max_categories": 2, "order": "frequency", "buckets": 3}
    found = transformed(frame, {"categorify": op})["Author"]
    assert found[frame.Author.isin(users("AB"))].tolist() == [3, 4, 3, 4]  # of equal frequency, in order of the text
    assert set(found[~frame.Author.isin(users("AB"))]) <= {5, 6, 7}


def test_means_of_several_other_columns_are_encoded() -> None:  # test_target_encode_multi
    num = np.array([1, 1, 2, 2, 2, 1, 1, 5, 4, 4, 4, 4])
    frame = pd.DataFrame({"cat": ["baaaa"] * 12, "cat2": ["baaaa"] * 6 + ["bbaaa"] * 3 + ["bcaaa"] * 3})
    frame = frame.assign(num=num, num_2=2 * num)
    ops: list[dict[str, Any]] = [{"cross": {"columns": ["cat", "cat2"], "as": "both"}}]
    for of in ("num", "num_2"):
        ops.append({"target_encode": {"columns": ["cat", "cat2", "both"], "of": of, "smoothing": 5}})
    found = transformed(frame, *ops)
    np.testing.assert_allclose(found["cat2_target_num"], found["both_target_num"])
    np.testing.assert_allclose(found["cat2_target_num_2"], found["both_target_num_2"])
    assert found["cat_target_num"].iloc[0] == pytest.approx(num.mean())
    assert found["cat_target_num_2"].iloc[0] == pytest.approx(2 * num.mean())
    assert found["cat2_target_num"].iloc[0] == pytest.approx((num[:6].sum() + 5 * num.mean()) / 11)


def test_means_of_a_label_that_another_op_makes_are_encoded() -> None:  # test_target_encode_group
    frame = pd.DataFrame({"Post": [1.0, 2, 3, 4, 5] * 3, "Author": ["A"] * 5 + ["B"] * 5 + ["C"] * 2 + ["D"] * 3})
    label = {"expression": {"label": "where(Post > 3, 1, 0)"}}
    found = transformed(frame, label, {"target_encode": {"columns": "Author", "of": "label", "smoothing": 0}})
    shares = (frame.Post > 3).groupby(frame.Author).transform("mean")
    np.testing.assert_allclose(found["Author_target_label"], shares, rtol=1e-6)


@pytest.mark.parametrize(
    ("by", "sums"), [(["Author"], [600, 600, 600, 400]), (["Author", "Engaging"], [300, 300, 300, 400])]
)
def test_sums_of_groups_are_means_times_counts(by: list[str], sums: list[float]) -> None:  # test_joingroupby_multi
    frame = pd.DataFrame({"Author": users("AAAB"), "Engaging": users("BBCC"), "Cost": [100.0, 200.0, 300.0, 400.0]})
    stats = {"group_stats": {"columns": "Cost", "by": by, "stats": ["mean", "count"]}}
    name = "_and_".join(by)
    total = {"arithmetic": {"product": [f"Cost_mean_by_{name}", f"Cost_count_by_{name}"], "as": "sum"}}
    np.testing.assert_allclose(transformed(frame, stats, total)["sum"], sums)


def test_groups_of_a_scaled_number_are_those_of_its_scaled_values() -> None:  # test_joingroupby_dependency
    frame = pd.DataFrame({"Author": users("AAABB"), "Cost": [100.0, 200.0, 300.0, 400.0, 400.0]})
    stats = {"group_stats": {"columns": "Cost", "by": "Author", "stats": ["mean", "count"]}}
    total = {"arithmetic": {"product": ["Cost_mean_by_Author", "Cost_count_by_Author"], "as": "sum"}}
    found = transformed(frame, {"min_max": "Cost"}, stats, total)
    np.testing.assert_allclose(found["sum"], [1, 1, 1, 2, 2], rtol=1e-6)


def test_a_robust_scale_has_the_variance_of_normal_numbers() -> None:  # scikit-learn: unit_variance
    x = np.random.default_rng(0).normal(7, 3, 10_000)
    frame = pd.DataFrame({"x": x})
    found = transformed(frame, {"robust_scale": {"columns": "x", "unit_variance": True}})["x"]
    np.testing.assert_allclose(found, RobustScaler(unit_variance=True).fit_transform(frame)[:, 0], atol=1e-5)
