"""Metrics of classifiers. Several classes: each against the rest, and the plain mean over classes (macro).

The mean is taken over the classes that the rows hold: a test part without one of them is judged on the others. What
counts rows is made of the confusion matrix, which is counted once.
"""

from __future__ import annotations

import math

from gpupipe.metrics.predictions import ClassPredictions, cost_matrix, mean
from gpupipe.metrics.registry import metric
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import Array

EPSILON = 2.0**-52  # a probability is taken to be so far from 0 and 1 before its logarithm, as in scikit-learn


@metric("roc_auc", CLASSIFICATION)
def roc_auc(rows: ClassPredictions) -> float:
    """Area under the ROC curve; not defined if the rows hold one class only."""
    return rows.areas[0]


@metric("average_precision", CLASSIFICATION)
def average_precision(rows: ClassPredictions) -> float:
    """Area under the precision-recall curve, as a sum of steps; not defined if the rows hold one class only."""
    return rows.areas[1]


@metric("log_loss", CLASSIFICATION, greater_is_better=False)
def log_loss(rows: ClassPredictions) -> float:
    """Mean negative logarithm of the probability of the true class."""
    return rows.mean(-rows.backend.xp.log(rows.of_truth.clip(EPSILON, 1.0 - EPSILON)))


@metric("brier", CLASSIFICATION, greater_is_better=False)
def brier(rows: ClassPredictions) -> float:
    """Mean squared distance of the probability from the truth; several classes: summed over them."""
    if rows.n_classes == 2:
        return rows.mean((rows.probability - rows.y_true) ** 2)
    return rows.mean(((rows.probability - rows.backend.xp.eye(rows.n_classes)[rows.y_true]) ** 2).sum(axis=1))


@metric("f1", CLASSIFICATION)
def f1(rows: ClassPredictions) -> float:
    """Harmonic mean of precision and recall."""
    right, held, called = _by_class(rows.counts)
    return _shares(2 * right, held + called, _predicted_classes(rows))


@metric("precision", CLASSIFICATION)
def precision(rows: ClassPredictions) -> float:
    """Share of the rows called positive that are; 0 if none is called so."""
    right, _, called = _by_class(rows.counts)
    return _shares(right, called, _predicted_classes(rows))


@metric("recall", CLASSIFICATION)
def recall(rows: ClassPredictions) -> float:
    """Share of the positive rows that are called so; 0 if there is none."""
    right, held, _ = _by_class(rows.counts)
    return _shares(right, held, _predicted_classes(rows))


@metric("accuracy", CLASSIFICATION)
def accuracy(rows: ClassPredictions) -> float:
    """Share of rows that are right."""
    return float(rows.counts.trace() / rows.counts.sum())


@metric("balanced_accuracy", CLASSIFICATION)
def balanced_accuracy(rows: ClassPredictions) -> float:
    """Mean over the classes of the share of their rows that are right."""
    right, held, _ = _by_class(rows.counts)
    return _shares(right, held, rows.present)


@metric("matthews", CLASSIFICATION)
def matthews(rows: ClassPredictions) -> float:
    """Matthews' correlation of truth and prediction, -1 to 1; 0 if either is constant."""
    right, held, called = (counts.astype(float) for counts in _by_class(rows.counts))
    n_rows = held.sum()
    spread = (n_rows**2 - called @ called) * (n_rows**2 - held @ held)
    return float((right.sum() * n_rows - held @ called) / math.sqrt(spread)) if spread else 0.0


@metric("cost", ("binary",), greater_is_better=False, default=False)
def cost(rows: ClassPredictions) -> float:
    """Mean cost of a row's decision, at the costs of ``evaluate.cost``."""
    if rows.costs is None:
        raise ValueError("the metric cost needs costs")
    return float((rows.counts * cost_matrix(rows.costs)).sum() / rows.counts.sum())


def _by_class(counts: Array) -> tuple[Array, Array, Array]:
    """Return of each class how many of its rows are called so, how many it has, and how many are called so at all."""
    return counts.diagonal(), counts.sum(axis=1), counts.sum(axis=0)


def _predicted_classes(rows: ClassPredictions) -> list[int]:
    return [1] if rows.n_classes == 2 else rows.present


def _shares(part: Array, whole: Array, classes: list[int]) -> float:
    """Return the mean over some classes of ``part / whole``; of nothing it is 0."""
    return mean([float(part[code] / whole[code]) if whole[code] else 0.0 for code in classes])
