"""Predictions as arrays of labels and class probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from gpupipe.errors import DataError
from gpupipe.metrics.conformal import Conformal
from gpupipe.metrics.predictions import predicted_labels
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import Array


def prediction_values(prediction: Prediction, goal: Goal, decision: Decision) -> Array:
    """Return labels, values or clusters, shape (n,), or quantiles, embeddings or several targets, shape (n, k).

    Labels of several targets with different types are an array of objects.
    """
    if goal.targets:
        each = zip(prediction.parts, goal.targets, decision.targets, strict=True)
        columns = [prediction_values(part, own, decided) for part, own, decided in each]
        is_one_type = len({column.dtype.kind for column in columns}) == 1
        return np.stack(columns if is_one_type else [column.astype(object) for column in columns], axis=1)
    if prediction.probability is not None:
        labels: Array = goal.label_array[predicted_labels(goal.task, prediction.probability, decision.threshold)]
        return labels
    values = (prediction.value, prediction.quantiles, prediction.label, prediction.embedding)
    return next(value for value in values if value is not None)


def class_probabilities(probability: Array) -> Array:
    """Return the probability of each class, shape (n, k); a binary model gives the one of class 1, shape (n,)."""
    return np.column_stack([1.0 - probability, probability]) if probability.ndim == 1 else probability


def probabilities_of(prediction: Prediction, goal: Goal) -> Any:
    """Return the probability of each class, shape (n, k); of several targets, a list with those of each."""
    if goal.targets:
        return [class_probabilities(part.output) for part in prediction.parts]
    return class_probabilities(prediction.output)


def intervals_of(prediction: Prediction, goal: Goal, decision: Decision) -> Array:
    """Return prediction intervals, float64, shape (n, 2); of several targets, shape (n, k, 2)."""
    ends = [np.stack(own.interval(part.output), axis=1) for part, own in _conformal(prediction, goal, decision)]
    return np.stack(ends, axis=1) if goal.targets else ends[0]


def sets_of(prediction: Prediction, goal: Goal, decision: Decision) -> Any:
    """Return whether each class is in the prediction set, bool, shape (n, k); of several targets, a list of those."""
    sets = [own.members(part.output) for part, own in _conformal(prediction, goal, decision)]
    return sets if goal.targets else sets[0]


def _conformal(prediction: Prediction, goal: Goal, decision: Decision) -> Iterator[tuple[Prediction, Conformal]]:
    """Yield each target's prediction with its intervals."""
    parts, decisions = (prediction.parts, decision.targets) if goal.targets else ((prediction,), (decision,))
    for part, own in zip(parts, decisions, strict=True):
        assert own.intervals is not None
        yield part, own.intervals


def require_classes(goal: Goal) -> None:
    """Raise DataError if the model is not a classifier."""
    if not goal.has_classes:
        raise DataError(f"a {goal.task} model has no probabilities", fix="use predict")


def require_intervals(goal: Goal, decision: Decision, kind: Literal["regression", "classification"]) -> None:
    """Raise DataError if the model has no intervals, or has those of the other kind."""
    is_of_kind = bool(goal.names) and goal.has_classes == (kind == "classification")
    what = "intervals" if kind == "regression" else "sets"
    if not is_of_kind:
        raise DataError(f"a {goal.task} model has no {what}", fix="use predict_table")
    if not decision.has_intervals:
        raise DataError(f"the model has no prediction {what}", fix="train it with evaluate: {intervals: 0.9}")


def no_predictions(goal: Goal) -> Prediction:
    """Return the prediction for zero rows, since estimators reject an empty matrix."""
    if goal.targets:
        return Prediction(goal.task, outputs=np.empty((0, goal.n_outputs)), targets=goal.specs)
    if goal.task in CLASSIFICATION:
        return Prediction(goal.task, probability=np.empty(0 if goal.task == "binary" else (0, goal.n_classes)))
    if goal.task in ("regression", "ranking"):
        return Prediction(goal.task, value=np.empty(0))
    if goal.task == "quantile":
        return Prediction(goal.task, quantiles=np.empty((0, len(goal.quantiles))))
    if goal.task == "clustering":
        return Prediction(goal.task, label=np.empty(0, np.int32), distance=np.empty(0))
    return Prediction(goal.task, embedding=np.empty((0, 0), np.float32))
