"""Record of the training side's outputs for the parity rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.errors import DeviceError
from gpupipe.features.program.fitted import Feature
from gpupipe.metrics import predicted_labels
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.models import FittedModel, Prediction
from gpupipe.pipeline.records.trial_rows import TrialRows
from gpupipe.table.encode import encode
from gpupipe.training.fit import TrainedModel
from gpupipe.typing import Array

REACH = 2.0  # rows are predicted if no feature exceeds this multiple of its largest value in the rows of the run


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


def record(
    trial: TrialRows, trained: TrainedModel, decision: Decision, goal: Goal, backend: Backend
) -> tuple[ParityRecord, list[str]]:
    """Return the outputs of the trained features and estimator on their own backend, and what was not recorded.

    The second value is a list of texts, each with the reason.
    """
    features = trained.features
    on_device = features.transform(encode(trial.inputs, backend, frozen=features.schema), backend)
    X = backend.to_host(on_device)
    missing = np.isnan(X)
    within = np.abs(X) <= _bounds(X[trial.rows >= 0], features.features)
    predicted = (within | (missing & trained.entry.params.accepts_missing)).all(axis=1)

    def predict(rows: Array) -> tuple[Array, Array]:
        selected = backend.xp.asfortranarray(on_device[backend.to_device(np.flatnonzero(rows))])
        return predict_arrays(trained.model, selected, decision, goal, backend)

    unstable = np.zeros(len(X), bool)
    unstable[predicted] = trained.model.unstable_rows(X[predicted])
    predicted &= ~unstable
    refused = ""
    try:
        found = predict(predicted)
    except DeviceError as error:  # some models do not accept missing values on a GPU
        refused, predicted = error.what, predicted & ~missing.any(axis=1)
        found = predict(predicted)
    notes = []
    if n_outside := int((~predicted & ~unstable).sum()):
        notes.append(f"predictions for {n_outside} rows with missing features, or values far outside those of the run")
    if n_unstable := int(unstable.sum()):
        notes.append(f"predictions for {n_unstable} rows that depend on the {backend.name}'s float32 rounding")
    if refused:
        notes.append(f"predictions for rows with missing features on the device: {refused}")
    return ParityRecord(trial, X, predicted, *(_spread(values, predicted) for values in found)), notes


def _bounds(usual: Array, features: Sequence[Feature]) -> Array:
    """Return the largest absolute value of each feature to predict with; larger values only test overflow."""
    sizes = np.abs(usual).max(axis=0, initial=1.0, where=np.isfinite(usual))
    limits: Array = np.maximum(REACH * sizes, [feature.n_codes for feature in features])
    return limits


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
        prediction.probability, prediction.value, prediction.quantiles, prediction.distance, prediction.embedding,
    )  # fmt: skip
    numbers = np.asarray(next(part for part in parts if part is not None), np.float64)
    if prediction.probability is not None:
        labels = predicted_labels(goal.task, prediction.probability, decision.threshold)
    else:
        labels = np.full(len(numbers), -1) if prediction.label is None else prediction.label
    return numbers.reshape(len(numbers), -1), np.asarray(labels).astype(np.int32)


def _spread(values: Array, rows: Array) -> Array:
    """Return the values scattered to the rows selected by the mask `rows`; other rows are NaN or -1."""
    everywhere = np.full((len(rows), *values.shape[1:]), np.nan if values.dtype.kind == "f" else -1, values.dtype)
    everywhere[rows] = values
    return everywhere
