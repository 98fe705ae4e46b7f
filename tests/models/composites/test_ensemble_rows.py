"""Rows of ensembles, compared with whole batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.models.composites.ensembles import ensemble_of, fit_member
from tests.models.conftest import Data
from tests.models.fitted.row_checks import check_rows, with_special

CODES = 4  # a column of category codes


def context_of(data: Data) -> tuple[Any, tuple[Any, Any]]:
    """Return the context and the rows of a table whose last column has been replaced by codes."""
    X = data.X.copy(order="F")
    X[:, -1] = np.digitize(X[:, -1], [-1, 0, 1])
    return replace(data.context, categorical={X.shape[1] - 1: CODES}), (X, data.y)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_a_row_equals_the_batch(task: str, tables: dict[str, Data]) -> None:
    context, rows = context_of(tables[task])
    last = rows[0].shape[1] - 1
    linear = "ridge" if task == "regression" else "logistic_regression"
    poisson = {"objective": "reg:pseudohubererror"} if task == "regression" else {"booster": "dart"}
    members = [
        fit_member("a", "xgboost", 0.4, (5, 2, last), rows, context, 3, n_estimators=6),
        fit_member("b", linear, 0.25, (1, 2, 3), rows, context, 2),
        fit_member("c", "xgboost", 0.15, (last, 0, 1, 5), rows, context, 2, n_estimators=4, max_depth=2, **poisson),
        fit_member("d", linear, 0.1, (1, 2, 3), rows, context, 1),
        fit_member("e", "random_forest", 0.06, (4, last), rows, context, 1, n_estimators=3),
        fit_member("f", "knn", 0.03, (3, 4), rows, context, 1),
        fit_member("g", "lightgbm", 0.01, (last, 2, 4), rows, context, 2, n_estimators=4, min_child_samples=5),
    ]
    ensemble = ensemble_of(members, context)
    rng = np.random.default_rng(5)
    X = tables[task].X_test.copy(order="F")
    X[:, -1] = rng.integers(-1, CODES + 1, len(X))
    names = "ensemble of compiled trees (8), compiled dot product (3), neighbors in NumPy (1)"
    assert check_rows(ensemble, X) == names

    trees = replace(ensemble, estimator=tuple(replace(members[i], weight=1 / 3) for i in (0, 6, 2)))
    assert check_rows(trees, with_special(rng, X)) == "ensemble of compiled trees (7)"


def test_a_model_that_lacks_a_class_is_walked_by_itself(tables: dict[str, Data]) -> None:
    data = tables["multiclass"]
    known = data.y != 1
    members = [
        fit_member("two", "xgboost", 0.5, range(4), (data.X[known], data.y[known]), data.context, n_estimators=3),
        fit_member("three", "xgboost", 0.5, range(4), (data.X, data.y), data.context, n_estimators=3),
    ]
    assert check_rows(ensemble_of(members, data.context), data.X_test) == "ensemble of compiled trees (4)"


def test_one_model_has_its_own_digits(tables: dict[str, Data]) -> None:
    data = tables["binary"]
    member = fit_member(
        "one", "xgboost", 1.0, range(data.X.shape[1]), (data.X, data.y), data.context, 1, n_estimators=5
    )
    ensemble = ensemble_of([member], data.context)
    np.testing.assert_array_equal(ensemble.predict(data.X_test).output, member.models[0].predict(data.X_test).output)
    check_rows(ensemble, data.X_test)
