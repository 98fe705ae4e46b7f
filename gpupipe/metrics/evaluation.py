"""Measure a prediction: which metrics, and their values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gpupipe.errors import ConfigError
from gpupipe.metrics.registry import CLASSIFICATION, METRICS, Array

if TYPE_CHECKING:
    from gpupipe.metrics.settings import Evaluate


class Predicted(Protocol):
    """What is read of a prediction; see `gpupipe.models.Prediction`."""

    @property
    def probability(self) -> Array: ...
    @property
    def value(self) -> Array: ...
    @property
    def label(self) -> Array: ...
    @property
    def embedding(self) -> Array: ...


def metric_names(task: str, settings: Evaluate) -> tuple[str, ...]:
    """Return the metrics to measure; the first orders the leaderboard.

    It is ``select_by``, or the first of ``metrics``, or the task's first: roc_auc (binary), log_loss (multiclass), r2,
    silhouette, reconstruction_r2.

    Raises
    ------
    ConfigError
        If a metric is unknown, or belongs to another task.
    """
    suitable = tuple(name for name, metric in METRICS.items() if task in metric.tasks)
    wanted = settings.metrics or [name for name in suitable if METRICS.get(name).default]
    first = settings.select_by or (settings.metrics or [DEFAULT_ORDER[task]])[0]
    names = tuple(dict.fromkeys([first, *wanted]))
    wrong = [name for name in names if task not in METRICS.get(name).tasks]
    if wrong:
        raise ConfigError(
            f"{', '.join(wrong)} cannot be measured for a {task} task",
            where="evaluate.metrics",
            fix=f"choose among {', '.join(suitable)}",
        )
    return names


# roc_auc of many classes says little of the probabilities that a multiclass model is used for.
DEFAULT_ORDER = {
    "binary": "roc_auc",
    "multiclass": "log_loss",
    "regression": "r2",
    "clustering": "silhouette",
    "embedding": "reconstruction_r2",
}


def evaluate(
    task: str,
    y_true: Array | None,
    prediction: Predicted,
    names: Sequence[str],
    threshold: float = 0.5,
    n_classes: int = 2,
    X: Array | None = None,
) -> dict[str, float]:
    """Measure one prediction.

    Parameters
    ----------
    task : str
    y_true : array, shape (n,), or None
        Class codes or numbers; None for clustering and embedding.
    prediction : Prediction
    names : sequence of str
    threshold : float
        binary: the probability from which on a row is called positive.
    n_classes : int
    X : array, shape (n, d), optional
        The feature matrix, for clustering and embedding.

    Returns
    -------
    dict of str to float
        In the order of `names`. A metric that the rows do not define is NaN; `undefined_notes` says why.
    """
    inputs = _inputs(task, y_true, prediction, threshold)
    values = {}
    for name in names:
        metric = METRICS.get(name)
        if task in CLASSIFICATION or task == "regression":
            y = inputs["y_true"]
            values[name] = metric.function(y, inputs[metric.needs], n_classes) if len(y) else math.nan
        else:
            values[name] = math.nan if X is None else metric.function(X, inputs[metric.needs])
    return values


def predicted_labels(task: str, probability: Array, threshold: float = 0.5) -> Array:
    """Return the class code of each row: binary by the threshold, several classes by the highest probability."""
    import numpy as np

    if task == "binary":
        return (probability >= threshold).astype(np.int64)
    return probability.argmax(axis=1)


def undefined_notes(task: str, values: Mapping[str, float]) -> list[str]:
    """Return a sentence on each metric that came out as NaN."""
    reasons = {
        "binary": "the rows hold only one class",
        "multiclass": "the rows hold only one class",
        "regression": "there are fewer than two rows",
        "clustering": "all rows are in one cluster, or each row is its own, or no feature matrix was kept",
        "embedding": "the features do not vary, or no feature matrix was kept",
    }
    return [f"{name} is not defined: {reasons[task]}" for name, value in values.items() if math.isnan(value)]


def _inputs(task: str, y_true: Array | None, prediction: Predicted, threshold: float) -> dict[str, Any]:
    """Return what metrics may need, by the names of `Metric.needs`."""
    import numpy as np

    if task in CLASSIFICATION:
        probability = np.asarray(prediction.probability, np.float64)
        label = predicted_labels(task, probability, threshold)
        if task == "binary":
            probability = np.column_stack([1.0 - probability, probability])
        else:  # float32 sums to one only nearly, which scikit-learn remarks on
            probability = probability / probability.sum(axis=1, keepdims=True)
        return {"y_true": np.asarray(y_true).astype(np.int64), "probability": probability, "label": label}
    if task == "regression":
        return {"y_true": np.asarray(y_true, np.float64), "value": prediction.value}
    return {"cluster": prediction.label, "embedding": prediction.embedding}
