"""Expected gradients of networks, against Riemann sums of float64 networks."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from gpupipe.models import fit
from gpupipe.models.neural import architecture
from gpupipe.models.neural.fitted.contributions import expected_gradients
from gpupipe.models.neural.fitted.pytorch import FittedNeural
from gpupipe.models.neural.fitted.scorer import Served
from gpupipe.models.neural.settings import Mlp
from gpupipe.tasks import Task
from tests.models.conftest import Data
from tests.models.networks import Reference, fitted, rows

PAIRS: tuple[tuple[str, Task], ...] = (
    ("mlp", "binary"),
    ("realmlp", "multiclass"),
    ("tabm", "binary"),
    ("tabm", "multiclass"),
    ("resnet", "multiclass"),
    ("ft_transformer", "regression"),
)


def riemann_sums(model: FittedNeural, x: Any, background: Any, n_points: int = 500) -> Any:
    """Return the attribution of each column to each score of one row, float64, shape (n_outputs, d)."""
    served = copy.deepcopy(model.estimator).double()
    start, end = (torch.from_numpy(Reference(model).tokens(table)) for table in (background, x[None]))
    total = np.zeros((model.estimator.architecture.n_outputs, len(x)))
    for row in start:
        positions = ((torch.arange(n_points) + 0.5) / n_points)[:, None, None].double()
        tokens = (row + positions * (end[0] - row)).requires_grad_()
        for output, score in enumerate(served.score_tokens(tokens).sum(dim=0)):
            (gradient,) = torch.autograd.grad(score, tokens, retain_graph=True)
            total[output] += (gradient.mean(dim=0) * (end[0] - row)).sum(dim=1).numpy()
    return total / len(start)


def margins(model: FittedNeural, X: Any) -> Any:
    score = Reference(model).scores(X)
    return 2_000.0 + 12.5 * score if model.task == "regression" else score


@pytest.mark.parametrize(("kind", "task"), PAIRS)
def test_they_are_the_integrals_and_sum_to_the_margins(kind: str, task: Task) -> None:
    model = fitted(kind, task)
    X, background = rows(model, 10), rows(model, 12, seed=2)
    found = expected_gradients(model.estimator, X, background, most_points=1024)
    unit = 12.5 if task == "regression" else 1.0
    np.testing.assert_allclose(found.base + found.values.sum(axis=2), margins(model, X), atol=1e-5 * unit, rtol=1e-6)
    np.testing.assert_allclose(found.base, margins(model, background).mean(axis=0), atol=1e-5 * unit, rtol=1e-6)
    expected = unit * riemann_sums(model, X[3], background)
    sizes = np.abs(expected).sum(axis=1, keepdims=True)
    assert (np.abs(found.values[3] - expected) / sizes).max() < 0.01
    assert (np.abs(found.residual) < 0.011 * np.abs(found.values).sum(axis=2)).all()


def test_more_points_are_used_where_the_sum_misses_more() -> None:
    model = fitted("tabm", "multiclass")
    X, background = rows(model, 40), rows(model, 6, seed=2)

    def explain(**settings: Any) -> tuple[Any, Any]:
        found = expected_gradients(model.estimator, X, background, **settings)
        np.testing.assert_allclose(found.base + found.values.sum(axis=2), margins(model, X), atol=1e-5)
        return found.residual, (np.abs(found.residual) / np.abs(found.values).sum(axis=2)).max(axis=1)

    once, share = explain(first_points=8, most_points=15)
    limit = np.median(share)
    residual, better = explain(first_points=8, most_points=1024, tolerance=limit)
    assert (better < 1.1 * limit).all()
    np.testing.assert_array_equal(residual[share < 0.9 * limit], once[share < 0.9 * limit])  # computed once


def test_small_batches_and_single_rows_give_the_same_up_to_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted("ft_transformer", "multiclass")
    X, background = rows(model, 5), rows(model, 7, seed=2)
    whole = expected_gradients(model.estimator, X, background, most_points=8)
    for limit in (1, 200_000):
        monkeypatch.setattr(architecture, "BLOCK_BYTES", limit)
        found = expected_gradients(model.estimator, X[1:3], background, most_points=8)
        np.testing.assert_allclose(found.values, whole.values[1:3], atol=1e-5)
        np.testing.assert_allclose(found.base, whole.base, atol=1e-5)
    assert expected_gradients(model.estimator, X[:0], background).values.shape == (0, 3, 5)


@pytest.mark.parametrize(("n_numbers", "cardinalities"), [(0, (4, 9)), (3, ())])
def test_a_column_equal_to_the_background_contributes_nothing(n_numbers: int, cardinalities: tuple[int, ...]) -> None:
    model = fitted("ft_transformer", "binary", n_numbers, cardinalities)
    X, background = rows(model, 8), rows(model, 9, seed=2)
    X[:, 1] = background[:, 1] = 1.0
    found = expected_gradients(model.estimator, X, background)
    assert (found.values[:, :, 1] == 0.0).all() and (found.values[:, :, 0] != 0.0).any()
    same = expected_gradients(model.estimator, X[:1], X[:1])
    assert (same.values == 0.0).all()
    np.testing.assert_allclose(same.base, margins(model, X[:1])[0], atol=1e-5)


def test_quantiles_are_explained_before_they_are_sorted() -> None:
    network = fitted("mlp", "multiclass").estimator.network
    served = Served(network, "quantile", np.array([1.0, 2.0, 3.0]), np.array([0.5, 4.0, 0.1])).eval()
    model = FittedNeural(served, "quantile")
    X, background = rows(model, 50), rows(model, 10, seed=2)
    found = expected_gradients(served, X, background)
    total = found.base + found.values.sum(axis=2)
    assert (np.diff(total, axis=1) < 0.0).any()
    np.testing.assert_allclose(np.sort(total, axis=1), model.predict(X).output, atol=1e-5)


@pytest.mark.parametrize("task", ["regression", "multiclass"])
def test_they_are_additive_for_networks_trained_on_real_tables(task: str, tables: dict[str, Data]) -> None:
    data = tables[task]
    model = fit(Mlp(epochs=12, width=32, depth=2), data.X, data.y, data.context)
    background = data.X[:100]
    with torch.inference_mode():  # as in a caller that only predicts
        found = expected_gradients(model.estimator, data.X_test, background)
    total = found.base + found.values.sum(axis=2)
    predicted = model.predict(data.X_test).output
    if task == "regression":
        np.testing.assert_allclose(total[:, 0], predicted, rtol=1e-6)
    else:
        probability = np.exp(total) / np.exp(total).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(probability, predicted, atol=1e-6)
    assert np.abs(found.residual).max() < 0.011 * np.abs(found.values).sum(axis=2).max()


@pytest.mark.gpu
def test_a_network_on_a_device_gives_the_contributions_of_the_host() -> None:
    model = fitted("ft_transformer", "regression")
    X, background = rows(model, 30), rows(model, 20, seed=2)
    there = expected_gradients(copy.deepcopy(model.estimator).to("cuda"), X, background)
    here = expected_gradients(model.estimator, X, background)
    np.testing.assert_allclose(there.values, here.values, atol=0.02 * np.abs(here.values).sum(axis=2).max())
    np.testing.assert_allclose(there.base + there.values.sum(axis=2), margins(model, X), rtol=1e-6)
