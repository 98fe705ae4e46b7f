"""Tests of row weights: metrics against scikit-learn's `sample_weight`, and integer weights against repeated rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.metrics import (
    METRICS,
    choose_threshold,
    confusion,
    curves,
    evaluate,
    fit_calibration,
    quantile_losses,
    residuals,
)
from gpupipe.metrics.importance import permutation_importance
from gpupipe.metrics.settings import Costs
from gpupipe.metrics.threshold import RULES
from gpupipe.tasks import SUPERVISED, Task

HOST = CpuBackend()
COSTS = Costs(false_positive=1, false_negative=5, true_positive=-0.5)
NAMES = {task: [name for name, metric in METRICS.items() if task in metric.tasks] for task in SUPERVISED}
LEVELS = (0.1, 0.5, 0.95)
Case = tuple[Task, np.ndarray[Any, Any], np.ndarray[Any, Any]]


def case(task: Task, n_rows: int, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    if task == "regression":
        y = rng.normal(size=n_rows).round(1) + 5
        return task, y, y + rng.normal(size=n_rows).round(1)
    if task == "quantile":
        y = rng.normal(size=n_rows).round(1) + 5
        return task, y, np.sort(y[:, None] + rng.normal(size=(n_rows, 3)).round(1), axis=1)
    n_classes = 2 if task == "binary" else 4
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, n_rows - n_classes)).astype(float)
    guess = rng.dirichlet(np.ones(n_classes), n_rows).round(2) + 0.3 * np.eye(n_classes)[y.astype(int)] + 0.01
    guess /= guess.sum(axis=1, keepdims=True)
    return task, y, guess[:, 1] if task == "binary" else guess


def measured(task: Task, y: Any, guess: Any, weight: Any = None) -> dict[str, float]:
    costs = COSTS if task == "binary" else None
    n_classes = 4 if task == "multiclass" else 2
    return evaluate(
        task, y, guess, NAMES[task], 0.4, n_classes, sample_weight=weight, costs=costs, quantiles=LEVELS, backend=HOST
    )


def by_scikit_learn(task: Task, y: Any, guess: Any, w: Any) -> dict[str, float]:
    if task == "regression":
        functions: dict[str, Callable[..., float]] = {
            "r2": sk.r2_score, "rmse": sk.root_mean_squared_error, "mae": sk.mean_absolute_error,
            "median_ae": sk.median_absolute_error, "mape": sk.mean_absolute_percentage_error,
        }  # fmt: skip
        return {name: function(y, guess, sample_weight=w) for name, function in functions.items()}
    if task == "quantile":
        columns = list(zip(LEVELS, guess.T, strict=True))
        losses = [sk.mean_pinball_loss(y, column, alpha=level, sample_weight=w) for level, column in columns]
        gains = [sk.d2_pinball_score(y, column, alpha=level, sample_weight=w) for level, column in columns]
        constant = [loss / (1 - gain) for loss, gain in zip(losses, gains, strict=True)]
        off = [abs(np.average(y <= column, weights=w) - level) for level, column in columns]
        return {
            "pinball_loss": np.mean(losses), "d2_pinball": 1 - np.mean(losses) / np.mean(constant),
            "coverage_error": np.mean(off),
        }  # fmt: skip
    label = (guess >= 0.4).astype(float) if task == "binary" else guess.argmax(axis=1)
    average: dict[str, Any] = {"average": "binary" if task == "binary" else "macro", "zero_division": 0}
    found = {
        "log_loss": sk.log_loss(y, guess, sample_weight=w),
        "accuracy": sk.accuracy_score(y, label, sample_weight=w),
        "balanced_accuracy": sk.balanced_accuracy_score(y, label, sample_weight=w),
        "matthews": sk.matthews_corrcoef(y, label, sample_weight=w),
        "f1": sk.f1_score(y, label, sample_weight=w, **average),
        "precision": sk.precision_score(y, label, sample_weight=w, **average),
        "recall": sk.recall_score(y, label, sample_weight=w, **average),
    }
    if task == "binary":
        cells = sk.confusion_matrix(y, label, sample_weight=w) * [[0, 1], [5, -0.5]]
        return found | {
            "roc_auc": sk.roc_auc_score(y, guess, sample_weight=w),
            "average_precision": sk.average_precision_score(y, guess, sample_weight=w),
            "brier": sk.brier_score_loss(y, guess, sample_weight=w),
            "cost": cells.sum() / w.sum(),
        }
    guess = guess / guess.sum(axis=1, keepdims=True)  # as gpupipe does, which decides ties in the last bit
    each = [(y == code, guess[:, code]) for code in range(4)]
    return found | {
        "roc_auc": sk.roc_auc_score(y, guess, multi_class="ovr", sample_weight=w),
        "average_precision": np.mean([sk.average_precision_score(*pair, sample_weight=w) for pair in each]),
        "brier": sk.brier_score_loss(y, guess, sample_weight=w, scale_by_half=False),
    }


@pytest.mark.parametrize("task", sorted(SUPERVISED))
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_metrics_equal_those_of_scikit_learn_to_12_digits(task: Task, scale: float) -> None:
    task, y, guess = case(task, 500, 3)
    weight = np.random.default_rng(4).exponential(size=500) ** 3 * scale
    expected = by_scikit_learn(task, y, guess, weight)
    found = measured(task, y, guess, weight)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-14)


@given(st.sampled_from(sorted(SUPERVISED)), st.integers(8, 60), st.integers(0, 2**32 - 1))
def test_integer_weights_equal_repeated_rows(task: Task, n_rows: int, seed: int) -> None:
    task, y, guess = case(task, n_rows, seed)
    weight = np.random.default_rng(seed).integers(1, 5, n_rows)
    repeated = y.repeat(weight), guess.repeat(weight, axis=0)
    assert measured(task, y, guess, weight) == pytest.approx(measured(task, *repeated), rel=1e-12, abs=1e-13)
    if task == "regression":
        found, expected = residuals(y, guess, sample_weight=weight, backend=HOST), residuals(*repeated, backend=HOST)
        assert found.counts == expected.counts
        assert (found.mean, found.std) == pytest.approx((expected.mean, expected.std), abs=1e-12)
        assert found.constant_error == pytest.approx(expected.constant_error, abs=1e-12)
        return
    if task == "quantile":
        given_losses = quantile_losses(y, guess, LEVELS, sample_weight=weight, backend=HOST)
        for one, other in zip(given_losses, quantile_losses(*repeated, LEVELS, backend=HOST), strict=True):
            assert astuple(one) == pytest.approx(astuple(other), abs=1e-12)
        return
    n_classes = 2 if task == "binary" else 4
    cells = confusion(task, y, guess, 0.4, n_classes, sample_weight=weight, backend=HOST)
    assert cells == confusion(task, *repeated, 0.4, n_classes, backend=HOST)
    drawn = curves(task, y, guess, n_classes, sample_weight=weight, backend=HOST)
    expected_curves = curves(task, *repeated, n_classes, backend=HOST)
    for name in ("roc", "precision_recall", "gains"):
        for points, others in zip(getattr(drawn, name), getattr(expected_curves, name), strict=True):
            assert (points.x, points.y) == (pytest.approx(others.x, abs=1e-12), pytest.approx(others.y, abs=1e-12))


@given(st.integers(10, 60), st.integers(0, 2**32 - 1))
def test_decisions_with_integer_weights_equal_those_of_repeated_rows(n_rows: int, seed: int) -> None:
    _, y, guess = case("binary", n_rows, seed)
    weight = np.random.default_rng(seed).integers(1, 5, n_rows)
    repeated = y.repeat(weight), guess.repeat(weight)
    for rule in ("best_f1", "best_accuracy", "min_cost"):
        costs = COSTS if rule == "min_cost" else None
        found = choose_threshold(y, guess, rule, costs, sample_weight=weight, backend=HOST)
        assert found == choose_threshold(*repeated, rule, costs, backend=HOST), rule
    grid = np.linspace(0, 1, 21)
    for how in ("sigmoid", "isotonic"):
        found_map = fit_calibration(guess, y, how, sample_weight=weight).apply(grid)
        np.testing.assert_allclose(found_map, fit_calibration(repeated[1], repeated[0], how).apply(grid), atol=1e-5)


@pytest.mark.parametrize("rule", [*RULES, "min_cost"])
def test_the_threshold_is_the_best_of_all_by_weight(rule: str) -> None:
    _, y, guess = case("binary", 80, 7)
    weight = np.random.default_rng(8).exponential(size=80)
    costs = COSTS if rule == "min_cost" else None
    found = choose_threshold(y, guess, rule, costs, sample_weight=weight, backend=HOST)

    def score(threshold: float) -> float:
        label = guess >= threshold
        if rule == "min_cost":
            return -float((sk.confusion_matrix(y, label, sample_weight=weight) * [[0, 1], [5, -0.5]]).sum())
        functions = {"best_f1": sk.f1_score, "best_accuracy": sk.accuracy_score}
        return float(functions.get(rule, sk.balanced_accuracy_score)(y, label, sample_weight=weight))

    assert score(found) == pytest.approx(max(score(threshold) for threshold in [*guess, 1.1]), abs=1e-12)


def test_reliability_bins_hold_equal_weight() -> None:
    rng = np.random.default_rng(2)
    guess, weight = rng.random(20_000), rng.choice([1.0, 9.0], 20_000)
    y = (rng.random(20_000) < guess).astype(float)
    (points,) = curves("binary", y, guess, sample_weight=weight, backend=HOST).calibration
    actual, expected = calibration_curve(y.repeat(weight.astype(int)), guess.repeat(weight.astype(int)), n_bins=10,
                                         strategy="quantile")  # fmt: skip
    np.testing.assert_allclose(points.y, actual, atol=0.01)
    np.testing.assert_allclose(points.x, expected, atol=0.01)


def test_importance_is_the_loss_of_the_weighted_metric() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(400, 2)).astype(np.float32)
    is_first = np.arange(400) < 200
    y = np.where(is_first, X[:, 0], X[:, 1])  # each half depends on another column
    weight = np.where(is_first, 1.0, 1e-6)

    def score(predicted: Any, part: slice) -> float:
        return -evaluate("regression", y, predicted[part], ["mae"], sample_weight=weight, backend=HOST)["mae"]

    found = permutation_importance(lambda Z: Z[:, 0].astype(float), score, X, {"a": [0], "b": [1]})
    assert [each.name for each in found] == ["a", "b"]
    shuffled = np.abs(X[:200, 0][:, None] - X[:, 0]).mean()
    assert found[0].mean == pytest.approx(shuffled, rel=0.15)
