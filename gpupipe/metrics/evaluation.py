"""Selection and computation of metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpupipe.errors import ConfigError
from gpupipe.metrics.clustering import sampled_rows
from gpupipe.metrics.predictions import (
    ClassPredictions,
    Predictions,
    QuantilePredictions,
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
    """Return the names of the metrics to compute; the first orders the leaderboard.

    The first is ``select_by``, or the first of ``metrics``, or the default of the task: roc_auc (binary), log_loss
    (multiclass), r2 (regression), pinball_loss (quantile), silhouette (clustering), reconstruction_r2 (embedding).

    Raises
    ------
    ConfigError
        If a metric or ``cost`` is not available for the task.
    """
    suitable = tuple(name for name, metric in METRICS.items() if task in metric.tasks)
    wanted = settings.metrics or [name for name in suitable if METRICS.get(name).default]
    first = settings.select_by or (settings.metrics or [DEFAULT_ORDER[task]])[0]
    names = tuple(dict.fromkeys([first, *wanted, *(["cost"] if settings.cost is not None else [])]))
    if settings.cost is None and "cost" in names:
        raise ConfigError(
            "the metric cost needs evaluate.cost",
            where="evaluate.metrics",
            fix="add the costs of errors, such as evaluate: {cost: {false_positive: 1, false_negative: 5}}",
        )
    if settings.cost is not None and task != "binary":
        raise ConfigError(
            f"evaluate.cost is for the task binary; the task is {task}", where="evaluate.cost", fix="remove it"
        )
    wrong = [name for name in names if task not in METRICS.get(name).tasks]
    if wrong:
        raise ConfigError(
            f"metrics that are not available for the task {task}: {', '.join(wrong)}",
            where="evaluate.metrics",
            fix=f"choose from {', '.join(suitable)}",
        )
    return names


# With many classes, roc_auc does not measure the probabilities that a multiclass model is used for.
DEFAULT_ORDER = {
    "binary": "roc_auc",
    "multiclass": "log_loss",
    "regression": "r2",
    "quantile": "pinball_loss",
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
    sample_weight: Array | None = None,
    costs: Costs | None = None,
    quantiles: Sequence[float] = (),
    backend: Backend,
) -> dict[str, float]:
    """Compute metrics of one prediction.

    Parameters
    ----------
    task : str
    y_true : array, shape (n,), or None
        Class codes or numbers; None for clustering and embedding.
    predicted : array, shape (n,) or (n, k)
        Probabilities, values, quantiles, cluster labels or an embedding.
    names : sequence of str
    threshold : float, or array of float64, shape (n,)
        binary: the lowest probability predicted positive, for all rows or for each row.
    n_classes : int
    X : callable, optional
        Clustering and embedding: called with row numbers, int64, shape (m,), in no order, or None for all rows; returns
        these rows of the feature matrix on the host.
    sample_weight : array of float, shape (n,), optional
        Weight of each row; a row with weight 2 counts as two equal rows. Clusters and embeddings are measured without.
    costs : Costs, optional
        binary: costs for the metric ``cost``.
    quantiles : sequence of float
        quantile: the level of each column of `predicted`.
    backend : Backend
        Backend that computes; arrays are copied to its device. Clusters and embeddings are measured on the host.

    Returns
    -------
    dict of str to float
        Metrics in the order of `names`. An undefined metric is NaN; `undefined_notes` gives the reason.

    Raises
    ------
    DataError
        If a predicted value is not a probability, or not finite.
    """
    rows = _predictions(task, y_true, predicted, threshold, n_classes, X, sample_weight, costs, quantiles, backend)
    return {name: math.nan if rows is None else METRICS.get(name).function(rows) for name in names}


def undefined_notes(task: str, values: Mapping[str, float]) -> list[str]:
    """Return a note with the reason for each metric that is NaN."""
    reasons = {
        "binary": "the rows have only one class",
        "multiclass": "the rows have only one class",
        "regression": "there are fewer than 2 rows",
        "quantile": "there are fewer than 2 rows",
        "clustering": "all rows are in one cluster, or each row is a separate cluster, or there is no feature matrix",
        "embedding": "the features are constant, or there is no feature matrix",
    }
    return [f"{name} is undefined: {reasons[task]}" for name, value in values.items() if math.isnan(value)]


def _predictions(
    task: str,
    y_true: Array | None,
    predicted: Array,
    threshold: Threshold,
    n_classes: int,
    X: Callable[[Array | None], Array] | None,
    sample_weight: Array | None,
    costs: Costs | None,
    quantiles: Sequence[float],
    backend: Backend,
) -> Predictions | None:
    """Return the argument of the metrics of a task; None without rows or without a feature matrix."""
    if task not in SUPERVISED:
        return None if X is None else _sample(predicted, X, backend)
    assert y_true is not None
    if not len(y_true):
        return None
    if task == "regression":
        return ValuePredictions.of(y_true, predicted, backend, sample_weight)
    if task == "quantile":
        return QuantilePredictions.of(y_true, predicted, quantiles, backend, sample_weight)
    return ClassPredictions.of(task, y_true, predicted, threshold, n_classes, backend, costs, sample_weight)


def _sample(found: Array, X: Callable[[Array | None], Array], backend: Backend) -> UnlabelledPredictions:
    rows = sampled_rows(len(found))
    if rows is not None:
        found = backend.to_device(found)[backend.to_device(rows)]
    return UnlabelledPredictions(X(rows), backend.to_host(found))
