"""Tests of conformal intervals and sets, compared with MAPIE."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mapie.classification import SplitConformalClassifier
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, QuantileRegressor, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpupipe.errors import DataError
from gpupipe.metrics.conformal import Conformal, fit_conformal, require_rows, set_scores

LEVELS = [0.8, 0.9, 0.95]


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_equal_those_of_mapie(level: float) -> None:
    X, y = load_diabetes(return_X_y=True)
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.6, random_state=0)
    model = Ridge(alpha=0.1).fit(X_train, y_train)
    theirs = SplitConformalRegressor(model, confidence_level=level, prefit=True).conformalize(
        X_rest[:150], y_rest[:150]
    )
    _, expected = theirs.predict_interval(X_rest[150:])
    ours = fit_conformal(level, y_rest[:150], model.predict(X_rest[:150]))
    found = np.column_stack(ours.interval(model.predict(X_rest[150:])))
    np.testing.assert_allclose(found, expected[:, :, 0], rtol=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_of_quantiles_equal_those_of_mapie(level: float) -> None:
    X, y = load_diabetes(return_X_y=True)
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.6, random_state=0)
    levels = [0.5 - level / 2, 0.5 + level / 2, 0.5]  # the order that MAPIE expects
    models = [QuantileRegressor(quantile=q, alpha=0.01).fit(X_train, y_train) for q in levels]
    theirs = ConformalizedQuantileRegressor(models, level, prefit=True).conformalize(X_rest[:150], y_rest[:150])
    _, expected = theirs.predict_interval(X_rest[150:], symmetric_correction=True)
    quantiles = np.column_stack([models[i].predict(X_rest) for i in (0, 2, 1)])
    ours = fit_conformal(level, y_rest[:150], quantiles[:150], ends=(0, 2))
    found = np.column_stack(ours.interval(quantiles[150:]))
    np.testing.assert_allclose(found, expected[:, :, 0], rtol=1e-12)


def test_quantiles_that_are_too_far_apart_move_together_and_never_cross() -> None:
    y = np.random.default_rng(2).normal(size=500)
    wide = np.column_stack([np.full(500, -9.0), np.zeros(500), np.full(500, 9.0)])
    ours = fit_conformal(0.9, y, wide, ends=(0, 2))
    low, high = ours.interval(wide)
    assert isinstance(ours.score, float) and ours.score < 0
    assert ((low <= y) & (y <= high)).mean() == pytest.approx(0.9, abs=0.005)
    narrow = np.column_stack([y, y, y])
    low, high = ours.interval(narrow)
    np.testing.assert_array_equal(low, y)
    np.testing.assert_array_equal(high, y)


@pytest.mark.parametrize("load", [load_wine, load_digits], ids=lambda load: load.__name__)
def test_sets_cover_like_those_of_mapie_and_are_not_larger(load: Any) -> None:
    X, y = load(return_X_y=True)
    found: dict[str, list[float]] = {"coverage": [], "size": [], "coverage of MAPIE": [], "size of MAPIE": []}
    for seed in range(20):
        X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.7, random_state=seed, stratify=y)
        half = len(y_rest) // 2
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01)).fit(X_train, y_train)
        ours = fit_conformal(0.9, y_rest[:half], model.predict_proba(X_rest[:half]))
        members = ours.members(model.predict_proba(X_rest[half:]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = SplitConformalClassifier(model, 0.9, prefit=True, conformity_score="aps", random_state=seed)
            theirs.conformalize(X_rest[:half], y_rest[:half])
            options = {"include_last_label": "randomized"}
            _, expected = theirs.predict_set(X_rest[half:], conformity_score_params=options)
        for name, sets in (("", members), (" of MAPIE", expected[:, :, 0])):
            found[f"coverage{name}"].append(sets[np.arange(len(sets)), y_rest[half:]].mean())
            found[f"size{name}"].append(sets.sum(axis=1).mean())
    means = {name: np.mean(values) for name, values in found.items()}
    assert means["coverage"] == pytest.approx(0.9, abs=0.015), means
    assert means["size"] <= 1.02 * means["size of MAPIE"], means


def test_a_binary_set_treats_both_classes_alike() -> None:
    probability = np.random.default_rng(1).random(200)
    scores = set_scores(probability)
    np.testing.assert_array_equal(scores, set_scores(np.column_stack([1 - probability, probability])))
    more_probable = np.where(probability > 0.5, scores[:, 1], scores[:, 0])
    np.testing.assert_array_less(more_probable, np.where(probability > 0.5, scores[:, 0], scores[:, 1]))


@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_scores_are_sums_of_more_probable_classes_and_a_part_of_the_class(n_classes: int, seed: int) -> None:
    probability = np.random.default_rng(seed).dirichlet(np.ones(n_classes), 5)
    for row, scores in zip(probability, set_scores(probability), strict=True):
        for code in range(n_classes):
            above = row[row > row[code]].sum()
            assert above - 1e-12 <= scores[code] <= above + row[code] + 1e-12
    np.testing.assert_array_equal(set_scores(probability[::-1])[::-1], set_scores(probability))


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_whole_weights_are_repeated_rows(level: float) -> None:
    rng = np.random.default_rng(3)
    for n in range(9, 60):
        y, weight = rng.normal(size=n), rng.integers(1, 5, n)
        repeated = fit_conformal(level, y.repeat(weight), np.zeros(weight.sum()))
        assert fit_conformal(level, y, np.zeros(n), weight.astype(float)) == repeated
        plain = fit_conformal(level, y, np.zeros(n))
        assert plain == fit_conformal(level, y, np.zeros(n), np.ones(n))
        assert plain == fit_conformal(level, y, np.zeros(n), np.full(n, 0.3))


def test_weights_choose_the_weighted_quantile() -> None:
    rng = np.random.default_rng(0)
    y, weight = rng.normal(size=5_000), rng.choice([1.0, 20.0], 5_000)
    output = np.where(weight > 1, y + 3, y)  # heavy rows have an error of 3
    assert fit_conformal(0.4, y, output, weight).score == pytest.approx(3)
    assert fit_conformal(0.4, y, output).score == pytest.approx(0)
    even, plain = (fit_conformal(0.9, y, 2 * y, weights) for weights in (np.full(5_000, 0.01), None))
    assert even.score == plain.score


@pytest.mark.parametrize(("level", "n_rows"), [(0.8, 4), (0.9, 9), (0.95, 19), (0.99, 99)])
def test_too_few_rows_are_refused_with_the_number_that_is_enough(level: float, n_rows: int) -> None:
    require_rows(level, n_rows)
    with pytest.raises(DataError, match=f"{n_rows - 1} held-out rows are too few.*at least {n_rows}"):
        require_rows(level, n_rows - 1)


def test_json_gives_back_the_same_intervals() -> None:
    found = fit_conformal(0.9, np.arange(50.0), np.zeros(50))
    assert Conformal.from_json(found.to_json()) == found
