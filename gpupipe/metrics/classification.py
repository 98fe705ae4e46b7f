"""Metrics of classifiers. Several classes: each against the rest, and the plain mean over classes (macro).

``probability`` has shape (n, k), the rows sum to one; `y_true` and labels are class codes. The mean is taken over the
classes that the rows hold: a test part without one of them is judged on the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gpupipe.metrics.registry import CLASSIFICATION, Array, metric


@metric("roc_auc", "probability", CLASSIFICATION)
def roc_auc(y_true: Array, probability: Array, n_classes: int) -> float:
    """Area under the ROC curve; not defined if the rows hold one class only."""
    from sklearn.metrics import roc_auc_score

    return _one_against_rest(roc_auc_score, y_true, probability, n_classes)


@metric("average_precision", "probability", CLASSIFICATION)
def average_precision(y_true: Array, probability: Array, n_classes: int) -> float:
    """Area under the precision-recall curve, as a sum of steps; not defined if the rows hold one class only."""
    from sklearn.metrics import average_precision_score

    return _one_against_rest(average_precision_score, y_true, probability, n_classes)


@metric("log_loss", "probability", CLASSIFICATION, greater_is_better=False)
def log_loss(y_true: Array, probability: Array, n_classes: int) -> float:
    """Mean negative logarithm of the probability of the true class."""
    from sklearn import metrics

    return float(metrics.log_loss(y_true, probability, labels=list(range(n_classes))))


@metric("brier", "probability", CLASSIFICATION, greater_is_better=False)
def brier(y_true: Array, probability: Array, n_classes: int) -> float:
    """Mean squared distance of the probability from the truth; several classes: summed over them."""
    import numpy as np

    if n_classes == 2:
        return float(np.mean((probability[:, 1] - y_true) ** 2))
    return float(np.mean(((probability - np.eye(n_classes)[y_true]) ** 2).sum(axis=1)))


@metric("f1", "label", CLASSIFICATION)
def f1(y_true: Array, label: Array, n_classes: int) -> float:
    """Harmonic mean of precision and recall."""
    from sklearn.metrics import f1_score

    return float(f1_score(y_true, label, **_averaging(y_true, n_classes)))


@metric("precision", "label", CLASSIFICATION)
def precision(y_true: Array, label: Array, n_classes: int) -> float:
    """Share of the rows called positive that are; 0 if none is called so."""
    from sklearn.metrics import precision_score

    return float(precision_score(y_true, label, **_averaging(y_true, n_classes)))


@metric("recall", "label", CLASSIFICATION)
def recall(y_true: Array, label: Array, n_classes: int) -> float:
    """Share of the positive rows that are called so; 0 if there is none."""
    from sklearn.metrics import recall_score

    return float(recall_score(y_true, label, **_averaging(y_true, n_classes)))


@metric("accuracy", "label", CLASSIFICATION)
def accuracy(y_true: Array, label: Array, n_classes: int) -> float:
    """Share of rows that are right."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(y_true, label))


@metric("balanced_accuracy", "label", CLASSIFICATION)
def balanced_accuracy(y_true: Array, label: Array, n_classes: int) -> float:
    """Mean over the classes of the share of their rows that are right."""
    import numpy as np
    from sklearn.metrics import recall_score

    return float(recall_score(y_true, label, labels=np.unique(y_true), average="macro", zero_division=0))


@metric("matthews", "label", CLASSIFICATION)
def matthews(y_true: Array, label: Array, n_classes: int) -> float:
    """Matthews' correlation of truth and prediction, -1 to 1; 0 if either is constant."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(y_true, label))


def _one_against_rest(score: Callable[..., float], y_true: Array, probability: Array, n_classes: int) -> float:
    import numpy as np

    present = np.unique(y_true)
    if len(present) < 2:
        return math.nan
    if n_classes == 2:
        return float(score(y_true, probability[:, 1]))
    return float(np.mean([score(y_true == code, probability[:, code]) for code in present]))


def _averaging(y_true: Array, n_classes: int) -> dict[str, Any]:
    import numpy as np

    if n_classes == 2:
        return {"pos_label": 1, "average": "binary", "zero_division": 0}
    return {"labels": np.unique(y_true), "average": "macro", "zero_division": 0}
