"""Regressors fitted on a triangular factor, compared with scikit-learn's on a float64 copy of the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.base import clone

from gpupipe.backends.threads import limit_threads
from gpupipe.models import fit
from gpupipe.models.context import FitContext
from gpupipe.models.linear import settings
from gpupipe.models.linear.least_squares import ReducedLeastSquares
from gpupipe.models.linear.passes import TASK_ROWS

Array = Any
ESTIMATORS: dict[str, tuple[Any, settings.LinearSettings]] = {
    "linear_regression": (linear_model.LinearRegression(tol=1e-10), settings.LinearRegression()),
    "non-negative": (linear_model.LinearRegression(positive=True), settings.LinearRegression(positive=True)),
    "ridge": (linear_model.Ridge(), settings.Ridge()),
    "ridge, svd": (linear_model.Ridge(solver="svd"), settings.Ridge(solver="svd")),
    "ridge, non-negative": (linear_model.Ridge(positive=True), settings.Ridge(positive=True)),
    "lasso": (linear_model.Lasso(0.05, precompute=True, max_iter=50_000), settings.Lasso(alpha=0.05, max_iter=50_000)),
    "lasso, rows": (
        linear_model.Lasso(0.05, max_iter=50_000),
        settings.Lasso(alpha=0.05, precompute=False, max_iter=50_000),
    ),
    "elastic_net": (linear_model.ElasticNet(0.05, precompute=True), settings.ElasticNet(alpha=0.05)),
}


def rows(n_rows: int = 500) -> tuple[Array, Array, Array]:
    """Return a matrix of unlike scales and means with collinear columns, a target, and weights of which some are 0."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n_rows, 6)) * [1.0, 20.0, 0.1, 1.0, 1.0, 0.0] + [0.0, 300.0, 0.0, -1.0, 0.0, 1.0]
    X[:, 4] = X[:, 0] - 2 * X[:, 3]
    y = X @ [1.0, -0.1, 3.0, 0.5, 0.0, 2.0] + rng.normal(size=n_rows) + 50.0
    return np.asfortranarray(X, np.float32), y, rng.exponential(size=n_rows) * (rng.random(n_rows) > 0.25)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("is_weighted", [True, False])
def test_predictions_are_those_of_scikit_learn(name: str, fit_intercept: bool, is_weighted: bool, backend: Any) -> None:
    X, y, weights = rows()
    own = weights if is_weighted else None
    estimator, model = ESTIMATORS[name]
    there = clone(estimator).set_params(fit_intercept=fit_intercept).fit(X.astype(np.float64), y, own)
    context = FitContext(backend, "regression", 0, weights=own)
    found = fit(model.model_copy(update={"fit_intercept": fit_intercept}), X, y, context)
    np.testing.assert_allclose(found.predict(X).output, there.predict(X.astype(np.float64)), rtol=1e-6)


def test_fewer_rows_than_columns_have_the_solution_of_least_norm() -> None:
    X, y, _ = rows(4)
    found = ReducedLeastSquares(linear_model.LinearRegression(fit_intercept=False)).fit(X, y)
    there = linear_model.LinearRegression().fit(X.astype(np.float64), y)
    np.testing.assert_allclose(found.coef_, there.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("takes_products", [True, False])
def test_bits_do_not_depend_on_the_number_of_threads(takes_products: bool) -> None:
    X, y, weights = rows(2 * TASK_ROWS + 77)

    def trained(n_threads: int) -> Any:
        ridge = linear_model.Ridge(fit_intercept=False)
        return ReducedLeastSquares(ridge, takes_products=takes_products, n_threads=n_threads).fit(X, y, weights)

    with limit_threads(blas=1):
        assert trained(1).coef_.tobytes() == trained(3).coef_.tobytes()


@pytest.mark.parametrize("takes_products", [True, False])
def test_a_value_that_is_not_finite_is_refused(takes_products: bool) -> None:
    X, y, _ = rows()
    X[5, 1] = np.inf
    with pytest.raises(ValueError, match="missing or infinite values"):
        ReducedLeastSquares(linear_model.Ridge(fit_intercept=False), takes_products=takes_products).fit(X, y)
