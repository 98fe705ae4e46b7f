"""Closed forms of margins that are sums over the columns, against the definition of Shapley values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from gpupipe.models.linear.contributions import (
    calibrated_coefficients,
    linear_contributions,
    naive_bayes_contributions,
)
from tests.models.conftest import Data
from tests.models.contributions.brute_force import shapley_values


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_linear_contributions_are_shapley_values_and_sum_to_the_scores(task: str, tables: dict[str, Data]) -> None:
    data = tables[task]
    X, background, rows = data.X[:, :5], data.X[:40, :5], data.X_test[:20, :5]
    model = (Ridge() if task == "regression" else LogisticRegression()).fit(X, data.y)
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    values, base = linear_contributions(coef, intercept, rows, background)
    margins = (model.predict if task == "regression" else model.decision_function)(rows.astype(np.float64))
    np.testing.assert_allclose(base + values.sum(axis=2), margins.reshape(len(rows), -1), atol=1e-12 * abs(coef).max())
    expected = shapley_values(lambda X: X @ coef.T + intercept, rows[3].astype(np.float64), background.astype("f8"))
    np.testing.assert_allclose(values[3], expected, atol=1e-12 * abs(coef).max())


def test_values_at_the_limits_of_float32_and_signed_zeros_stay_additive() -> None:
    limit = np.finfo(np.float32).max
    X = np.array([[limit, 1.0, -limit], [-limit, -1.0, -limit], [-0.0, 0.0, 5.0]], np.float32)
    coef, intercept = np.array([[3.0, 0.0, 1e-30], [1e300, 1.0, 1.0]]), np.array([1.0, 2.0])
    values, base = linear_contributions(coef, intercept, X, np.zeros((2, 3), np.float32))
    with np.errstate(over="ignore"):
        margins = X.astype(np.float64) @ coef.T + intercept
    np.testing.assert_allclose(base + values.sum(axis=2), margins)
    assert np.isinf(margins[0, 1])
    assert not np.signbit(values[values == 0.0]).any()


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_naive_bayes_contributions_are_shapley_values_of_the_log_odds(task: str, tables: dict[str, Data]) -> None:
    data = tables[task]
    X, background, rows = (table[:, :4].astype(np.float64) for table in (data.X, data.X[:30], data.X_test))
    model = GaussianNB().fit(X, data.y)
    values, base = naive_bayes_contributions(model.theta_, model.var_, model.class_prior_, rows, background)
    margins = base + values.sum(axis=2)
    probability = softmax(margins, axis=1) if task == "multiclass" else np.hstack([expit(-margins), expit(margins)])
    np.testing.assert_allclose(probability, model.predict_proba(rows), atol=1e-12)

    def log_odds(X: Any) -> Any:
        log = model.predict_log_proba(X)
        return log - log.mean(axis=1, keepdims=True) if task == "multiclass" else log[:, 1:] - log[:, :1]

    np.testing.assert_allclose(values[0], shapley_values(log_odds, rows[0], background), atol=1e-9)
    np.testing.assert_allclose(base, log_odds(background).mean(axis=0), atol=1e-9)


def test_the_log_odds_of_a_calibrated_linear_classifier_are_linear(tables: dict[str, Data]) -> None:
    data = tables["binary"]
    machine = CalibratedClassifierCV(LinearSVC(), method="sigmoid", cv=3, ensemble=False).fit(data.X, data.y)
    values, base = linear_contributions(*calibrated_coefficients(machine), data.X_test, data.X[:50])
    probability = expit(base + values.sum(axis=2))[:, 0]
    np.testing.assert_allclose(probability, machine.predict_proba(data.X_test)[:, 1], atol=1e-12)
