"""Tests of the row weights of a fit: integer weights equal repeated rows, and unweighted models are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gpupipe.backends import choose
from gpupipe.errors import ConfigError
from gpupipe.models import MODELS, FitContext, Prediction, fit
from gpupipe.models.weights import row_weights
from gpupipe.tasks import Task

RNG = np.random.default_rng(2)
N = 300
# Few distinct values, so that the bins of histogram trees do not depend on how often a row occurs.
X = np.asfortranarray(RNG.integers(0, 12, (N, 4)), np.float32)
WEIGHT = RNG.integers(1, 4, N)
SCORE = X[:, 0] - 0.5 * X[:, 1] + RNG.normal(size=N)
TARGETS: dict[Task, Any] = {
    "regression": SCORE,
    "binary": (SCORE > 3).astype(float),
    "multiclass": np.digitize(SCORE, [0, 3, 6]).astype(float),
}
# Without randomness, and without limits that count rows, which weights do not change.
PARAMS: dict[str, dict[str, Any]] = {
    "linear_regression": {},
    "ridge": {"alpha": 3.0},
    "lasso": {"alpha": 0.1, "tol": 1e-10},
    "elastic_net": {"alpha": 0.1, "tol": 1e-10},
    "logistic_regression": {"C": 0.1, "tol": 1e-10, "max_iter": 10_000},
    "gaussian_nb": {},
    "random_forest": {"n_estimators": 1, "bootstrap": False, "max_features": 1.0, "max_depth": 4},
    "hist_gradient_boosting": {"max_iter": 20, "min_samples_leaf": 1, "early_stopping": False},
    "xgboost": {"n_estimators": 20, "max_depth": 3},
    "lightgbm": {"n_estimators": 5, "min_child_samples": 1, "min_child_weight": 0.0, "num_leaves": 5},
    "catboost": {
        "iterations": 20, "learning_rate": 0.1, "l2_leaf_reg": 0.0, "bootstrap_type": "No", "random_strength": 0.0,
        "boosting_type": "Plain",
    },
}  # fmt: skip
CASES = [(name, task) for name in PARAMS for task in sorted(MODELS.get(name).tasks) if task in TARGETS]


def context(task: Task, weights: Any = None) -> FitContext:
    n_classes = {"binary": 2, "multiclass": 4}.get(task, 0)
    return FitContext(choose("cpu"), task, seed=0, n_classes=n_classes, weights=weights)


def predicted(name: str, task: Task, rows: Any, weights: Any = None, **more: Any) -> Any:
    params = PARAMS.get(name, {}) | more
    y = TARGETS[task][rows]
    found: Prediction = fit(MODELS.get(name)(**params), X[rows], y, context(task, weights)).predict(X)
    return found.output


@pytest.mark.parametrize(("name", "task"), CASES)
def test_integer_weights_equal_repeated_rows(name: str, task: Task) -> None:
    weighted = predicted(name, task, np.arange(N), WEIGHT.astype(float))
    repeated = predicted(name, task, np.arange(N).repeat(WEIGHT))
    np.testing.assert_allclose(weighted, repeated, rtol=1e-4, atol=1e-4)
    assert np.abs(weighted - predicted(name, task, np.arange(N))).max() > 1e-3  # without weights, it is another model


@pytest.mark.parametrize(("name", "task"), [("xgboost", "binary"), ("logistic_regression", "multiclass")])
def test_class_weights_count_repeated_rows(name: str, task: Task) -> None:
    weighted = predicted(name, task, np.arange(N), WEIGHT.astype(float), class_weight="balanced")
    repeated = predicted(name, task, np.arange(N).repeat(WEIGHT), class_weight="balanced")
    np.testing.assert_allclose(weighted, repeated, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["hist_gradient_boosting", "xgboost", "lightgbm", "catboost", "mlp"])
def test_early_stopping_measures_weighted_rows(name: str) -> None:
    """Rows of almost no weight have a random target: stopping by them would end the training at once."""
    rng = np.random.default_rng(0)
    rows = np.asfortranarray(rng.normal(size=(1_000, 3)), np.float32)
    is_noise = rng.random(1_000) < 0.7
    y = np.where(is_noise, rng.normal(size=1_000) * 20, 3 * rows[:, 0] + rows[:, 1])
    weights = np.where(is_noise, 1e-9, 1.0)
    settings = MODELS.get(name)(**({"early_stopping": True} if name == "hist_gradient_boosting" else {}))
    found = fit(settings.for_task("regression"), rows, y, context("regression", weights)).predict(rows).output
    error = (found - (3 * rows[:, 0] + rows[:, 1]))[~is_noise]
    assert error.std() < 0.6


def test_rows_of_little_weight_do_not_move_a_network(tmp_path: Path) -> None:
    y = TARGETS["regression"].copy()
    y[::3] += 1_000
    weights = np.where(np.arange(N) % 3 == 0, 1e-9, 1.0)
    settings = MODELS.get("mlp")(batch_size=64, learning_rate=3e-3)
    found = fit(settings, X, y, context("regression", weights)).predict(X).output
    assert np.abs(found - SCORE)[np.arange(N) % 3 != 0].mean() < 5


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    y = TARGETS["multiclass"].astype(int)
    ours = predicted("logistic_regression", "multiclass", np.arange(N), WEIGHT.astype(float), class_weight="balanced")
    total = np.bincount(y, weights=WEIGHT)
    by_hand = WEIGHT * (WEIGHT.sum() / (4 * total))[y]
    found = row_weights(y, "balanced", [], 4, WEIGHT.astype(float))
    assert found is not None
    np.testing.assert_allclose(found, by_hand)
    theirs = LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000).fit(X.astype(float), y, sample_weight=by_hand)
    np.testing.assert_allclose(ours, theirs.predict_proba(X.astype(float)), atol=1e-4)


@pytest.mark.parametrize("name", ["knn"])
def test_a_model_without_weights_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=r"KNN takes no sample weights") as raised:
        predicted(name, "binary", np.arange(N), WEIGHT.astype(float))
    assert raised.value.fix == "remove the model, or source.weight"


def test_an_estimator_of_the_user_must_take_weights(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from sklearn.neighbors import KNeighborsClassifier\ndef make():\n    return KNeighborsClassifier()\n"
    )
    settings = MODELS.get("estimator")(use=f"{path}:make")
    with pytest.raises(ConfigError, match="KNeighborsClassifier takes no sample weights"):
        fit(settings, X, TARGETS["binary"], context("binary", WEIGHT.astype(float)))


def test_the_context_of_some_rows_has_their_weights() -> None:
    found = context("binary", WEIGHT).of_rows(np.array([5, 2]))
    assert found.weights is not None
    assert found.weights.tolist() == [WEIGHT[5], WEIGHT[2]]
    assert context("binary").of_rows(np.array([5, 2])).weights is None
