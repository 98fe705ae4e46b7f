"""Shapley values from predictions of mixed rows, against their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

from gpupipe.models.contributions import permutations
from gpupipe.models.contributions.permutations import OutputExplainer, sampled_contributions
from tests.examples import examples
from tests.models.conftest import Data
from tests.models.contributions.brute_force import shapley_values


def interactions(X: Any) -> Any:
    """Return two predictions with interactions, a step, and a column that counts if it is missing."""
    X = X.astype(np.float64)
    known = np.nan_to_num(X, nan=-2.0)
    first = known[:, 0] * known[:, 1] * known[:, -1] + np.isnan(X[:, 2])
    return np.column_stack([first, (known.sum(axis=1) > 1.0) * known[:, 2]])


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, Any, list[list[int]]]:
    n_columns = draw(st.integers(3, 7))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    X, background = (rng.integers(-2, 3, (n, n_columns)).astype(np.float32) for n in (2, draw(st.integers(1, 4))))
    X[rng.random(X.shape) < 0.1] = np.nan
    player = draw(st.lists(st.integers(0, 4), min_size=n_columns, max_size=n_columns))
    groups = [[j for j in range(n_columns) if player[j] == k] for k in sorted(set(player))]
    return X, background, groups


@examples(40)
@given(problem=problems())
def test_few_players_get_the_values_of_the_definition(problem: tuple[Any, Any, list[list[int]]]) -> None:
    X, background, groups = problem
    values, base, error = sampled_contributions(interactions, X, background, groups)
    for x, found in zip(X, values, strict=True):
        np.testing.assert_allclose(found, shapley_values(interactions, x, background, groups), atol=1e-12)
    np.testing.assert_allclose(base, interactions(background).mean(axis=0))
    assert (error == 0.0).all()


@pytest.fixture(scope="module")
def neighbors(tables: dict[str, Data]) -> tuple[Any, Any, Any]:
    """Return the probability of class 1 by neighbors in 8 columns of breast cancer, 24 rows and 20 background rows."""
    data = tables["binary"]
    model = KNeighborsClassifier(15).fit(data.X[:, :8], data.y)
    return lambda X: model.predict_proba(X)[:, 1:], data.X_test[:24, :8], data.X[:20, :8]


@pytest.mark.parametrize("n_permutations", [1, 4])
def test_sampled_values_are_additive_and_as_near_as_their_standard_error(
    n_permutations: int, neighbors: tuple[Any, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    predict, X, background = neighbors
    values, base, error = sampled_contributions(predict, X, background, n_permutations=n_permutations, seed=1)
    np.testing.assert_allclose(base + values.sum(axis=2), predict(X), atol=1e-12)
    np.testing.assert_allclose(base, predict(background).mean(axis=0), atol=1e-12)
    # Enumeration, which the test above compares with the definition, is exact for 8 players too.
    monkeypatch.setattr(permutations, "MOST_EXACT_PLAYERS", 8)
    exact = sampled_contributions(predict, X, background).values
    ratio = np.sqrt(((values - exact) ** 2).mean() / (error**2).mean())
    assert (0.4 if n_permutations == 1 else 0.7) < ratio < 1.3
    assert (error > 0.0).any() and error.max() < 0.1


def test_a_row_is_explained_the_same_alone_in_small_batches_and_in_groups_of_one(
    neighbors: tuple[Any, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    predict, X, background = neighbors
    together = sampled_contributions(predict, X, background, seed=1)
    alone = sampled_contributions(predict, X[7:8], background, [[j] for j in range(8)], seed=1)
    np.testing.assert_array_equal(alone.values[0], together.values[7])
    monkeypatch.setattr(permutations, "BATCH_BYTES", 4096)
    batches = sampled_contributions(predict, X[5:9], background, seed=1)
    np.testing.assert_array_equal(batches.values, together.values[5:9])
    np.testing.assert_array_equal(batches.standard_error, together.standard_error[5:9])
    assert sampled_contributions(predict, X[:0], background).values.shape == (0, 1, 8)


@pytest.mark.parametrize(("n_columns", "n_mixed"), [(1, 0), (7, 126), (8, 3 * 2 * 7)])
def test_as_many_rows_are_predicted_as_stated(n_columns: int, n_mixed: int) -> None:
    heights = []

    def predict(X: Any) -> Any:
        heights.append(len(X))
        return X.sum(axis=1, keepdims=True).astype(np.float64)

    X = np.arange(4 * n_columns, dtype=np.float32).reshape(4, n_columns)
    found = sampled_contributions(predict, X, X[:2] + 0.5, n_permutations=3)
    assert sum(heights) == 4 * 2 * n_mixed + 4 + 2
    np.testing.assert_allclose(found.values[:, 0], X - (X[:2] + 0.5).mean(axis=0), atol=1e-12)  # of a sum
    heights.clear()
    explainer = OutputExplainer(predict, X[:2] + 0.5, "score", 1, seconds=1.0)
    explainer.contributions(X[:1])
    assert explainer.row_seconds == sum(heights) - 2 - 1  # without the background and the row itself


def test_one_permutation_and_its_reverse_are_exact_for_interactions_of_two_columns() -> None:
    X, background = np.random.default_rng(0).normal(size=(2, 10, 10)).astype(np.float32)

    def products(X: Any) -> Any:
        return (X[:, :5].astype(np.float64) * X[:, 5:]).sum(axis=1, keepdims=True)

    found = sampled_contributions(products, X, background)
    x, b = X[:, None].astype(np.float64), background.astype(np.float64)
    expected = ((x - b) * np.roll(x + b, 5, axis=2) / 2.0).mean(axis=1)
    np.testing.assert_allclose(found.values[:, 0], expected, atol=1e-12)


@pytest.mark.parametrize("groups", [[[0], [1]], [[0, 1], [1, 2]], [[0, 1, 2], []], [[0], [1], [3]]], ids=str)
def test_a_column_outside_all_groups_or_in_two_is_refused(groups: list[list[int]]) -> None:
    X = np.zeros((1, 3), np.float32)
    with pytest.raises(ValueError):
        sampled_contributions(lambda X: X[:, :1], X, X, groups)


def test_one_background_row_and_one_permutation_have_no_standard_error() -> None:
    X = np.random.default_rng(0).normal(size=(2, 9)).astype(np.float32)
    found = sampled_contributions(lambda X: X.prod(axis=1, keepdims=True, dtype=np.float64), X, X[:1])
    assert np.isnan(found.standard_error).all() and not np.isnan(found.values).any()
