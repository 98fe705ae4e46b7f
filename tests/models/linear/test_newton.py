"""Newton's method in passes, compared with scikit-learn's newton-cholesky on a float64 copy of the matrix."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from gpupipe.backends.threads import limit_threads
from gpupipe.models.convergence import NotConverged
from gpupipe.models.linear.newton import NewtonLogisticRegression
from gpupipe.models.linear.passes import TASK_ROWS

Array = Any
# name → (factors of the columns, offsets of the columns): scaled, raw units, a constant, a copy of the first column
COLUMNS: dict[str, tuple[list[float], list[float]]] = {
    "scaled": ([1, 1, 1, 1], [0, 0, 0, 0]),
    "shifted": ([1, 3, 0.1, 5], [0, 40, -1, 100]),
    "constant": ([1, 1, 0, 1], [0, 0, 1, 0]),
}


def rows(n_classes: int, columns: str = "scaled", n_rows: int = 900, noise: float = 1.0) -> tuple[Array, Array, Array]:
    """Return a matrix, codes of classes, and weights of which a quarter is 0."""
    rng = np.random.default_rng(n_classes)
    plain = rng.normal(size=(n_rows, 4))
    score = plain @ rng.normal(size=(4, n_classes)) + noise * rng.gumbel(size=(n_rows, n_classes))
    factors, offsets = COLUMNS[columns]
    weights = rng.exponential(size=n_rows) * (rng.random(n_rows) > 0.25)
    return np.asfortranarray(plain * factors + offsets, np.float32), score.argmax(axis=1), weights


def loss(model: Any, X: Array, y: Array, C: float) -> float:
    """Return the objective of scikit-learn: the mean log loss plus the penalty."""
    score = X.astype(np.float64) @ model.coef_.T + model.intercept_
    if score.shape[1] == 1:
        score = np.hstack([np.zeros_like(score), score])
    losses = logsumexp(score, axis=1) - score[np.arange(len(y)), y]
    return float(losses.mean() + 0.5 / (C * len(y)) * (model.coef_**2).sum())


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("is_weighted", [True, False])
def test_steps_and_stop_are_those_of_scikit_learn(
    columns: str, n_classes: int, fit_intercept: bool, is_weighted: bool
) -> None:
    X, y, weights = rows(n_classes, columns)
    own = weights if is_weighted else None
    found = NewtonLogisticRegression(0.7, fit_intercept, max_iter=50).fit(X, y, own)
    there = LogisticRegression(C=0.7, fit_intercept=fit_intercept, solver="newton-cholesky", max_iter=50)
    there.fit(X.astype(np.float64), y, own)
    assert found.n_iter_ == there.n_iter_[0]
    np.testing.assert_allclose(found.coef_, there.coef_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.intercept_, there.intercept_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_bits_do_not_depend_on_the_number_of_threads(n_classes: int) -> None:
    X, y, weights = rows(n_classes, n_rows=2 * TASK_ROWS + 77)
    with limit_threads(blas=1):
        one, three = (NewtonLogisticRegression(n_threads=n).fit(X, y, weights) for n in (1, 3))
    assert one.coef_.tobytes() == three.coef_.tobytes()
    assert one.intercept_.tobytes() == three.intercept_.tobytes()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("noise", [1.0, 0.0])
@pytest.mark.parametrize("scale", [1e-6, 1e5])
def test_the_loss_is_not_above_that_of_scikit_learn_on_collinear_columns(
    scale: float, noise: float, n_classes: int
) -> None:
    """scikit-learn's Hessian is ill-conditioned here; its loss after the restart with lbfgs is not lower."""
    X, y, _ = rows(n_classes, noise=noise)
    X = np.asfortranarray(np.hstack([X, X[:, :1] * np.float32(scale), X[:, :1] + X[:, 1:2]]))
    found = NewtonLogisticRegression(100.0, max_iter=100).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there = LogisticRegression(C=100.0, solver="newton-cholesky").fit(X.astype(np.float64), y)
    assert loss(found, X, y, 100.0) <= loss(there, X, y, 100.0) * (1 + 1e-7)


def test_units_of_columns_do_not_matter_without_a_penalty() -> None:
    X, y, _ = rows(2)
    units = np.array([1e5, 1e-5, 1.0, 1.0], np.float32)
    found = NewtonLogisticRegression(1e15).fit(np.asfortranarray(X * units), y)
    there = LogisticRegression(C=1e15, solver="newton-cholesky").fit(X.astype(np.float64), y)
    np.testing.assert_allclose(found.coef_ * units, there.coef_, rtol=0.01, atol=0.01)


def test_a_training_that_ends_early_warns() -> None:
    X, y, _ = rows(2)
    with pytest.warns(NotConverged, match="did not converge in 1 steps"):
        NewtonLogisticRegression(max_iter=1, tol=1e-9).fit(X, y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_refused(value: float) -> None:
    X, y, _ = rows(2)
    X[5, 1] = value
    with pytest.raises(ValueError, match="missing or infinite values"):
        NewtonLogisticRegression().fit(X, y)
