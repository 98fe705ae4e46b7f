"""Selection and computation of metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
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
from gpupipe.metrics.ranked_groups import RankedPredictions
from gpupipe.metrics.registry import METRICS
from gpupipe.tasks import SUPERVISED, Task
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.metrics.settings import Costs, Evaluate


def metric_names(tasks: Collection[Task], settings: Evaluate) -> tuple[str, ...]:
    """Return the names of the metrics to compute; the first orders the leaderboard.

    The first is ``select_by``, or the first of ``metrics``, or the default of the task: roc_auc (binary), log_loss
    (multiclass), r2 (regression), pinball_loss (quantile), ndcg (ranking), silhouette (clustering), reconstruction_r2
    (embedding). Raise ConfigError if a metric or ``cost`` is not available for a task.

    `tasks`: the task, or those of several targets.
    """
    task = "multiclass" if "multiclass" in tasks else next(iter(tasks))
    suitable = tuple(name for name, metric in METRICS.items() if metric.tasks.issuperset(tasks))
    wanted = settings.metrics or [name for name in suitable if METRICS.get(name).default]
    first = settings.select_by or (settings.metrics or [DEFAULT_ORDER[task]])[0]
    limited = [] if settings.fail_on is None else [name for _, name, _ in settings.fail_on.rules]
    names = tuple(dict.fromkeys([first, *wanted, *(["cost"] if settings.cost is not None else []), *limited]))
    if settings.cost is None and "cost" in names:
        raise ConfigError(
            "the metric cost needs evaluate.cost",
            where="evaluate.metrics",
            fix="add the costs of errors, such as evaluate: {cost: {false_positive: 1, false_negative: 5}}",
        )
    if settings.cost is not None and {*tasks} != {"binary"}:
        raise ConfigError(
            f"evaluate.cost is for the task binary; the task is {task}", where="evaluate.cost", fix="remove it"
        )
    wrong = [name for name in names if not METRICS.get(name).tasks.issuperset(tasks)]
    if wrong:
        raise ConfigError(
            f"metrics that are not available for the task {' or '.join(sorted(tasks))}: {', '.join(wrong)}",
            where="evaluate.metrics",
            fix=f"choose from {', '.join(suitable)}",
        )
    if settings.by and not SUPERVISED.issuperset(tasks):
        raise ConfigError(
            f"slices are for classification, regression and quantiles; the task is {task}",
            where="evaluate.by",
            fix="remove it",
        )
    return names


# With many classes, roc_auc does not measure the probabilities that a multiclass model is used for.
DEFAULT_ORDER = {
    "binary": "roc_auc",
    "multiclass": "log_loss",
    "regression": "r2",
    "quantile": "pinball_loss",
    "ranking": "ndcg",
    "clustering": "silhouette",
    "embedding": "reconstruction_r2",
}


IN_UNITS = frozenset({"rmse", "mae", "median_ae"})
"""Metrics in units of the target."""


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
    groups: Array | None = None,
    backend: Backend,
) -> dict[str, float]:
    """Compute metrics of one prediction.

    Raise DataError if a predicted value is not a probability, or not finite.

    - `y_true` (array, shape (n,), or None): class codes or numbers; None for clustering and embedding
    - `predicted` (array, shape (n,) or (n, k)): probabilities, values, quantiles, cluster labels or an embedding
    - `threshold` (float, or array of float64, shape (n,)): binary: the lowest probability predicted positive, for all
      rows or for each row
    - `X`: clustering and embedding: called with row numbers, int64, shape (m,), in no order, or None for all rows;
      returns these rows of the feature matrix on the host
    - `sample_weight` (array of float, shape (n,)): weight of each row; a row with weight 2 counts as two equal rows.
      Clusters and embeddings are measured without.
    - `costs`: binary: costs for the metric ``cost``
    - `quantiles`: quantile: the level of each column of `predicted`
    - `groups` (array of int64, shape (n,)): ranking: the code of the group of each row
    - `backend`: backend that computes; arrays are copied to its device. Rankings, clusters and embeddings are measured
      on the host.

    Returns
    -------
    dict of str to float
        Metrics in the order of `names`. An undefined metric is NaN; `undefined_notes` gives the reason.
    """
    import numpy as np

    rows = _predictions(
        task, y_true, predicted, threshold, n_classes, X, sample_weight, costs, quantiles, groups, backend
    )
    if rows is None:
        return dict.fromkeys(names, math.nan)
    with np.errstate(over="ignore"):  # a squared error above the range of float64 is infinite, and so is the metric
        return {name: METRICS.get(name).function(rows) for name in names}


def join_scores(names: Sequence[str], scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the metrics of several targets: the mean of each metric, then those of each target.

    A mean is NaN if the metric of a target is.

    Examples
    --------
    >>> join_scores(["price", "weight"], [{"r2": 0.5}, {"r2": 1.0}])
    {'r2': 0.75, 'r2[price]': 0.5, 'r2[weight]': 1.0}
    """
    means = {metric: math.fsum(each[metric] for each in scores) / len(scores) for metric in scores[0]}
    own: dict[str, float] = {}
    for name, each in zip(names, scores, strict=True):
        own |= {f"{metric}[{name}]": value for metric, value in each.items()}
    return means | own


def undefined_notes(task: str, values: Mapping[str, float]) -> list[str]:
    """Return a note with the reason for each metric that is NaN; of several targets, for those of each target."""
    reasons = {
        "binary": "the rows have only one class",
        "multiclass": "the rows have only one class",
        "regression": "there are fewer than 2 rows",
        "quantile": "there are fewer than 2 rows",
        "ranking": "no row is relevant",
        "clustering": "all rows are in one cluster, or each row is a separate cluster, or there is no feature matrix",
        "embedding": "the features are constant, or there is no feature matrix",
    }
    names = [name for name, value in values.items() if math.isnan(value) and not name.endswith("_std")]
    of_targets = [name for name in names if name.endswith("]")]  # a mean over the targets is then NaN too
    return [f"{name} is undefined: {reasons[task]}" for name in of_targets or names]


def unit_notes(names: Sequence[str], n_targets: int) -> list[str]:
    """Return a note if models are ordered by a mean of several targets with different units."""
    if n_targets < 2 or names[0] not in IN_UNITS:
        return []
    return [f"{names[0]} is a mean over targets in their units: the one with the largest numbers orders the models"]


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
    groups: Array | None,
    backend: Backend,
) -> Predictions | RankedPredictions | None:
    """Return the argument of the metrics of a task; None without rows or without a feature matrix."""
    if task not in SUPERVISED | {"ranking"}:
        return None if X is None else _sample(predicted, X, backend)
    assert y_true is not None
    if not len(y_true):
        return None
    if task == "regression":
        return ValuePredictions.of(y_true, predicted, backend, sample_weight)
    if task == "ranking":
        assert groups is not None
        return RankedPredictions.of(y_true, predicted, groups, backend)
    if task == "quantile":
        return QuantilePredictions.of(y_true, predicted, quantiles, backend, sample_weight)
    return ClassPredictions.of(task, y_true, predicted, threshold, n_classes, backend, costs, sample_weight)


def _sample(found: Array, X: Callable[[Array | None], Array], backend: Backend) -> UnlabelledPredictions:
    rows = sampled_rows(len(found))
    if rows is not None:
        found = backend.to_device(found)[backend.to_device(rows)]
    return UnlabelledPredictions(X(rows), backend.to_host(found))
