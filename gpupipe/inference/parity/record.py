"""Parity record of a model: rows, and the outputs of the training for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.metrics import predicted_labels
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.models import FittedModel, Prediction
from gpupipe.typing import Array


@dataclass(frozen=True)
class TrialRows:
    """Rows for the parity record of a model."""

    inputs: pa.Table  # the columns that the feature program reads, before encoding; derived columns have their values
    cases: list[str]  # description of each row: ``""`` for a row of the run, else the changed columns and their values
    rows: Array  # int64, shape (n_rows,): row number in the input of the run; -1 for generated rows
    # float64, shape (n_rows,), or (n_rows, k) for several targets: class codes or numbers; NaN if there is none.
    target: Array
    metrics: tuple[str, ...]  # metrics to compute on the rows with a target


@dataclass(frozen=True)
class ParityRecord:
    """Outputs of the training side for the parity rows.

    `X`, float32, shape (n, d), is the feature matrix. `predicted`, bool, shape (n,), has the rows with a recorded
    prediction. `outputs`, float64, shape (n, k), are probabilities, values, distances or embeddings; NaN in rows
    without a prediction. `labels`, int32, shape (n,), or (n, m) for several targets, are class codes or clusters; -1 if
    there are none.
    """

    trial: TrialRows
    X: Array
    predicted: Array
    outputs: Array
    labels: Array


def predict_arrays(
    model: FittedModel, X: Array, decision: Decision, goal: Goal, backend: Backend
) -> tuple[Array, Array]:
    """Return predictions for `X` on the host: numbers (float64, shape (n, k)) and labels (int32, shape (n,)).

    Labels of several targets have the shape (n, n_targets).
    """
    if len(X) == 0:  # estimators reject an empty matrix
        empty = (0, len(goal.targets)) if goal.targets else 0
        return np.empty((0, goal.n_outputs or 1)), np.empty(empty, np.int32)
    return _numbers_and_labels(decision.apply(model.predict(X).mapped(backend.to_host)), decision, goal)


def _numbers_and_labels(prediction: Prediction, decision: Decision, goal: Goal) -> tuple[Array, Array]:
    if goal.targets:
        each = zip(prediction.parts, decision.targets, goal.targets, strict=True)
        found = [_numbers_and_labels(*part) for part in each]
        return np.concatenate([own for own, _ in found], axis=1), np.stack([own for _, own in found], axis=1)
    parts = (
        prediction.probability,
        prediction.value,
        prediction.quantiles,
        prediction.distance,
        prediction.embedding,
    )
    numbers = np.asarray(next(part for part in parts if part is not None), np.float64)
    if prediction.probability is not None:
        labels = predicted_labels(goal.task, prediction.probability, decision.threshold)
    else:
        labels = np.full(len(numbers), -1) if prediction.label is None else prediction.label
    return numbers.reshape(len(numbers), -1), np.asarray(labels).astype(np.int32)
