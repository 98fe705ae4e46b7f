"""Metrics of classifiers. With more than two classes: one class against all others, averaged over classes (macro).

The average is taken over the classes that occur in the rows, so a split that lacks a class is scored on the remaining
ones. All metrics that count rows use the confusion matrix, which is computed once.
"""

from __future__ import annotations

import math

from gpupipe.metrics.predictions import ClassPredictions, cost_matrix, mean
from gpupipe.metrics.registry import metric
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import Array

EPSILON = 2.0**-52  # probabilities are clipped to [EPSILON, 1 - EPSILON] before the logarithm, as in scikit-learn


@metric("roc_auc", CLASSIFICATION)
def roc_auc(rows: ClassPredictions) -> float:
    """Area under the ROC curve, 0.5 for random scores and 1 for a perfect order; undefined for a single class."""
    return rows.areas[0]


@metric("average_precision", CLASSIFICATION)
def average_precision(rows: ClassPredictions) -> float:
    """Area under the precision-recall curve, computed as a sum of steps; undefined for a single class."""
    return rows.areas[1]


@metric("log_loss", CLASSIFICATION, greater_is_better=False)
def log_loss(rows: ClassPredictions) -> float:
    """Mean negative logarithm of the probability of the true class."""
    return rows.mean(-rows.backend.xp.log(rows.of_truth.clip(EPSILON, 1.0 - EPSILON)))


@metric("brier", CLASSIFICATION, greater_is_better=False)
def brier(rows: ClassPredictions) -> float:
    """Mean squared difference of probability and truth (0 or 1); for more than two classes, summed over classes."""
    if rows.n_classes == 2:
        return rows.mean((rows.probability - rows.y_true) ** 2)
    return rows.mean(((rows.probability - rows.backend.xp.eye(rows.n_classes)[rows.y_true]) ** 2).sum(axis=1))


@metric("f1", CLASSIFICATION)
def f1(rows: ClassPredictions) -> float:
    """Harmonic mean of precision and recall."""
    right, actual, predicted = _by_class(rows.counts)
    return _mean_ratio(2 * right, actual + predicted, _averaged_classes(rows))


@metric("precision", CLASSIFICATION)
def precision(rows: ClassPredictions) -> float:
    """Fraction of the rows predicted positive that are positive; 0 if no row is predicted positive."""
    right, _, predicted = _by_class(rows.counts)
    return _mean_ratio(right, predicted, _averaged_classes(rows))


@metric("recall", CLASSIFICATION)
def recall(rows: ClassPredictions) -> float:
    """Fraction of the positive rows that are predicted positive; 0 if no row is positive."""
    right, actual, _ = _by_class(rows.counts)
    return _mean_ratio(right, actual, _averaged_classes(rows))


@metric("accuracy", CLASSIFICATION)
def accuracy(rows: ClassPredictions) -> float:
    """Fraction of the rows with the correct class."""
    return float(rows.counts.trace() / rows.counts.sum())


@metric("balanced_accuracy", CLASSIFICATION)
def balanced_accuracy(rows: ClassPredictions) -> float:
    """Recall averaged over all classes."""
    right, actual, _ = _by_class(rows.counts)
    return _mean_ratio(right, actual, rows.present)


@metric("matthews", CLASSIFICATION)
def matthews(rows: ClassPredictions) -> float:
    """Matthews correlation coefficient of truth and prediction, from -1 to 1; 0 if either is constant."""
    right, actual, predicted = (counts.astype(float) for counts in _by_class(rows.counts))
    n_rows = actual.sum()
    spread = (n_rows**2 - predicted @ predicted) * (n_rows**2 - actual @ actual)
    return float((right.sum() * n_rows - actual @ predicted) / math.sqrt(spread)) if spread else 0.0


@metric("cost", ("binary",), greater_is_better=False, default=False)
def cost(rows: ClassPredictions) -> float:
    """Mean cost of the decision for a row, with the costs of ``evaluate.cost``."""
    if rows.costs is None:
        raise ValueError("the metric cost needs costs")
    return float((rows.counts * cost_matrix(rows.costs)).sum() / rows.counts.sum())


def _by_class(counts: Array) -> tuple[Array, Array, Array]:
    """Return for each class the number of correct, of actual and of predicted rows."""
    return counts.diagonal(), counts.sum(axis=1), counts.sum(axis=0)


def _averaged_classes(rows: ClassPredictions) -> list[int]:
    return [1] if rows.n_classes == 2 else rows.present


def _mean_ratio(part: Array, whole: Array, classes: list[int]) -> float:
    """Return the mean of ``part / whole`` over `classes`; a ratio with ``whole`` 0 is 0."""
    return mean([float(part[code] / whole[code]) if whole[code] else 0.0 for code in classes])
