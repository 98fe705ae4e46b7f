from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.inspection import permutation_importance as reference
from sklearn.linear_model import Ridge

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.metrics import METRICS, evaluate, permutation_importance

HOST = CpuBackend()


@pytest.fixture(scope="module")
def model() -> tuple[Any, Any, Any, list[str]]:
    data = load_diabetes()
    return Ridge(alpha=0.01).fit(data.data, data.target), data.data, data.target, data.feature_names


def _score(y: Any, predict: Callable[[Any], Any], metric: str = "r2") -> Callable[[Any, Any], float]:
    sign = 1.0 if METRICS.get(metric).greater_is_better else -1.0

    def score(Z: Any, rows: Any) -> float:
        return sign * evaluate("regression", y[rows], predict(Z), [metric], backend=HOST)[metric]

    return score


def _importance(model: Any, groups: dict[str, list[int]], metric: str = "r2", **options: Any) -> list[Any]:
    ridge, X, y, _ = model
    return permutation_importance(_score(y, ridge.predict, metric), X, groups, **options)


def test_it_matches_scikit_learn(model: Any) -> None:
    ridge, X, y, names = model
    ours = _importance(model, {name: [j] for j, name in enumerate(names)}, repeats=30)
    theirs = dict(zip(names, reference(ridge, X, y, n_repeats=30, random_state=0).importances_mean, strict=True))
    for found in ours:
        assert found.mean == pytest.approx(theirs[found.name], abs=0.02)
    assert [found.mean for found in ours] == sorted((found.mean for found in ours), reverse=True)


def test_columns_of_one_input_are_shuffled_together(model: Any) -> None:
    ridge, X, y, _ = model
    twice = np.hstack([X, X[:, [2]]])
    halved = np.append(ridge.coef_, ridge.coef_[2] / 2)
    halved[2] /= 2  # the weight of column 2 is spread over it and its copy

    def predict(Z: Any) -> Any:
        return Z @ halved + ridge.intercept_

    whole = permutation_importance(_score(y, predict), twice, {"bmi": [2, 10]}, repeats=20)[0].mean
    assert whole == pytest.approx(_importance(model, {"bmi": [2]}, repeats=20)[0].mean, abs=0.02)


def test_a_metric_that_should_be_small_gives_positive_importances_too(model: Any) -> None:
    assert _importance(model, {"bmi": [2]}, metric="rmse")[0].mean > 0


def test_the_matrix_is_unchanged_and_the_seed_determines_the_result(model: Any) -> None:
    _, X, _, names = model
    before = X.copy()
    groups = {name: [j] for j, name in enumerate(names)}
    first, second = (_importance(model, groups, rows=200, seed=3) for _ in range(2))
    assert first == second
    np.testing.assert_array_equal(X, before)


def test_no_more_rows_are_predicted_than_allowed(model: Any) -> None:
    ridge, X, y, _ = model
    seen = []

    def predict(Z: Any) -> Any:
        seen.append(len(Z))
        return ridge.predict(Z)

    permutation_importance(_score(y, predict), X, {"bmi": [2]}, rows=50, repeats=2)
    assert seen == [50, 50, 50]
