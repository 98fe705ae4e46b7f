"""Tests of metrics estimated without labels: a NumPy reference, coverage, and planted concept drift."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from gpupipe.backends import choose
from gpupipe.inference.drift.label_metrics import MetricSettings
from gpupipe.inference.evaluation.estimates import (
    LabelEstimator,
    PeriodRows,
    estimate_metrics,
    expected_calibration_error,
)
from gpupipe.inference.evaluation.held_out import HeldOutRows, read_held_out
from gpupipe.inference.evaluation.label_models import ClassLabelModel
from gpupipe.metrics import Costs
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.models import Prediction

BINARY = Goal("binary", "y", (0, 1))
NAMES = ("roc_auc", "log_loss", "accuracy", "f1", "cost")
COSTS = Costs(false_positive=1, false_negative=5)


def settings(goal: Goal = BINARY, names: tuple[str, ...] = NAMES, costs: Costs | None = COSTS) -> MetricSettings:
    return MetricSettings(names, goal, Decision(0.4), choose("cpu"), costs)


def scores(random: np.random.Generator, n: int, tilt: float = 0.0) -> np.ndarray:
    """Return probabilities that are calibrated if labels follow them; `tilt` moves their distribution."""
    return 1 / (1 + np.exp(-random.normal(-0.8 + tilt, 1.2, n)))


def period(random: np.random.Generator, n: int, *, tilt: float = 0.0, drift: float = 0.0, known: float = 1.0) -> Any:
    """Return rows whose labels follow the scores, except for a share `drift` that follows nothing."""
    p = scores(random, n, tilt)
    y = (random.random(n) < np.where(random.random(n) < drift, 0.3, p)).astype(float)
    y[random.random(n) >= known] = np.nan
    return PeriodRows("2024", Prediction("binary", probability=p), y[:, None])


def test_estimates_are_the_expectations_that_numpy_computes() -> None:
    random = np.random.default_rng(1)
    p, known = scores(random, 4_000, 0.5), scores(random, 30_000)
    y = (random.random(30_000) < known**1.3).astype(float)  # the scores are not calibrated
    found = estimate_metrics(settings(), Prediction("binary", probability=p), HeldOutRows(known, y))
    q, chosen = ClassLabelModel.fit(known, y, 2).probabilities(p), p >= 0.4
    twice, weights = np.repeat([1, 0], len(p)), np.concatenate([q, 1 - q])
    hits, alarms, misses = (q * chosen).sum(), ((1 - q) * chosen).sum(), (q * ~chosen).sum()
    expected = {
        "roc_auc": roc_auc_score(twice, np.tile(p, 2), sample_weight=weights),
        "log_loss": log_loss(twice, np.tile(p, 2), sample_weight=weights),
        "accuracy": np.where(chosen, q, 1 - q).mean(),
        "f1": 2 * hits / (2 * hits + alarms + misses),
        "cost": (alarms + 5 * misses) / len(p),
    }
    for name, own in found.items():
        assert own.value == pytest.approx(expected.pop(name), abs=own.error), name
    assert not expected
    assert found["accuracy"].error == pytest.approx(np.sqrt((q * (1 - q)).mean() / len(p)), rel=0.35)


def _estimate(periods: list[PeriodRows], recorded: HeldOutRows | None = None, of: Any = None) -> Any:
    own = of or settings(names=("roc_auc",), costs=None)
    measured = {i: own.measure(each.labelled(own.goal)) for i, each in enumerate(periods) if each.is_complete}
    return LabelEstimator(own, periods, measured, recorded, {"roc_auc": 0.2}).estimate(len(periods) - 1)


def _cases(n: int, drifts: list[float]) -> tuple[int, int]:
    """Return in how many of `n` tables the last period is estimated, and in how many of these the truth is outside."""
    said, wrong = 0, 0
    for seed in range(n):
        random = np.random.default_rng(seed)
        periods = [period(random, 800, tilt=0.05 * i, drift=drift) for i, drift in enumerate(drifts)]
        truth = roc_auc_score(periods[-1].y[:, 0], periods[-1].predicted.probability)
        hidden = PeriodRows("last", periods[-1].predicted, np.full_like(periods[-1].y, np.nan))
        own = _estimate([*periods[:-1], hidden]).metrics.get("roc_auc")
        said += own is not None
        wrong += own is not None and abs(own.value - truth) > 1.96 * own.error
    return said, wrong


def test_intervals_contain_the_truth_of_rows_without_drift_of_the_concept() -> None:
    said, wrong = _cases(20, [0.0] * 7)
    assert said >= 17 and wrong <= 2


def test_concept_drift_that_labels_have_shown_is_not_called_good() -> None:
    said, wrong = _cases(20, [0.0, 0.0, 0.0, 0.0, 0.6, 0.6, 0.6])
    assert said <= 10 and wrong <= 1
    assert _cases(20, [0.0, 0.0, 0.0, 0.2, 0.4, 0.6, 0.8])[1] <= 2


def test_labels_that_are_partly_known_are_not_used() -> None:
    random = np.random.default_rng(3)
    full, partly, last = (period(random, 2_000, known=share) for share in (1.0, 0.5, 0.0))
    assert full.is_complete and not partly.is_complete
    of_both, of_one = _estimate([full, partly, last]), _estimate([full, period(random, 2_000, known=0.0), last])
    assert of_both.metrics == of_one.metrics and of_both.n_tests == 0


def test_without_labels_an_estimate_needs_held_out_rows_and_has_the_spread_of_the_folds() -> None:
    random = np.random.default_rng(4)
    last = period(random, 1_000, known=0.0)
    assert "fewer than 200 rows" in _estimate([last]).reason
    few = HeldOutRows(scores(random, 900), (np.arange(900) < 10).astype(float))
    assert "20 of each class" in _estimate([last], few).reason
    known = period(random, 1_000)
    found = _estimate([last], HeldOutRows(known.predicted.output, known.y[:, 0]))
    assert found.n_tests == 0 and 0.2 < found.metrics["roc_auc"].error < 0.21


@pytest.mark.parametrize("task", ["regression", "quantile", "multioutput"])
def test_errors_of_numbers_are_estimated_from_residuals(task: Any) -> None:
    random = np.random.default_rng(6)
    parts = (Goal("regression", "a"), Goal("binary", "b", (0, 1)))
    goal = Goal(
        task, "y", quantiles=(0.1, 0.5, 0.9) if task == "quantile" else (), targets=parts * (task == "multioutput")
    )
    name = {"regression": "mae", "quantile": "pinball_loss", "multioutput": "mae"}[task]
    if task == "multioutput":
        goal, name = Goal("multioutput", targets=(Goal("regression", "a"), Goal("regression", "b"))), "mae"
    decision = Decision(targets=(Decision(), Decision())) if goal.targets else Decision()
    own = MetricSettings((name,), goal, decision, choose("cpu"))

    def rows(n: int, low: float) -> tuple[Prediction, np.ndarray]:
        value = random.uniform(low, 10, n)
        y = value + random.normal(0, 0.2 * value)
        if task == "regression":
            return Prediction(task, value=value), y
        if task == "quantile":
            return Prediction(task, quantiles=value[:, None] * [0.8, 1.0, 1.2]), y
        both = [Prediction("regression", value=each) for each in (value, 2 * value)]
        return Prediction.of_targets(both), np.stack([y, 2 * y], axis=1)

    (known, y), (shifted, truth) = rows(5_000, 1.0), rows(3_000, 6.0)
    found = estimate_metrics(own, shifted, HeldOutRows(known.output, y))[name]
    real = own.measure(PeriodRows("", shifted, truth.reshape(3_000, -1)).labelled(goal))[name]
    before = own.measure(PeriodRows("", known, y.reshape(5_000, -1)).labelled(goal))[name]
    assert abs(found.value - real.value) < 3 * found.error and found.value > 1.25 * before.value


def test_the_calibration_error_is_that_of_a_loop_over_bins() -> None:
    random = np.random.default_rng(7)
    p, y = random.random(1_003), random.random(1_003) < 0.5
    order, expected = np.argsort(p), 0.0
    for rows in np.array_split(order, 15):
        expected += len(rows) / len(p) * abs(p[rows].mean() - y[rows].mean())
    assert expected_calibration_error(p, y) == pytest.approx(expected)


class _Files:
    def __init__(self, **arrays: Any) -> None:
        self.found = {name: np.asarray(each, float) for name, each in arrays.items()}

    def names(self) -> list[str]:
        return ["held_out.npz"] * bool(self.found)

    def arrays(self, name: str) -> Any:
        return self.found


def test_malformed_held_out_rows_are_refused() -> None:
    assert read_held_out(_Files(), BINARY) is None  # type: ignore[arg-type]
    assert read_held_out(_Files(output=[0.5], y=[1]), BINARY) is not None  # type: ignore[arg-type]
    for output, y in (([0.5], [2]), ([[0.5, 0.5]], [1]), ([0.5], [1, 0]), ([np.nan], [1]), ([0.5], [[1, 1]])):
        with pytest.raises(ValueError, match=r"held_out\.npz"):
            read_held_out(_Files(output=output, y=y), BINARY)  # type: ignore[arg-type]
