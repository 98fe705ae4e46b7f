"""Linear models fitted partition by partition: they reach scikit-learn's minimum."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from sklearn.linear_model import Ridge as SklearnRidge

from gpupipe.backends import Backend
from gpupipe.models import FitContext, ModelSettings, fit
from gpupipe.models.linear.settings import ElasticNet, Lasso, LinearRegression, LogisticRegression, Ridge
from gpupipe.partitions.linear import can_fit_in_passes, fit_in_passes
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.workers import Workers
from tests.nightly import nightly_unless

Array = Any
NAMES = [f"x{i}" for i in range(6)]
CUTS = [0, 700, 700, 1900, 3000]  # one partition is empty


@pytest.fixture(scope="module")
def X() -> Array:
    """Return 3,000 rows by 6 columns, of unlike scale, one of them constant."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(3000, 6)) * [1.0, 5.0, 0.2, 1.0, 1.0, 0.0] + [0.0, 3.0, 0.0, -1.0, 0.0, 1.0]
    return np.asfortranarray(rows, np.float32)


def in_parts(X: Array, workers: Workers) -> PartitionedMatrix:
    parts = [X[a:b] for a, b in pairwise(CUTS)]
    handles = tuple(workers.put(np.asfortranarray(part)) for part in parts)
    return PartitionedMatrix(handles, workers, tuple(map(len, parts)), X.shape[1])


def fitted(
    model: ModelSettings,
    X: Array,
    y: Array,
    backend: Backend,
    workers: Workers,
    n_classes: int,
    weights: Array | None = None,
) -> Any:
    task: Any = "regression" if not n_classes else "binary" if n_classes == 2 else "multiclass"
    context = FitContext(backend, task, 0, n_classes, {}, NAMES, weights=weights)
    assert can_fit_in_passes(model, X.shape[1], context)
    return fit_in_passes(model, in_parts(X, workers), y, context)


def target(X: Array, n_classes: int) -> Array:
    rng = np.random.default_rng(8)
    scores = X[:, :3] @ rng.normal(size=(3, n_classes)) + rng.gumbel(size=(len(X), n_classes))
    return scores.argmax(axis=1).astype(np.float64)


@pytest.mark.parametrize(
    ("settings", "n_classes"),
    nightly_unless(
        lambda settings, n_classes: n_classes == (2 if "C" in settings or "fit_intercept" in settings else 4),
        product([{}, {"C": 0.01}, {"class_weight": "balanced"}, {"fit_intercept": False}], (2, 4)),
    ),
)
def test_a_logistic_regression_reaches_the_minimum_of_scikit_learn(
    X: Array, backend: Backend, workers: Workers, n_classes: int, settings: dict[str, Any]
) -> None:
    settings = dict(settings)
    y, weights = target(X, n_classes), np.random.default_rng(9).exponential(size=len(X))
    found = fitted(LogisticRegression(tol=1e-7, **settings), X, y, backend, workers, n_classes, weights).estimator
    if settings.pop("class_weight", None) is not None:
        weights *= (weights.sum() / (n_classes * np.bincount(y.astype(int), weights)))[y.astype(int)]
    there = SklearnLogistic(solver="newton-cholesky", tol=1e-10, **settings).fit(X.astype(np.float64), y, weights)
    np.testing.assert_allclose(found.coef, there.coef_, atol=1e-7)
    np.testing.assert_allclose(found.intercept, there.intercept_ * np.ones(len(found.intercept)), atol=1e-7)


@pytest.mark.parametrize("settings", [{}, {"alpha": 250.0}, {"fit_intercept": False}])
def test_a_ridge_has_the_coefficients_of_scikit_learn(
    X: Array, backend: Backend, workers: Workers, settings: dict[str, Any]
) -> None:
    y = X[:, 0] * 2.0 - X[:, 1] + 1e4 + np.random.default_rng(3).normal(size=len(X))
    weights = np.random.default_rng(9).exponential(size=len(X))
    found = fitted(Ridge(**settings), X, y, backend, workers, 0, weights).estimator
    there = SklearnRidge(solver="cholesky", **settings).fit(X.astype(np.float64), y, weights)
    np.testing.assert_allclose(found.coef[0], there.coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.intercept, there.intercept_, rtol=1e-10, atol=1e-8)


def test_unsupported_linear_models_are_not_fitted_in_passes(backend: Backend) -> None:
    context = FitContext(backend, "binary", 0, 2, {}, NAMES)
    for model in (LogisticRegression(l1_ratio=0.5), LogisticRegression(solver="liblinear"), Ridge(solver="sag")):
        assert not can_fit_in_passes(model, 6, context)
    assert not can_fit_in_passes(LogisticRegression(), 5_000, context)  # its Hessian is too large


def test_a_model_that_does_not_converge_is_reported(X: Array, backend: Backend, workers: Workers) -> None:
    found = fitted(LogisticRegression(max_iter=1, tol=1e-9), X, target(X, 2), backend, workers, 2)
    assert any("did not converge in 1 iteration: raise max_iter" in note for note in found.notes)


@pytest.mark.parametrize("model", [LinearRegression(), LinearRegression(positive=True), Lasso(), ElasticNet(alpha=0.1)])
def test_a_regressor_has_the_coefficients_of_one_in_memory(
    X: Array, backend: Backend, workers: Workers, model: ModelSettings
) -> None:
    y = X[:, 0] * 2.0 + X[:, 1] + 100.0 + np.random.default_rng(3).normal(size=len(X))
    weights = np.random.default_rng(9).exponential(size=len(X))
    found = fitted(model, X, y, backend, workers, 0, weights).estimator
    there = fit(model, X, y, FitContext(backend, "regression", 0, 0, {}, NAMES, weights=weights)).estimator
    np.testing.assert_allclose(found.coef, there.coef, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.intercept, there.intercept, rtol=1e-9)
