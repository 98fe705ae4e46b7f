"""The ``evaluate:`` section."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from gpupipe.errors import did_you_mean
from gpupipe.metrics.registry import METRICS
from gpupipe.settings import Settings

ThresholdRule = Literal["best_f1", "best_accuracy", "best_balanced_accuracy", "youden", "min_cost"]
CalibrationMethod = Literal["none", "sigmoid", "isotonic"]


def _known(name: str) -> str:
    if name not in METRICS:
        hint = did_you_mean(name, METRICS.names()) or f"there are {', '.join(METRICS.names())}"
        raise PydanticCustomError("unknown_part", "unknown {kind}; {hint}", {"kind": METRICS.kind, "hint": hint})
    return name


Finite = Annotated[float, Field(allow_inf_nan=False)]
MetricName = Annotated[str, AfterValidator(_known)]


class Importance(Settings):
    """How permutation importance is measured.

    Attributes
    ----------
    repeats : int
        How often each input column is shuffled.
    rows : int
        At most so many rows of the test part are used.
    columns : int
        At most this many input columns are shuffled: those that the model relies on most by its own account
        (coefficients, gains of splits); for models without one, those that correlate most with the predictions.
    """

    repeats: Annotated[int, Field(gt=0)] = 3
    rows: Annotated[int, Field(gt=0)] = 5_000
    columns: Annotated[int, Field(gt=0)] = 100


class Costs(Settings):
    """Cost of each kind of decision, in any one unit; a benefit is a negative cost.

    Attributes
    ----------
    false_positive : float
        Of a negative row that is called positive, such as a retention offer to a customer who would have stayed.
    false_negative : float
        Of a positive row that is missed.
    true_positive, true_negative : float
        Of correct decisions.
    """

    false_positive: Finite
    false_negative: Finite
    true_positive: Finite = 0.0
    true_negative: Finite = 0.0

    @model_validator(mode="after")
    def _errors_cost_more(self) -> Self:
        for wrong, right in (("false_positive", "true_negative"), ("false_negative", "true_positive")):
            if getattr(self, wrong) <= getattr(self, right):
                raise ValueError(
                    f"{wrong} ({getattr(self, wrong):g}) must cost more than {right} ({getattr(self, right):g}); "
                    "otherwise one answer for all rows is the cheapest"
                )
        return self


class Evaluate(Settings):
    """Evaluation of models.

    Attributes
    ----------
    metrics : list of str, optional
        None: the task's default set.
    select_by : str, optional
        The metric that orders the leaderboard. None: the first of ``metrics``; without those roc_auc for binary,
        log_loss for multiclass, r2 for regression, silhouette for clustering, reconstruction_r2 for embeddings.
    threshold : float or rule
        binary: the lowest probability that is called positive. A rule chooses it on held-out training rows; under
        cross-validation the rows of a fold are judged by the threshold that the other folds choose (with
        ``split.time``, the earlier ones). Default: 0.5, or min_cost where ``cost`` is given.
    cost : Costs, optional
        binary: what each kind of error costs. Adds the metric ``cost``, the mean cost per row.
    calibrate : {"none", "sigmoid", "isotonic"}
        binary: map the probabilities to observed shares, learned on the same rows as the threshold.
    validation : float
        The share of the training rows held out to choose among models, for threshold rules and for calibration.
    importance : bool or Importance
        Permutation importance of the best model's input columns: of all up to 100, of wider tables the 100 that the
        model relies on most (``{columns: 500}`` measures more).
    """

    metrics: Annotated[list[MetricName], Field(min_length=1)] | None = None
    select_by: MetricName | None = None
    threshold: Annotated[float, Field(ge=0, le=1)] | ThresholdRule = 0.5
    cost: Costs | None = None
    calibrate: CalibrationMethod = "none"
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.2
    importance: bool | Importance = True

    @model_validator(mode="before")
    @classmethod
    def _costs_choose_the_threshold(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("cost") is not None and "threshold" not in values:
            return {**values, "threshold": "min_cost"}
        return values

    @model_validator(mode="after")
    def _has_costs_to_minimize(self) -> Self:
        if self.threshold == "min_cost" and self.cost is None:
            raise ValueError("threshold: min_cost needs evaluate.cost, such as {false_positive: 1, false_negative: 5}")
        return self

    @property
    def importance_settings(self) -> Importance | None:
        """How to measure importance, or None where it is switched off."""
        if isinstance(self.importance, bool):
            return Importance() if self.importance else None
        return self.importance
