"""Decisions from scores: calibration of probabilities, and the threshold of the positive class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpupipe.backends.base import Backend
from gpupipe.metrics.calibration import Calibration, fit_calibration
from gpupipe.metrics.predictions import Threshold
from gpupipe.metrics.settings import Evaluate
from gpupipe.metrics.threshold import choose_threshold
from gpupipe.models import Prediction
from gpupipe.pipeline.target import Truth


@dataclass(frozen=True)
class Decision:
    """Map from probabilities to decisions.

    Attributes
    ----------
    threshold : float, or array of float64, shape (n,)
        Binary only: the lowest probability that is classified as positive. When the rows of several folds are
        evaluated together, the threshold of each row.
    calibration : Calibration, optional
        Applied to the model's probability before the threshold.
    """

    threshold: Threshold = 0.5
    calibration: Calibration | None = None

    def apply(self, prediction: Prediction, backend: Backend | None = None) -> Prediction:
        """Return the prediction with calibrated probabilities, computed on `backend`; None is the host."""
        if self.calibration is None or prediction.probability is None:
            return prediction
        return replace(prediction, probability=self.calibration.apply(prediction.probability, backend))

    def to_json(self) -> dict[str, Any]:
        """Return the decision as JSON values."""
        return {
            "threshold": self.threshold,
            "calibration": None if self.calibration is None else self.calibration.to_json(),
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Decision:
        """Return the decision from the result of `to_json`."""
        calibration = value["calibration"]
        return Decision(value["threshold"], None if calibration is None else Calibration.from_json(calibration))


def is_learned(evaluate: Evaluate) -> bool:
    """Return whether the decision is learned from predictions for held-out rows."""
    return isinstance(evaluate.threshold, str) or evaluate.calibrate != "none"


def decide(evaluate: Evaluate, task: str, truth: Truth | None, prediction: Prediction, backend: Backend) -> Decision:
    """Return calibration and threshold, learned from predictions for held-out rows on `backend`.

    The calibration is fitted by scikit-learn, on the host.
    """
    if task != "binary":
        return Decision()
    assert truth is not None
    calibration = None
    if evaluate.calibrate != "none":
        known = truth.mapped(backend.to_host)
        calibration = fit_calibration(
            backend.to_host(prediction.output), known.y, evaluate.calibrate, sample_weight=known.weights
        )
    decision = Decision(calibration=calibration)
    if not isinstance(evaluate.threshold, str):
        return replace(decision, threshold=evaluate.threshold)
    probability = decision.apply(prediction, backend).output
    threshold = choose_threshold(
        truth.y, probability, evaluate.threshold, evaluate.cost, sample_weight=truth.weights, backend=backend
    )
    return replace(decision, threshold=threshold)
