from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.inspection import permutation_importance as reference
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.metrics import METRICS, evaluate, permutation_importance
from gpupipe.random_streams import make_generator

HOST = CpuBackend()


@pytest.fixture(scope="module")
def model() -> tuple[Any, Any, Any, list[str]]:
    data = load_diabetes()
    return Ridge(alpha=0.01).fit(data.data, data.target), data.data, data.target, data.feature_names


def _score(y: Any, metric: str = "r2") -> Callable[[Any, slice], float]:
    sign = 1.0 if METRICS.get(metric).greater_is_better else -1.0

    def score(predicted: Any, part: slice) -> float:
        return sign * evaluate("regression", y, predicted[part], [metric], backend=HOST)[metric]

    return score


def _importance(model: Any, groups: dict[str, list[int]], metric: str = "r2", **options: Any) -> list[Any]:
    ridge, X, y, _ = model
    return permutation_importance(ridge.predict, _score(y, metric), X, groups, **options)


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

    whole = permutation_importance(predict, _score(y), twice, {"bmi": [2, 10]}, repeats=20)[0].mean
    assert whole == pytest.approx(_importance(model, {"bmi": [2]}, repeats=20)[0].mean, abs=0.02)


def test_a_metric_that_should_be_small_gives_positive_importances_too(model: Any) -> None:
    assert _importance(model, {"bmi": [2]}, metric="rmse")[0].mean > 0


def test_the_matrix_is_unchanged_and_the_seed_determines_the_result(model: Any) -> None:
    _, X, _, names = model
    before = X.copy()
    groups = {name: [j] for j, name in enumerate(names)}
    first, second = (_importance(model, groups, seed=3) for _ in range(2))
    assert first == second
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(("copies", "n_threads"), [(1, 1), (2, 1), (7, 1), (1_000, 1), (2, 3), (1_000, 3)])
def test_copies_that_are_predicted_together_have_the_importances_of_one_after_the_other(
    model: Any, copies: int, n_threads: int
) -> None:
    ridge, X, y, names = model
    groups, n, sizes = {"sex and age": [1, 0], names[2]: [2], names[8]: [8]}, len(X), []
    before, rng = X.copy(), make_generator(4, "permutation importance")
    expected = {}
    for name, columns in groups.items():
        drops = []
        for _ in range(3):
            shuffled = X.copy()
            shuffled[:, columns] = X[:, columns][rng.permutation(n)]
            drops.append(r2_score(y, ridge.predict(X)) - r2_score(y, ridge.predict(shuffled)))
        expected[name] = np.mean(drops), np.std(drops)

    def predict(stacked: Any) -> Any:
        sizes.append(len(stacked) // n)
        return ridge.predict(stacked)

    found = permutation_importance(
        predict, _score(y), X, groups, seed=4, batch_bytes=copies * X.nbytes, n_threads=n_threads
    )
    assert {each.name: pytest.approx((each.mean, each.std), abs=1e-12) for each in found} == expected
    assert sum(sizes) == 1 + 3 * len(groups)
    assert max(sizes) == min(copies, -(-10 // n_threads))
    np.testing.assert_array_equal(X, before)
