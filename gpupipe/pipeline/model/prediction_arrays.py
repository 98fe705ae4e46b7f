"""Predictions as arrays of labels and class probabilities."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gpupipe.errors import DataError
from gpupipe.metrics.conformal import Conformal
from gpupipe.metrics.predictions import Threshold, predicted_labels
from gpupipe.models.fitted.base import Prediction
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.target import Goal
from gpupipe.tasks import CLASSIFICATION, SUPERVISED
from gpupipe.typing import Array


def prediction_values(prediction: Prediction, goal: Goal, threshold: Threshold) -> Array:
    """Return labels, values or clusters, shape (n,), or quantiles or embeddings, shape (n, k)."""
    if prediction.probability is not None:
        return np.array(goal.labels)[predicted_labels(goal.task, prediction.probability, threshold)]
    values = (prediction.value, prediction.quantiles, prediction.label, prediction.embedding)
    return next(value for value in values if value is not None)


def class_probabilities(probability: Array) -> Array:
    """Return the probability of each class, shape (n, k); a binary model gives the one of class 1, shape (n,)."""
    return np.column_stack([1.0 - probability, probability]) if probability.ndim == 1 else probability


def require_intervals(goal: Goal, decision: Decision, kind: Literal["regression", "classification"]) -> Conformal:
    """Return the intervals of a model for this kind of task; raise DataError if it has none."""
    is_of_kind = goal.task in SUPERVISED and (goal.task in CLASSIFICATION) == (kind == "classification")
    what = "intervals" if kind == "regression" else "sets"
    if not is_of_kind:
        raise DataError(f"a {goal.task} model has no {what}", fix="use predict_table")
    if decision.intervals is None:
        raise DataError(f"the model has no prediction {what}", fix="train it with evaluate: {intervals: 0.9}")
    return decision.intervals


def no_predictions(goal: Goal) -> Prediction:
    """Return the prediction for zero rows, since estimators reject an empty matrix."""
    if goal.task in CLASSIFICATION:
        return Prediction(goal.task, probability=np.empty(0 if goal.task == "binary" else (0, goal.n_classes)))
    if goal.task == "regression":
        return Prediction(goal.task, value=np.empty(0))
    if goal.task == "quantile":
        return Prediction(goal.task, quantiles=np.empty((0, len(goal.quantiles))))
    if goal.task == "clustering":
        return Prediction(goal.task, label=np.empty(0, np.int32), distance=np.empty(0))
    return Prediction(goal.task, embedding=np.empty((0, 0), np.float32))
