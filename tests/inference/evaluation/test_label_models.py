"""Tests of the distributions of unknown targets: the calibration is compared with SciPy, the draws with their rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from gpupipe.inference.evaluation.held_out import HeldOutRows
from gpupipe.inference.evaluation.label_models import ClassLabelModel, NumberLabelModel, fit_beta, fit_labels
from gpupipe.model_parts.goal import Goal
from tests.examples import examples

RANDOM = np.random.default_rng(5)


def _loss(theta: Any, p: Any, y: Any) -> float:
    z = theta[0] * np.log(p) - theta[1] * np.log(1 - p) + theta[2]
    return float(np.sum(np.log1p(np.exp(z)) - y * z) + 0.5 * np.sum((theta - [1, 1, 0]) ** 2))


def test_the_calibration_minimizes_the_loss_and_its_covariance_is_that_of_the_curvature() -> None:
    p = RANDOM.beta(1.5, 4, 3_000)
    y = RANDOM.random(3_000) < p**0.7 * 0.8
    theta, root = fit_beta(p, y)
    found = minimize(_loss, [1, 1, 0], args=(p, y), method="BFGS", options={"gtol": 1e-7})
    assert theta == pytest.approx(found.x, abs=2e-4)
    step, axes = 1e-3, np.eye(3)

    def curvature(a: Any, b: Any) -> float:
        at = [[_loss(theta + step * (s * a + t * b), p, y) * s * t for s in (1, -1)] for t in (1, -1)]
        return float(np.sum(at) / (4 * step**2))

    assert root @ root.T == pytest.approx(
        np.linalg.inv([[curvature(a, b) for a in axes] for b in axes]), rel=0.02, abs=1e-4
    )


@examples(40)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_any_rows_have_a_calibration(rows: list[tuple[float, bool]]) -> None:
    p, y = (np.array(each) for each in zip(*rows, strict=True))
    model = fit_labels(HeldOutRows(p, y.astype(float)), Goal("binary", "y", (0, 1)))
    assert isinstance(model, ClassLabelModel)
    q = model.probabilities(p)
    clipped = p.clip(1e-6, 1 - 1e-6)
    X = np.stack([np.log(clipped), -np.log1p(-clipped), np.ones_like(p)], axis=1)
    assert X.T @ (q - y) + model.means[0] - [1, 1, 0] == pytest.approx([0, 0, 0], abs=1e-3)  # the gradient is zero


def test_drawn_classes_have_the_rates_of_the_known_rows() -> None:
    n, rates = 20_000, np.array([0.5, 0.3, 0.2])
    probability = RANDOM.dirichlet(5 * rates, n)
    skewed = probability * [1.0, 2.0, 0.5]
    y = (RANDOM.random(n)[:, None] >= np.cumsum(skewed / skewed.sum(axis=1, keepdims=True), axis=1)[:, :2]).sum(axis=1)
    model = fit_labels(HeldOutRows(probability, y.astype(float)), Goal("multiclass", "y", ("a", "b", "c")))
    drawn = model.draw(probability, RANDOM)(RANDOM)
    assert np.bincount(drawn.astype(int)) / n == pytest.approx(np.bincount(y) / n, abs=0.02)
    sure = probability[:, 1] > 0.6
    assert (drawn[sure] == 1).mean() == pytest.approx((y[sure] == 1).mean(), abs=0.05)


def test_drawn_numbers_have_the_residuals_of_similar_outputs() -> None:
    value = np.linspace(0, 10, 8_000)
    y = value + np.where(value < 5, 1.0, -3.0) + RANDOM.normal(0, 0.1 + value)
    model = NumberLabelModel.fit(value, y)
    for low, high in ((0, 1), (4.5, 5), (9, 10)):
        rows = np.linspace(low, high, 4_000)
        drawn = model.draw(rows, RANDOM)(RANDOM) - rows
        near = (y - value)[(value >= low) & (value <= high)]
        assert drawn.mean() == pytest.approx(near.mean(), abs=4 * near.std() / len(near) ** 0.5)
        assert drawn.std() == pytest.approx(near.std(), rel=0.15)
    assert np.isfinite(model.draw(np.array([-99.0, 99.0]), RANDOM)(RANDOM)).all()
    assert NumberLabelModel.fit(np.ones(500), np.arange(500.0)).draw(np.ones(3), RANDOM)(RANDOM).shape == (3,)
