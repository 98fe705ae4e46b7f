"""target_encode against a pandas groupby and scikit-learn's TargetEncoder; cross-fitted values against both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import TargetEncoder

import gpupipe as gp
from gpupipe.errors import ConfigError
from gpupipe.features.program.target import Target
from tests.examples import examples

ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 1)), min_size=2, max_size=50)


def smoothed_means(levels, y, smoothing: float) -> tuple[pd.Series, float]:
    """Return the mean of each level, null among them, drawn to the mean of all; and that mean."""
    y = pd.Series(np.asarray(y, float))
    groups = y.groupby(pd.Series(levels, dtype=object).fillna("(null)").to_numpy()).agg(["sum", "count"])
    prior = y.mean() if len(y) else 0.0
    return (groups["sum"] + smoothing * prior) / (groups["count"] + smoothing), prior


def look_up(levels, means: pd.Series, prior: float) -> np.ndarray:
    return pd.Series(levels, dtype=object).fillna("(null)").map(means).fillna(prior).to_numpy(float)


@examples(40)
@given(rows=ROWS, smoothing=st.sampled_from([0, 1, 20.5]), served=st.lists(st.sampled_from(["a", "c", "x", None])))
def test_other_rows_get_the_smoothed_mean_of_all_training_rows(fit, rows, smoothing: float, served) -> None:
    levels, y = zip(*rows, strict=True)
    frame = {"c": pd.array(levels, dtype="string")}
    made = fit(frame, [{"target_encode": {"columns": "c", "smoothing": smoothing}}], y=np.array(y))
    means, prior = smoothed_means(levels, y, smoothing)
    rest = [*levels, *served]
    got = made.serve({"c": pd.array(rest, dtype="string")})
    np.testing.assert_allclose(got["c_target"], look_up(rest, means, prior), rtol=1e-6, atol=1e-7)


@examples(40)
@given(rows=ROWS, folds=st.integers(2, 6), seed=st.integers(0, 99))
def test_a_training_row_is_encoded_from_the_other_folds_only(fit, rows, folds: int, seed: int) -> None:
    levels, y = (np.array(part) for part in zip(*rows, strict=True))
    op = {"target_encode": {"columns": "c", "smoothing": 2, "folds": folds}}
    made = fit({"c": pd.array(levels, dtype="string")}, [op], y=np.array(y, float), seed=seed)
    fold = made.features.folds
    assert set(fold) <= set(range(1, folds + 1))
    expected = np.empty(len(y))
    for f in range(1, folds + 1):
        means, prior = smoothed_means(levels[fold != f], y[fold != f], 2)
        expected[fold == f] = look_up(levels[fold == f], means, prior)
    np.testing.assert_allclose(made.training["c_target"], expected, rtol=1e-6, atol=1e-7)


@examples(25)
@given(seed=st.integers(0, 10**6), row=st.integers(0, 59))
def test_the_target_of_a_row_does_not_change_its_own_encoding(fit, seed: int, row: int) -> None:
    rng = np.random.default_rng(seed)
    levels, y = rng.choice(["a", "b", "c"], 60), rng.integers(0, 2, 60) + 0.0  # folds of classes depend on them
    flipped = y.copy()
    flipped[row] = 1 - flipped[row]
    one, other = (fit({"c": levels}, [{"target_encode": "c"}], y=target) for target in (y, flipped))
    assert one.training["c_target"][row] == other.training["c_target"][row]
    assert (one.training["c_target"] != other.training["c_target"]).any()


def test_a_category_of_pure_noise_does_not_predict_the_target(fit) -> None:
    rng = np.random.default_rng(0)
    levels, y = rng.integers(0, 3000, 12_000).astype(str), rng.integers(0, 2, 12_000)
    made = fit({"c": levels}, [{"target_encode": {"columns": "c", "smoothing": 1}}], y=y, schema={"c": "category"})
    assert roc_auc_score(y, made.training["c_target"]) == pytest.approx(0.5, abs=0.03)
    naive = made.serve({"c": levels})["c_target"]
    assert roc_auc_score(y, naive) > 0.7  # the leak that cross-fitting prevents


@pytest.mark.parametrize("n_rows", [1, 2, 5])
@pytest.mark.parametrize("folds", [2, 7])
@pytest.mark.parametrize("weigh", [None, lambda n: 0.1 + np.arange(n) / 3])
def test_few_rows_are_encoded_by_means_of_others_and_one_row_by_the_prior(fit, n_rows: int, folds: int, weigh) -> None:
    y, levels = np.arange(n_rows) ** 1.5 + 10.0, [f"c{i % 3}" for i in range(n_rows)]
    weights = None if weigh is None else weigh(n_rows)
    op = {"target_encode": {"columns": "c", "folds": folds, "smoothing": 0}}
    for seed in range(20):
        made = fit({"c": levels}, [op], y=y, seed=seed, weights=weights).training["c_target"]
        assert made.between(y.min() * (1 - 1e-6), y.max() * (1 + 1e-6)).all()


def test_a_level_whose_rows_are_all_in_one_fold_gets_the_mean_of_the_other_folds(fit) -> None:
    """0.1 + 0.2 + 0.3 - 0.6 is not 0 in float64, so sums of weights must not be differences."""
    rng = np.random.default_rng(0)
    levels, y = np.array([f"c{i // 3}" for i in range(300)]), rng.normal(50, 1, 300)
    weights = rng.choice([0.1, 0.2, 0.3, 1.7], 300)
    op = {"target_encode": {"columns": "c", "folds": 2, "smoothing": 0}}
    made = fit({"c": levels}, [op], y=y, weights=weights, schema={"c": "categorical"})
    fold, alone = made.features.folds, 0
    for at in range(0, 300, 3):
        if len(set(fold[at : at + 3])) == 1:
            others = fold != fold[at]
            expected = np.average(y[others], weights=weights[others])
            np.testing.assert_allclose(made.training["c_target"][at : at + 3], expected, rtol=1e-6)
            alone += 1
    assert alone > 5


@pytest.mark.parametrize(("y", "n_classes", "value"), [(0, 1, 0.0), (0, 2, 0.0), (1, 2, 1.0), (3.4, 0, 3.4)])
def test_a_target_of_one_value_has_a_constant_column(fit, y: float, n_classes: int, value: float) -> None:
    made = fit({"c": ["u", "v"] * 10}, [{"target_encode": "c"}], y=Target(np.full(20, float(y)), n_classes))
    assert made.names == ["c_target"]
    np.testing.assert_allclose(made.training["c_target"], value, rtol=1e-6)
    np.testing.assert_allclose(made.serve({"c": ["u", "new", None]})["c_target"], value, rtol=1e-6)
    if isinstance(y, int):  # scikit-learn encodes a single class as the first of two
        reference = TargetEncoder(target_type="binary").fit_transform(np.tile([["u"], ["v"]], (10, 1)), np.zeros(20))
        assert n_classes == 2 or (reference == value).all()


def test_the_folds_are_stratified_by_class(fit) -> None:
    levels, y = np.random.default_rng(0).choice(list("abc"), 97), np.arange(97) % 3
    fold = fit({"c": levels}, [{"target_encode": {"columns": "c", "folds": 4}}], y=y).features.folds
    assert pd.crosstab(fold, y).agg(np.ptp).max() <= 1 and np.ptp(np.bincount(fold)[1:]) <= 1


@pytest.mark.parametrize("kind", ["binary", "continuous", "multiclass"])
@pytest.mark.parametrize("smoothing", [1.0, 20.0, "auto"])
def test_the_full_encoding_matches_scikit_learn(fit, kind: str, smoothing) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"c": rng.choice(list("abcdef"), 500), "d": rng.choice(np.array(["x", "y", None], object), 500)}
    )
    y = {"binary": rng.integers(0, 2, 500), "continuous": rng.normal(size=500), "multiclass": rng.integers(0, 4, 500)}
    made = fit(frame, [{"target_encode": {"columns": ["c", "d"], "smoothing": smoothing}}], y=y[kind])
    reference = TargetEncoder(smooth=smoothing, target_type=kind).fit(frame, y[kind])
    served = pd.concat([frame, pd.DataFrame({"c": ["new", None], "d": ["x", "new"]})], ignore_index=True)
    np.testing.assert_allclose(made.serve(served), reference.transform(served), rtol=1e-5, atol=1e-6)


def test_three_classes_have_a_column_each_and_they_sum_to_one(fit) -> None:
    rng = np.random.default_rng(2)
    made = fit({"c": rng.choice(list("ab"), 90)}, [{"target_encode": "c"}], y=np.arange(90) % 3)
    assert made.names == ["c_target_0", "c_target_1", "c_target_2"]
    np.testing.assert_allclose(made.training.sum(axis=1), 1, rtol=1e-6)


def test_several_encodings_share_the_folds(fit) -> None:
    frame, y = {"c": ["a", "b"] * 20, "d": ["x", "x", "y", "y"] * 10}, np.tile([0, 1], 20)
    ops = [{"target_encode": {"columns": "c", "folds": 3}}, {"target_encode": {"columns": "d", "folds": 4}}]
    with pytest.raises(ConfigError, match=r"(?s)4 folds conflict with 3 folds.*same number of folds"):
        fit(frame, ops, y=y)


def test_the_folds_of_one_column_are_those_of_the_columns_left_to_auto(fit) -> None:
    frame = {"c": ["a", "b"] * 200, "d": [str(i % 99) for i in range(400)]}
    made = fit(frame, [{"target_encode": {"columns": "c", "folds": 3}}], y=np.tile([0, 1], 200))
    assert made.names == ["c_target", "d_target"]
    assert set(made.features.folds) == {1, 2, 3}


def test_without_a_target_there_is_nothing_to_encode_by(fit) -> None:
    with pytest.raises(ConfigError, match=r"(?s)target_encode requires a target.*source\.target"):
        fit({"c": ["a"]}, [{"target_encode": "c"}])


@pytest.mark.parametrize("kind", ["binary", "continuous"])
def test_each_fold_estimates_its_smoothing_and_weights_are_repeated_rows(fit, kind: str) -> None:
    rng = np.random.default_rng(2)
    levels, weights = rng.choice(list("abc"), 60), rng.integers(1, 4, 60)
    y = rng.integers(0, 2, 60).astype(float) if kind == "binary" else 100 + rng.normal(size=60)
    ops = [{"target_encode": {"columns": "c", "smoothing": "auto", "folds": 3}}]
    task: Any = "binary" if kind == "binary" else "regression"
    made = fit({"c": levels}, ops, y=y)
    fold, frame = made.features.folds, pd.DataFrame({"c": levels})
    for f in range(1, 4):
        other = TargetEncoder(smooth="auto", target_type=kind).fit(frame[fold != f], y[fold != f])
        expected = other.transform(frame[fold == f])[:, 0]
        np.testing.assert_allclose(made.training["c_target"][fold == f], expected, rtol=1e-6)
    program = gp.FeatureProgram(ops, task=task, random_state=0)
    once = program.fit(frame, y, sample_weight=weights.astype(float)).transform(frame)
    repeated = program.fit(frame.loc[np.repeat(np.arange(60), weights)], np.repeat(y, weights)).transform(frame)
    np.testing.assert_allclose(once, repeated, rtol=1e-6)


@pytest.mark.parametrize("smoothing", [3.0, "auto"])
def test_the_means_of_another_column_are_learned_as_those_of_a_target(fit, smoothing) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"c": rng.choice(np.array(["a", "b", "c", None], object), 200)})
    clicks = frame.c.map({"a": 1.0}).fillna(0) + pd.Series(rng.normal(1000, 1, 200))
    frame["clicks"] = clicks.where(rng.random(200) < 0.9)
    op = {"columns": "c", "of": "clicks", "smoothing": smoothing, "folds": 3}
    made = fit(frame, [{"target_encode": op}, {"drop": "clicks"}], view="codes")
    known = frame.clicks.notna()
    fold = made.features.folds
    for f in range(4):
        used = frame[known & (fold != f)]
        reference = TargetEncoder(smooth=smoothing, target_type="continuous").fit(used[["c"]], used.clicks)
        rows = frame[["c"]] if f == 0 else frame.loc[fold == f, ["c"]]
        got = made.serve(frame)["c_target_clicks"] if f == 0 else made.training["c_target_clicks"][fold == f]
        np.testing.assert_allclose(got, reference.transform(rows)[:, 0], rtol=1e-6)
    assert made.serve(frame[["c"]])["c_target_clicks"].tolist() == made.serve(frame)["c_target_clicks"].tolist()


def test_a_pattern_of_several_numbers_is_not_a_target() -> None:
    frame = pd.DataFrame({"city": ["Rome", "Oslo"] * 9, "a1": range(18), "a2": range(18)})
    with pytest.raises(ConfigError, match=r"of: expected one column; 'a\*' matches a1, a2"):
        gp.FeatureProgram([{"target_encode": {"columns": "city", "of": "a*"}}], view="dense").fit(frame)
