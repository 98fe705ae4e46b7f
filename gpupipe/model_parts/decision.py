"""Decisions from scores: calibration of probabilities, threshold of the positive class, intervals and sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.metrics.calibration import Calibration, FittedMethod, fit_calibration
from gpupipe.metrics.classification import EPSILON
from gpupipe.metrics.conformal import Conformal, fit_conformal, interval_ends
from gpupipe.metrics.predictions import Threshold, has_rows
from gpupipe.metrics.settings import Evaluate
from gpupipe.metrics.threshold import choose_threshold
from gpupipe.model_parts.goal import Truth
from gpupipe.models import Prediction
from gpupipe.random_streams import derive_seed
from gpupipe.tasks import CLASSIFICATION, Task
from gpupipe.typing import Array

CHECKED_PARTS = 5  # of the held-out rows: each is calibrated by the others, to check the calibration
LARGEST_LOSS = 0.001  # of log loss that a calibration may cost


@dataclass(frozen=True)
class Decision:
    """Map from the output of a model to decisions."""

    # float, or float64, shape (n,): binary only: the lowest probability that is classified as positive. When the rows
    # of several folds are evaluated together, the threshold of each row.
    threshold: Threshold = 0.5
    calibration: Calibration | None = None  # applied to the model's probability before the threshold
    intervals: Conformal | None = None  # prediction intervals or sets, computed from the calibrated prediction
    # Why a calibration is not used or a threshold not learned, if it should be.
    note: str = field(default="", compare=False)
    # With several targets, the decision of each; the other fields then have their defaults.
    targets: tuple[Decision, ...] = ()

    @cached_property
    def calibrates(self) -> bool:
        """True if `apply` changes a prediction."""
        return self.calibration is not None or any(each.calibrates for each in self.targets)

    @property
    def uncalibrated(self) -> Decision:
        """The decision about predictions that are calibrated already."""
        return replace(self, calibration=None, targets=tuple(each.uncalibrated for each in self.targets))

    def take(self, rows: Array) -> Decision:
        """Return the decision of `rows`, integers or a mask, of those that it is about."""
        threshold = self.threshold[rows] if has_rows(self.threshold) else self.threshold
        return replace(self, threshold=threshold, targets=tuple(each.take(rows) for each in self.targets))

    @property
    def has_intervals(self) -> bool:
        """True if there are intervals or sets."""
        return self.intervals is not None or any(each.has_intervals for each in self.targets)

    @property
    def notes(self) -> list[str]:
        """The notes of all targets."""
        return [note for note in (self.note, *(each.note for each in self.targets)) if note]

    def apply(self, prediction: Prediction, backend: Backend | None = None) -> Prediction:
        """Return the prediction with calibrated probabilities, computed on `backend`; None is the host."""
        if not self.calibrates:
            return prediction
        if self.targets:
            parts = [each.apply(part, backend) for each, part in zip(self.targets, prediction.parts, strict=True)]
            return Prediction.of_targets(parts, None if backend is None else backend.xp)
        if self.calibration is None or prediction.probability is None:
            return prediction
        return replace(prediction, probability=self.calibration.apply(prediction.probability, backend))

    def to_json(self) -> dict[str, Any]:
        """Return the decision as JSON values."""
        if self.targets:
            return {"targets": [each.to_json() for each in self.targets]}
        return {
            "threshold": self.threshold,
            "calibration": None if self.calibration is None else self.calibration.to_json(),
            **({} if self.intervals is None else {"intervals": self.intervals.to_json()}),
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Decision:
        """Return the decision from the result of `to_json`."""
        if "targets" in value:
            return Decision(targets=tuple(map(Decision.from_json, value["targets"])))
        calibration, intervals = value["calibration"], value.get("intervals")
        return Decision(
            value["threshold"],
            None if calibration is None else Calibration.from_json(calibration),
            None if intervals is None else Conformal.from_json(intervals),
        )

    @staticmethod
    def join(decisions: Sequence[Decision], sizes: Sequence[int], rows: Array | None = None) -> Decision:
        """Return the decision of rows in sets of `sizes`, each with its own; calibrations are applied already.

        `rows`, int64, reorders them.
        """
        if n_targets := len(decisions[0].targets):
            each = [[decision.targets[i] for decision in decisions] for i in range(n_targets)]
            return Decision(targets=tuple(Decision.join(own, sizes, rows) for own in each))
        order = np.arange(sum(sizes)) if rows is None else rows
        intervals = [decision.intervals for decision in decisions if decision.intervals is not None]
        joined = None
        if intervals:
            joined = replace(intervals[0], score=np.repeat([each.score for each in intervals], sizes)[order])
        return Decision(np.repeat([decision.threshold for decision in decisions], sizes)[order], intervals=joined)


def is_learned(evaluate: Evaluate) -> bool:
    """Return whether the decision is learned from predictions for held-out rows."""
    return isinstance(evaluate.threshold, str) or evaluate.calibrate != "none" or evaluate.intervals is not None


def calibrates(evaluate: Evaluate, task: Task) -> bool:
    """Return whether probabilities are calibrated."""
    return (
        task == "binary" if evaluate.calibrate == "sigmoid" else evaluate.calibrate != "none" and task in CLASSIFICATION
    )


def has_rule(evaluate: Evaluate, task: Task) -> bool:
    """Return whether a threshold or a calibration is learned, on which metrics depend."""
    return calibrates(evaluate, task) or (task == "binary" and isinstance(evaluate.threshold, str))


def decide(
    evaluate: Evaluate,
    task: Task,
    truth: Truth | None,
    prediction: Prediction,
    backend: Backend,
    quantiles: Sequence[float] = (),
) -> Decision:
    """Return the decision learned from predictions for held-out rows on `backend`.

    The calibration is fitted by scikit-learn, and intervals are fitted by NumPy, on the host.
    """
    if truth is None:
        return Decision()
    decision = _decide_class(evaluate, task, truth, prediction, backend) if task in CLASSIFICATION else Decision()
    if evaluate.intervals is None:
        return decision
    known, output = truth.mapped(backend.to_host), backend.to_host(decision.apply(prediction, backend).output)
    y: Array = known.y.astype(np.int64) if task in CLASSIFICATION else known.y
    ends = interval_ends(evaluate.intervals, quantiles)
    return replace(decision, intervals=fit_conformal(evaluate.intervals, y, output, known.weights, ends))


def _decide_class(evaluate: Evaluate, task: Task, truth: Truth, prediction: Prediction, backend: Backend) -> Decision:
    decision = Decision()
    if has_rule(evaluate, task) and not bool(backend.to_host((truth.y != truth.y[:1]).any())):
        threshold = 0.5 if isinstance(evaluate.threshold, str) else evaluate.threshold
        what = f"no calibration or threshold is learned: all {len(truth):,} held-out rows have the same class"
        return Decision(threshold if task == "binary" else 0.5, note=what)
    if evaluate.calibrate != "none" and calibrates(evaluate, task):
        known = truth.mapped(backend.to_host)
        decision = _calibrated(backend.to_host(prediction.output), known, evaluate.calibrate)
    if task != "binary":
        return decision
    if not isinstance(evaluate.threshold, str):
        return replace(decision, threshold=evaluate.threshold)
    probability = decision.apply(prediction, backend).output
    threshold = choose_threshold(
        truth.y, probability, evaluate.threshold, evaluate.cost, sample_weight=truth.weights, backend=backend
    )
    return replace(decision, threshold=threshold)


def _calibrated(probability: Array, truth: Truth, how: FittedMethod) -> Decision:
    """Return the calibration of held-out rows, unless it makes the log loss of other held-out rows worse."""
    from sklearn.model_selection import StratifiedKFold

    y, weights = truth.y.astype(np.int64), truth.weights
    calibration = fit_calibration(probability, y, how, sample_weight=weights)
    counts = np.bincount(y)
    n_parts = min(CHECKED_PARTS, int(counts[counts > 0].min()))
    if n_parts < 2:
        return Decision(calibration=calibration)
    found: Array = np.empty_like(probability, dtype=np.float64)
    folds = StratifiedKFold(n_parts, shuffle=True, random_state=derive_seed(0, "folds of calibration"))
    for train, test in folds.split(y, y):
        own = None if weights is None else weights[train]
        found[test] = fit_calibration(probability[train], y[train], how, sample_weight=own).apply(probability[test])
    before, after = (_log_loss(p, y, weights) for p in (probability, found))
    if after <= before + LARGEST_LOSS:
        return Decision(calibration=calibration)
    return Decision(
        note=f"calibrate: {how} is not used: the log loss of held-out rows is {after:.4f} with it, {before:.4f} without"
    )


def _log_loss(probability: Array, y: Array, weights: Array | None) -> float:
    p = probability if probability.ndim > 1 else np.column_stack([1.0 - probability, probability])
    of_truth = p[np.arange(len(y)), y].clip(EPSILON, 1.0)
    return float(np.average(-np.log(of_truth), weights=weights))
