"""cross against a groupby of the combinations in pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import ConfigError, LimitError
from tests.examples import examples

LEVELS = st.sampled_from(["a", "b", "a|b", None])
ROWS = st.lists(st.tuples(LEVELS, LEVELS), min_size=1, max_size=40)
TRIPLES = st.lists(st.tuples(LEVELS, LEVELS, LEVELS), min_size=1, max_size=40)
CROSS = {"cross": {"columns": ["l", "r"], "as": "lr"}}


def table(rows: list) -> pd.DataFrame:
    names = "lr" if len(rows[0]) == 2 else "lmr"
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return pd.DataFrame({name: pd.array(values, dtype="string") for name, values in columns})


def ids(rows: list) -> dict[tuple, int]:
    """Return the id of each combination that rows hold: in the order of the first column's levels, then the next's."""
    seen = {row for row in rows if None not in row}
    return {row: 3 + i for i, row in enumerate(sorted(seen, key=lambda row: [level.encode() for level in row]))}


@examples(60)
@given(rows=ROWS, served=ROWS)
def test_ids_group_rows_as_pandas_groups_pairs(fit, rows: list, served: list) -> None:
    made = fit(table(rows), [CROSS, {"categorify": "lr"}])
    known = ids(rows)
    expected = [[0 if None in row else known.get(row, 1) for row in some] for some in (rows, served)]
    assert made.training["lr"].tolist() == expected[0]
    assert made.serve(table(served))["lr"].tolist() == expected[1]
    assert made.features.categorical[made.names.index("lr")] == 3 + len(known)


@examples(60)
@given(rows=TRIPLES, served=TRIPLES, chained=st.booleans())
def test_three_columns_at_once_or_one_after_the_other(fit, rows: list, served: list, chained: bool) -> None:
    ops = [{"cross": {"columns": ["l", "m", "r"], "as": "lmr"}}]
    if chained:
        ops = [{"cross": {"columns": ["l", "m"], "as": "lm"}}, {"cross": {"columns": ["lm", "r"], "as": "lmr"}}]
    made = fit(table(rows), [*ops, {"categorify": "lmr"}])
    known = ids(rows)
    groups = made.training.groupby("lmr").groups.values()
    assert all(len({rows[i] if None not in rows[i] else None for i in group}) == 1 for group in groups)
    assert made.training["lmr"].nunique() == len(known) + any(None in row for row in rows)
    got = made.serve(table(served))["lmr"]
    if not chained:
        assert made.training["lmr"].tolist() == [0 if None in row else known[row] for row in rows]
        assert got.tolist() == [0 if None in row else known.get(row, 1) for row in served]
    assert [value == 0 for value in got] == [None in row for row in served]
    assert [value >= 3 for value in got] == [row in known for row in served]


@examples(30)
@given(rows=ROWS.filter(lambda rows: any(None not in row for row in rows)))
def test_one_hot_has_a_column_for_each_pair_that_was_seen(fit, rows: list) -> None:
    got = fit(table(rows), [CROSS, {"one_hot": "lr"}]).training.filter(like="lr=")
    hot = got.drop(columns="lr=(null)", errors="ignore")
    complete = [row for row in rows if None not in row]
    assert sorted(hot.sum()) == sorted(pd.Series(complete).value_counts())
    assert (got.sum(axis=1) == 1).all()


@pytest.mark.parametrize("columns", [["l", "r"], ["l", "r", "m"]])
@pytest.mark.parametrize("buckets", [None, 100_000])
def test_target_and_frequency_of_combinations_match_pandas(fit, columns: list[str], buckets: int | None) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice(list(name + "bcdxy"), 300) for name in "lrm"})
    y = rng.integers(0, 2, 300)
    cross = {"columns": columns, "as": "x", **({"buckets": buckets} if buckets else {})}
    ops = [{"cross": cross}, {"frequency_encode": "x"}, {"target_encode": {"columns": "x", "smoothing": 5}}]
    made = fit(frame, ops, y=y)
    groups = pd.Series(y).groupby([frame[column] for column in columns])
    got = made.serve(frame)
    np.testing.assert_allclose(got["x_frequency"], groups.transform("count") / 300, rtol=1e-6)
    expected = (groups.transform("sum") + 5 * y.mean()) / (groups.transform("count") + 5)
    np.testing.assert_allclose(got["x_target"], expected, rtol=1e-6)

    # The targets of a training row and of its fold are excluded.
    fold = made.statistics.folds(5)
    row = 17
    others = fold != fold[row]
    alike = (frame[columns] == frame.loc[row, columns]).all(axis=1) & others
    prior = y[others].mean()
    own = (y[alike].sum() + 5 * prior) / (alike.sum() + 5)
    assert made.training["x_target"][row] == pytest.approx(own, rel=1e-5)


def test_a_combination_never_seen_has_the_prior_and_no_frequency(fit) -> None:
    frame, y = {"l": ["a", "a", "b", "b"], "r": ["x", "x", "y", "y"]}, [0, 1, 1, 1]
    made = fit(frame, [CROSS, {"target_encode": "lr"}, {"frequency_encode": "lr"}], y=y)
    got = made.serve({"l": ["a", "zzz"], "r": ["y", "x"]})
    assert got["lr_target"].tolist() == [0.75, 0.75]
    assert got["lr_frequency"].tolist() == [0.0, 0.0]


@examples(30)
@given(rows=TRIPLES, served=TRIPLES, columns=st.sampled_from([["l", "r"], ["l", "m", "r"]]))
def test_hashed_combinations_keep_null_and_unseen_apart_and_agree_with_every_other_fit(
    fit, rows: list, served: list, columns: list[str]
) -> None:
    ops = [{"cross": {"columns": columns, "as": "x", "buckets": 2**16}}, {"frequency_encode": "x"}]
    made = fit(table(rows), ops)
    sides = [["l", "m", "r"].index(column) for column in columns]
    keys = [tuple(row[side] for side in sides) for row in rows]
    counts = pd.Series(keys).value_counts()
    # 2**16 buckets: no two of these 64 combinations share one.
    np.testing.assert_allclose(made.training["x_frequency"], [counts[key] / len(rows) for key in keys], rtol=1e-6)
    known = [{row[side] for row in rows} for side in sides]
    for row, got in zip(served, made.serve(table(served))["x_frequency"], strict=True):
        key = tuple(row[side] for side in sides)
        if all(value in levels for value, levels in zip(key, known, strict=True)):
            assert got == pytest.approx(counts.get(key, 0) / len(rows))


def test_buckets_are_ids_that_do_not_depend_on_the_fit(fit) -> None:
    rows = [("a", "b"), ("b", "a"), ("a|b", "a"), (None, "a")]
    ops = [{"cross": {"columns": ["l", "r"], "as": "lr", "buckets": 1000}}, {"one_hot": "lr"}]
    once = fit(table(rows), ops).training.filter(like="lr=")
    more = fit(table([*rows, ("b", "b"), ("a|b", "a|b")]), ops).training.filter(like="lr=")
    assert once.shape[1] == 4
    np.testing.assert_array_equal(more.loc[:3, once.columns], once)


@pytest.mark.parametrize("columns", [["c", "x"], ["x", "c"]])
def test_a_cross_of_a_bin_and_a_category(fit, columns: list[str]) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, None], "c": ["a", "a", "b", "b", "b"]})
    ops = [{"bucketize": {"columns": "x", "edges": [1.5, 2.5]}}, {"cross": columns}]
    name = "_x_".join(columns)
    got = fit(frame, [*ops, {"one_hot": name}]).training.filter(like=f"{name}=")
    bins = {"[-inf, 1.5)": "a", "[1.5, 2.5)": "a", "[2.5, inf)": "b"}
    labels = [f"{category}|{bin}" if columns[0] == "c" else f"{bin}|{category}" for bin, category in bins.items()]
    expected = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]
    names = [f"{name}={label}" for label in [*labels, "(null)"]]
    assert got.to_dict("list") == dict(zip(names, expected, strict=True))
    assert list(got) == names


def test_nulls_that_were_imputed_make_no_null_pairs(fit) -> None:
    impute = {"impute": {"columns": "l", "strategy": "most_frequent"}}
    got = fit(table([("a", "x"), ("a", "x"), (None, "x")]), [impute, CROSS, {"categorify": "lr"}]).training
    assert got["lr"].tolist() == [3, 3, 3]


def test_the_crossed_columns_stay_features(fit) -> None:
    frame = table([("a", "x"), ("b", "x"), ("a", "y")])
    made = fit(frame, [CROSS, {"frequency_encode": "lr"}], view="codes")
    assert made.names == ["lr_frequency", "l", "r"]
    assert made.features.lineage == {"lr_frequency": ["l", "r"], "l": ["l"], "r": ["r"]}


def test_encode_chooses_by_the_combinations_that_there_are(fit) -> None:
    levels = [f"{i:02d}" for i in range(40)]
    frame = {"l": levels * 5, "r": levels * 5}
    made = fit(frame, [CROSS, {"encode": "lr"}], y=np.arange(200) % 2)
    assert sum(name.startswith("lr=") for name in made.names) == 40  # of 1,600


@pytest.mark.parametrize("view", ["dense", "codes", "embedding"])
@pytest.mark.parametrize(
    "later", [[], [{"encode": "@categorical"}], [{"encode": "@all"}], [{"auto": "@all"}], [{"encode": "l*"}]]
)
def test_a_cross_is_a_feature_whether_or_not_an_op_names_it(fit, view: str, later: list) -> None:
    frame = table([("a", "x"), ("b", "x"), ("b", "x")])
    named = fit(frame, [CROSS, {"encode": ["l", "r", "lr"]}], view=view)
    made = fit(frame, [CROSS, *later], view=view)
    assert sorted(made.names) == sorted(named.names)
    pd.testing.assert_frame_equal(made.training[named.names], named.training)


def test_a_cross_used_by_another_cross_is_not_a_feature(fit) -> None:
    frame = table([("a", "x", "u"), ("b", "x", "v")])
    made = fit(frame, [{"cross": ["l", "m"]}, {"cross": {"columns": ["l_x_m", "r"], "as": "lmr"}}], view="codes")
    assert made.names == ["l", "m", "r", "lmr"]


def test_an_imputed_cross_is_still_a_feature(fit) -> None:
    impute = {"impute": {"columns": "@categorical", "strategy": "most_frequent"}}
    made = fit(table([("a", "x"), (None, "x"), ("a", "x")]), [CROSS, impute], view="codes")
    assert made.training["lr"].tolist() == [3, 3, 3]


def test_a_name_that_is_taken_is_an_error(fit) -> None:
    with pytest.raises(ConfigError, match="column 'r' already exists"):
        fit(table([("a", "x")]), [{"cross": {"columns": ["l", "r"], "as": "r"}}])


def test_a_cross_takes_two_columns_or_more(fit) -> None:
    with pytest.raises(ConfigError, match="takes two or more columns; got 1"):
        fit(table([("a", "x")]), [{"cross": ["l"]}])


def test_two_columns_made_by_ops_cannot_be_crossed(fit) -> None:
    frame = {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]}
    with pytest.raises(ConfigError, match=r"(?s)'x' and 'y' are both made by ops.*cross the input columns first"):
        fit(frame, [{"bucketize": {"columns": ["x", "y"], "bins": 2}}, {"cross": ["x", "y"]}])


@pytest.mark.parametrize("columns", [["l", "r"], ["l", "r", "m"]])
def test_too_many_combinations_are_rejected_before_they_are_computed(fit, columns: list[str]) -> None:
    levels = [str(i) for i in range(5000)]
    frame = {"l": levels, "r": levels[::-1], "m": levels}
    schema = dict.fromkeys(frame, "category")
    with pytest.raises(LimitError, match=r"(?s)combinations of levels.*hash_bucket"):
        fit(frame, [{"cross": {"columns": columns, "as": "x"}}], schema=schema)
    hashed = [{"hash_bucket": {"columns": columns, "buckets": 16}}, {"cross": {"columns": columns, "as": "x"}}]
    got = fit(frame, [*hashed, {"frequency_encode": "x"}], schema=schema).training["x_frequency"]
    assert got.between(1 / 5000, 0.02).all()


def test_combinations_whose_levels_join_to_one_text_have_different_labels(fit) -> None:
    rows = {"l": ["a|b", "a"], "m": ["a", "b"], "r": ["b", "a|b"]}
    made = fit(rows, [{"cross": {"columns": ["l", "m", "r"], "as": "lmr"}}, {"one_hot": "lmr"}])
    assert {r"lmr=a\|b|a|b", r"lmr=a|b|a\|b"} <= set(made.names)
