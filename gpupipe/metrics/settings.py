"""The ``evaluate:`` section."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from gpupipe.errors import did_you_mean
from gpupipe.metrics.registry import METRICS
from gpupipe.settings import Settings

ThresholdRule = Literal["best_f1", "best_accuracy", "best_balanced_accuracy", "youden"]
CalibrationMethod = Literal["none", "sigmoid", "isotonic"]


def _known(name: str) -> str:
    if name not in METRICS:
        hint = did_you_mean(name, METRICS.names()) or f"there are {', '.join(METRICS.names())}"
        raise PydanticCustomError("unknown_part", "unknown {kind}; {hint}", {"kind": METRICS.kind, "hint": hint})
    return name


MetricName = Annotated[str, AfterValidator(_known)]


class Importance(Settings):
    """How permutation importance is measured.

    Attributes
    ----------
    repeats : int
        How often each input column is shuffled.
    rows : int
        At most so many rows of the test part are used.
    """

    repeats: Annotated[int, Field(gt=0)] = 3
    rows: Annotated[int, Field(gt=0)] = 5_000


class Evaluate(Settings):
    """How models are judged.

    Attributes
    ----------
    metrics : list of str, optional
        None: the task's default set.
    select_by : str, optional
        The metric that orders the leaderboard. None: the first of ``metrics``; without those roc_auc for binary,
        log_loss for multiclass, r2 for regression, silhouette for clustering, reconstruction_r2 for embeddings.
    threshold : float or rule
        binary: from which probability on the answer is yes. A rule chooses it on held-out training rows.
    calibrate : {"none", "sigmoid", "isotonic"}
        binary: map the probabilities to observed shares, learned on held-out training rows.
    validation : float
        The share of the training rows held out to choose among models, for threshold rules and for calibration.
    importance : bool or Importance
        Permutation importance of the best model's input columns.
    """

    metrics: Annotated[list[MetricName], Field(min_length=1)] | None = None
    select_by: MetricName | None = None
    threshold: Annotated[float, Field(ge=0, le=1)] | ThresholdRule = 0.5
    calibrate: CalibrationMethod = "none"
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.2
    importance: bool | Importance = True

    @property
    def importance_settings(self) -> Importance | None:
        """How to measure importance, or None where it is switched off."""
        if isinstance(self.importance, bool):
            return Importance() if self.importance else None
        return self.importance
