from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model

from gpupipe.models import MODELS, fit


def test_logistic_regression_finds_the_optimum_of_scikit_learn(tables: dict[str, Any]) -> None:
    for task in ("binary", "multiclass"):
        data = tables[task]
        ours = fit(MODELS.get("logistic_regression")(C=0.1), data.X, data.y, data.context).predict(data.X_test)
        reference = linear_model.LogisticRegression(C=0.1, tol=1e-8, max_iter=10_000).fit(data.X.astype("f8"), data.y)
        theirs = reference.predict_proba(data.X_test)
        np.testing.assert_allclose(ours.output, theirs[:, 1] if task == "binary" else theirs, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("linear_regression", linear_model.LinearRegression()),
        ("ridge", linear_model.Ridge()),
        ("lasso", linear_model.Lasso()),
        ("elastic_net", linear_model.ElasticNet()),
    ],
)
def test_a_regressor_finds_the_optimum_of_scikit_learn(name: str, reference: Any, tables: dict[str, Any]) -> None:
    data = tables["regression"]
    ours = fit(MODELS.get(name)(), data.X, data.y, data.context).predict(data.X_test).output
    theirs = reference.fit(data.X.astype("f8"), data.y).predict(data.X_test)
    np.testing.assert_allclose(ours, theirs, rtol=2e-3)


def test_columns_of_unlike_scale_are_not_lost_in_rounding(tables: dict[str, Any]) -> None:
    data = tables["regression"]
    scale = np.logspace(-4, 5, data.X.shape[1], dtype=np.float32)
    plain = fit(MODELS.get("linear_regression")(), data.X, data.y, data.context).predict(data.X_test).output
    X, X_test = np.asfortranarray(data.X * scale), data.X_test * scale
    scaled = fit(MODELS.get("linear_regression")(), X, data.y, data.context).predict(X_test).output
    np.testing.assert_allclose(scaled, plain, rtol=1e-3)


@pytest.mark.parametrize(
    ("params", "n_columns", "solver"),
    [({}, 30, "newton-cholesky"), ({}, 300, "lbfgs"), ({"l1_ratio": 1.0}, 30, "saga"), ({"solver": "sag"}, 30, "sag")],
)
def test_the_solver_is_chosen_by_size_and_penalty(
    params: dict[str, Any], n_columns: int, solver: str, tables: dict[str, Any]
) -> None:
    data = tables["binary"]
    noise = np.random.default_rng(0).normal(size=(len(data.X), 270)).astype(np.float32)
    X = np.asfortranarray(np.hstack([data.X, noise])[:, :n_columns])
    context = replace(data.context, feature_names=())
    model = MODELS.get("logistic_regression")(**params, max_iter=5000)
    assert {**model.estimator_params("binary"), **model.data_params(X, context)}["solver"] == solver
    assert fit(model, X, data.y, context).predict(X).output.shape == (len(X),)


def test_bits_of_lbfgs_do_not_depend_on_the_number_of_threads(tables: dict[str, Any]) -> None:
    context = tables["binary"].context
    rng = np.random.default_rng(5)
    X = np.asfortranarray(rng.normal(size=(3000, 300)), np.float32)
    y = (X[:, :20].sum(axis=1) + rng.logistic(size=3000) > 0).astype(np.float64)
    settings: Any = MODELS.get("logistic_regression")(solver="lbfgs")
    context = replace(context, feature_names=[f"x{i}" for i in range(300)])
    one, two = (fit(settings, X, y, context, n_threads=n).estimator.coef for n in (1, 2))
    np.testing.assert_array_equal(one, two)
