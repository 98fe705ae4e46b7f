"""Measure a prediction: which metrics, and their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpupipe.errors import ConfigError
from gpupipe.metrics.clustering import sampled_rows
from gpupipe.metrics.predictions import (
    ClassPredictions,
    Predictions,
    Threshold,
    UnlabelledPredictions,
    ValuePredictions,
)
from gpupipe.metrics.registry import METRICS
from gpupipe.tasks import SUPERVISED
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.metrics.settings import Costs, Evaluate


def metric_names(task: str, settings: Evaluate) -> tuple[str, ...]:
    """Return the metrics to measure; the first orders the leaderboard.

    It is ``select_by``, or the first of ``metrics``, or the task's first: roc_auc (binary), log_loss (multiclass), r2,
    silhouette, reconstruction_r2.

    Raises
    ------
    ConfigError
        If a metric is unknown or belongs to another task, or costs do.
    """
    suitable = tuple(name for name, metric in METRICS.items() if task in metric.tasks)
    wanted = settings.metrics or [name for name in suitable if METRICS.get(name).default]
    first = settings.select_by or (settings.metrics or [DEFAULT_ORDER[task]])[0]
    names = tuple(dict.fromkeys([first, *wanted, *(["cost"] if settings.cost is not None else [])]))
    if settings.cost is None and "cost" in names:
        raise ConfigError(
            "the metric cost needs to know what each error costs",
            where="evaluate.metrics",
            fix="add evaluate.cost, such as {false_positive: 1, false_negative: 5}",
        )
    if settings.cost is not None and task != "binary":
        raise ConfigError(
            f"costs of errors are for two classes; the task is {task}", where="evaluate.cost", fix="remove it"
        )
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
    predicted: Array,
    names: Sequence[str],
    threshold: Threshold = 0.5,
    n_classes: int = 2,
    X: Callable[[Array | None], Array] | None = None,
    *,
    costs: Costs | None = None,
    backend: Backend,
) -> dict[str, float]:
    """Measure one prediction.

    Parameters
    ----------
    task : str
    y_true : array, shape (n,), or None
        Class codes or numbers; None for clustering and embedding.
    prediction : Prediction
    names : sequence of str
    threshold : float, or array of float64, shape (n,)
        binary: the lowest probability that is called positive, of all rows or of each.
    n_classes : int
    X : callable, optional
        Clustering and embedding: returns some rows of the feature matrix, on the host; it is given their numbers,
        int64, shape (m,), in no order, or None for all.
    costs : Costs, optional
        binary: for the metric ``cost``.
    backend : Backend
        Where to compute; what is not there yet is moved. Clusters and embeddings are judged on the host.

    Returns
    -------
    dict of str to float
        In the order of `names`. A metric that the rows do not define is NaN; `undefined_notes` says why.

    Raises
    ------
    DataError
        If something predicted is no probability, or no finite number.
    """
    rows = _predictions(task, y_true, predicted, threshold, n_classes, X, costs, backend)
    return {name: math.nan if rows is None else METRICS.get(name).function(rows) for name in names}


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


def _predictions(
    task: str,
    y_true: Array | None,
    predicted: Array,
    threshold: Threshold,
    n_classes: int,
    X: Callable[[Array | None], Array] | None,
    costs: Costs | None,
    backend: Backend,
) -> Predictions | None:
    """Return what the metrics of a task are functions of; None if there is nothing to judge by."""
    if task not in SUPERVISED:
        return None if X is None else _sample(predicted, X, backend)
    assert y_true is not None
    if not len(y_true):
        return None
    if task == "regression":
        return ValuePredictions.of(y_true, predicted, backend)
    return ClassPredictions.of(task, y_true, predicted, threshold, n_classes, backend, costs)


def _sample(found: Array, X: Callable[[Array | None], Array], backend: Backend) -> UnlabelledPredictions:
    rows = sampled_rows(len(found))
    if rows is not None:
        found = backend.to_device(found)[backend.to_device(rows)]
    return UnlabelledPredictions(X(rows), backend.to_host(found))
