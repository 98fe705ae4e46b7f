"""cross against a groupby of the pairs in pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.errors import ConfigError, LimitError

LEVELS = st.sampled_from(["a", "b", "a|b", None])
ROWS = st.lists(st.tuples(LEVELS, LEVELS), min_size=1, max_size=40)
CROSS = {"cross": {"columns": ["l", "r"], "as": "lr"}}


def pairs(rows: list) -> pd.DataFrame:
    left, right = zip(*rows, strict=True)
    return pd.DataFrame({"l": pd.array(left, dtype="string"), "r": pd.array(right, dtype="string")})


@settings(deadline=None, max_examples=50)
@given(rows=ROWS, served=ROWS)
def test_ids_group_rows_as_pandas_groups_pairs(fit, rows: list, served: list) -> None:
    made = fit(pairs(rows), [CROSS, {"categorify": "lr"}])
    assert made.names == ["lr"]
    seen = sorted({row for row in rows if None not in row})
    levels = [sorted({row[side] for row in rows if row[side] is not None}, key=str.encode) for side in (0, 1)]
    order = [pair for left in levels[0] for right in levels[1] if (pair := (left, right)) in seen]

    def expected(row: tuple) -> int:
        return 0 if None in row else 3 + order.index(row) if row in order else 1

    assert made.training["lr"].tolist() == [expected(row) for row in rows]
    assert made.serve(pairs(served))["lr"].tolist() == [expected(row) for row in served]


@settings(deadline=None, max_examples=30)
@given(rows=ROWS.filter(lambda rows: any(None not in row for row in rows)))
def test_one_hot_has_a_column_for_each_pair_that_was_seen(fit, rows: list) -> None:
    got = fit(pairs(rows), [CROSS, {"one_hot": "lr"}]).training
    hot = got.drop(columns="lr=(null)", errors="ignore")
    complete = [row for row in rows if None not in row]
    assert sorted(hot.sum()) == sorted(pd.Series(complete).value_counts())
    assert (got.sum(axis=1) == 1).all()


def test_target_and_frequency_of_pairs_are_those_of_pandas(fit) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"l": rng.choice(list("abc"), 300), "r": rng.choice(list("xyz"), 300)})
    y = rng.integers(0, 2, 300)
    ops = [CROSS, {"frequency_encode": "lr"}, {"target_encode": {"columns": "lr", "smoothing": 5}}]
    got = fit(frame, ops, y=y).serve(frame)
    groups = pd.Series(y).groupby([frame["l"], frame["r"]])
    np.testing.assert_allclose(got["lr_frequency"], groups.transform("count") / 300, rtol=1e-6)
    expected = (groups.transform("sum") + 5 * y.mean()) / (groups.transform("count") + 5)
    np.testing.assert_allclose(got["lr_target"], expected, rtol=1e-6)


@settings(deadline=None, max_examples=30)
@given(rows=ROWS, served=ROWS)
def test_hashed_pairs_keep_null_and_unseen_apart_and_agree_with_every_other_fit(fit, rows, served) -> None:
    ops = [{"cross": {"columns": ["l", "r"], "as": "lr", "buckets": 4096}}, {"frequency_encode": "lr"}]
    made = fit(pairs(rows), ops)
    counts = pd.Series(rows).value_counts()
    # 4096 buckets: no two of these 16 pairs share one.
    np.testing.assert_allclose(made.training["lr_frequency"], [counts[row] / len(rows) for row in rows], rtol=1e-6)
    known = [{row[side] for row in rows} for side in (0, 1)]
    for row, got in zip(served, made.serve(pairs(served))["lr_frequency"], strict=True):
        if all(value in levels for value, levels in zip(row, known, strict=True)):
            assert got == pytest.approx(counts.get(row, 0) / len(rows))


def test_a_cross_of_a_bin_and_a_category(fit) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, None], "c": ["a", "a", "b", "b", "b"]})
    ops = [
        {"bucketize": {"columns": "x", "edges": [1.5, 2.5]}},
        {"cross": ["c", "x"]},
        {"one_hot": "c_x_x"},
    ]
    got = fit(frame, ops).training.drop(columns="x")
    assert got.to_dict("list") == {
        "c_x_x=[-inf, 1.5)|a": [1, 0, 0, 0, 0],
        "c_x_x=[1.5, 2.5)|a": [0, 1, 0, 0, 0],
        "c_x_x=[2.5, inf)|b": [0, 0, 1, 1, 0],
        "c_x_x=(null)": [0, 0, 0, 0, 1],
    }


def test_a_cross_of_three(fit) -> None:
    frame = pd.DataFrame({"a": list("xxyy"), "b": list("xyxy"), "c": list("zzzw")})
    ops = [{"cross": {"columns": ["a", "b"], "as": "ab"}}, {"cross": {"columns": ["ab", "c"], "as": "abc"}}]
    got = fit(frame, [*ops, {"categorify": "abc"}]).training["abc"]
    assert got.tolist() == [3, 4, 5, 6]


def test_nulls_that_were_imputed_make_no_null_pairs(fit) -> None:
    impute = {"impute": {"columns": "l", "strategy": "most_frequent"}}
    got = fit(pairs([("a", "x"), ("a", "x"), (None, "x")]), [impute, CROSS, {"categorify": "lr"}]).training
    assert got["lr"].tolist() == [3, 3, 3]


def test_a_cross_that_nothing_takes_is_said_to_be_left_out(fit) -> None:
    made = fit(pairs([("a", "x"), ("b", "x")]), [CROSS])
    assert "lr: no op selects it" in made.notes
    assert made.names == ["l=a", "l=b", "r=x"]


def test_a_name_that_is_taken_is_an_error(fit) -> None:
    with pytest.raises(ConfigError, match="a column 'r' already"):
        fit(pairs([("a", "x")]), [{"cross": {"columns": ["l", "r"], "as": "r"}}])


def test_a_cross_takes_two_columns(fit) -> None:
    with pytest.raises(ConfigError, match="takes two columns, got 1"):
        fit(pairs([("a", "x")]), [{"cross": ["l"]}])


def test_too_many_pairs_are_refused_before_they_are_made(fit) -> None:
    levels = [str(i) for i in range(5000)]
    frame, schema = {"l": levels, "r": levels[::-1]}, {"l": "category", "r": "category"}
    with pytest.raises(LimitError, match=r"(?s)pairs of levels.*hash_bucket"):
        fit(frame, [CROSS], schema=schema)
    hashed = [{"hash_bucket": {"columns": ["l", "r"], "buckets": 16}}, CROSS, {"frequency_encode": "lr"}]
    assert fit(frame, hashed, schema=schema).training["lr_frequency"].between(1 / 5000, 0.02).all()
