"""Greedy selection of ensemble weights, against a search of all weights."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gpupipe.training.ensemble.weights import select_weights

RNG = np.random.default_rng(0)
Y = RNG.normal(size=200)


def negative_mse(predicted):
    return -float(((predicted - Y) ** 2).mean())


def noisy(scale):
    return Y + RNG.normal(scale=scale, size=len(Y))


@pytest.mark.parametrize("scales", [(0.5, 0.6, 0.8), (0.3, 0.31, 3.0)])
def test_equals_the_best_weights_of_a_grid(scales):
    predictions = [noisy(scale) for scale in scales]
    found = select_weights(predictions, negative_mse, n_members=3)
    grid = [np.array([a, b, 40 - a - b]) / 40 for a, b in itertools.product(range(41), repeat=2) if a + b <= 40]
    best = max(negative_mse(weights @ np.array(predictions)) for weights in grid)
    assert sum(found.weights) == pytest.approx(1)
    assert found.score == pytest.approx(negative_mse(np.array(found.weights) @ np.array(predictions)))
    assert found.score >= best * 1.002  # scores are negative


def test_the_best_model_stays_alone_unless_others_improve_it():
    good = noisy(0.1)
    assert select_weights([noisy(5.0), good, good.copy()], negative_mse, n_members=3).weights == (0, 1, 0)


def test_the_number_of_members_is_limited():
    predictions = [noisy(0.5) for _ in range(6)]
    assert sum(weight > 0 for weight in select_weights(predictions, negative_mse, n_members=6).weights) == 6
    assert sum(weight > 0 for weight in select_weights(predictions, negative_mse, n_members=2).weights) == 2


def test_members_fit_the_budget():
    predictions, costs = [noisy(0.2), noisy(0.5), noisy(0.5)], [5.0, 1.0, 1.0]
    assert select_weights(predictions, negative_mse, n_members=3, costs=costs, budget=2).weights[0] == 0
    cheapest = select_weights(predictions, negative_mse, n_members=3, costs=[5.0, 1.0, 2.0], budget=0.5)
    assert cheapest.weights == (0, 1, 0)


def test_undefined_scores_and_the_end_of_the_time():
    assert select_weights([Y, Y], lambda _: math.nan, n_members=2).weights == (1, 0)
    predictions = [noisy(0.5), noisy(0.5)]
    assert max(select_weights(predictions, negative_mse, n_members=2, is_over=lambda: True).weights) == 1


def test_the_weights_are_those_of_the_best_round() -> None:
    """A third draw makes the mean of these two worse, whichever it is."""
    y = np.array([0.0, 0.0, 1.0, 1.0])
    selected = select_weights([y + 0.2, y - 0.2], lambda p: -float(abs(p - y).sum()), n_members=2, n_rounds=3)
    assert selected.weights == (0.5, 0.5)
    assert selected.score == pytest.approx(0.0)
