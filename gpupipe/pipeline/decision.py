"""From scores to decisions: a calibration of the probability, and the threshold of the positive class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpupipe.metrics.calibration import Calibration, fit_calibration
from gpupipe.metrics.settings import Evaluate
from gpupipe.metrics.threshold import choose_threshold
from gpupipe.models import Prediction

Array = Any


@dataclass(frozen=True)
class Decision:
    """How probabilities are read.

    Attributes
    ----------
    threshold : float
        Binary only: from this probability on a row is positive.
    calibration : Calibration, optional
        Applied to the model's probability first.
    """

    threshold: float = 0.5
    calibration: Calibration | None = None

    def apply(self, prediction: Prediction) -> Prediction:
        """Return the prediction with calibrated probabilities."""
        if self.calibration is None or prediction.probability is None:
            return prediction
        return replace(prediction, probability=self.calibration.apply(prediction.probability))

    def to_json(self) -> dict[str, Any]:
        """Return the decision as JSON values."""
        return {
            "threshold": self.threshold,
            "calibration": None if self.calibration is None else self.calibration.to_json(),
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Decision:
        """Return the decision that `to_json` described."""
        calibration = value["calibration"]
        return Decision(value["threshold"], None if calibration is None else Calibration.from_json(calibration))


def needs_held_out_rows(evaluate: Evaluate) -> bool:
    """Return whether the settings ask for a choice that must be made on rows the model has not seen."""
    return isinstance(evaluate.threshold, str) or evaluate.calibrate != "none"


def decide(evaluate: Evaluate, task: str, y: Array, prediction: Prediction) -> Decision:
    """Choose calibration and threshold from predictions of rows that the model has not seen."""
    if task != "binary":
        return Decision()
    calibration = None
    if evaluate.calibrate != "none":
        calibration = fit_calibration(prediction.probability, y, evaluate.calibrate)
    decision = Decision(calibration=calibration)
    if not isinstance(evaluate.threshold, str):
        return replace(decision, threshold=evaluate.threshold)
    probability = decision.apply(prediction).probability
    return replace(decision, threshold=choose_threshold(y, probability, evaluate.threshold))
