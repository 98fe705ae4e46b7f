"""Predictions as labels, class probabilities and tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gpupipe.metrics import predicted_labels
from gpupipe.metrics.predictions import Threshold
from gpupipe.models import Prediction
from gpupipe.pipeline.target import Goal
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import Array


def prediction_values(prediction: Prediction, goal: Goal, threshold: Threshold) -> Array:
    """Return labels, values or clusters, shape (n,), or embeddings, shape (n, k)."""
    if prediction.probability is not None:
        return np.array(goal.labels)[predicted_labels(goal.task, prediction.probability, threshold)]
    return next(v for v in (prediction.value, prediction.label, prediction.embedding) if v is not None)


def prediction_table(prediction: Prediction, goal: Goal, threshold: Threshold) -> pa.Table:
    """Return predictions as a table; see `gpupipe.Model.predict_table` for its columns."""
    if prediction.probability is not None:
        probability = class_probabilities(prediction.probability)
        chosen = predicted_labels(goal.task, prediction.probability, threshold)
        columns = {"prediction": pa.array(goal.labels).take(pa.array(chosen))}
        return pa.table(
            columns | {f"probability_{label}": p for label, p in zip(goal.labels, probability.T, strict=True)}
        )
    if prediction.embedding is not None:
        return pa.table({f"embedding_{i}": column for i, column in enumerate(prediction.embedding.T)})
    if prediction.label is not None:
        return pa.table({"prediction": prediction.label, "distance": prediction.distance})
    return pa.table({"prediction": prediction.value})


def class_probabilities(probability: Array) -> Array:
    """Return the probability of each class, shape (n, k); a binary model gives the one of class 1, shape (n,)."""
    return np.column_stack([1.0 - probability, probability]) if probability.ndim == 1 else probability


def no_predictions(goal: Goal) -> Prediction:
    """Return the prediction for zero rows, since estimators reject an empty matrix."""
    if goal.task in CLASSIFICATION:
        return Prediction(goal.task, probability=np.empty(0 if goal.task == "binary" else (0, goal.n_classes)))
    if goal.task == "regression":
        return Prediction(goal.task, value=np.empty(0))
    if goal.task == "clustering":
        return Prediction(goal.task, label=np.empty(0, np.int32), distance=np.empty(0))
    return Prediction(goal.task, embedding=np.empty((0, 0), np.float32))
