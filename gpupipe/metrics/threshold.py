"""Choose the probability from which on a row is called positive."""

from __future__ import annotations

from collections.abc import Callable

from gpupipe.errors import DataError
from gpupipe.metrics.registry import Array

# Each rule scores every possible cut from its true and false positives and the numbers of positives and negatives.
RULES: dict[str, Callable[[Array, Array, int, int], Array]] = {
    "best_f1": lambda tp, fp, pos, neg: 2 * tp / (tp + fp + pos),
    "best_accuracy": lambda tp, fp, pos, neg: (tp + neg - fp) / (pos + neg),
    "best_balanced_accuracy": lambda tp, fp, pos, neg: (tp / pos + 1 - fp / neg) / 2,
    "youden": lambda tp, fp, pos, neg: tp / pos - fp / neg,
}


def choose_threshold(y: Array, probability: Array, how: str) -> float:
    """Return the threshold that is best on these rows.

    Parameters
    ----------
    y : array of 0 and 1, shape (n,)
    probability : array, shape (n,)
        Of rows that the model has not seen.
    how : {"best_f1", "best_accuracy", "best_balanced_accuracy", "youden"}

    Returns
    -------
    float
        Half-way between the lowest probability called positive and the next one; among equals, the highest cut.

    Raises
    ------
    DataError
        If the rows hold only one class.
    """
    import numpy as np

    y = np.asarray(y) > 0
    positives = int(y.sum())
    if not 0 < positives < len(y):
        raise DataError(
            f"a threshold cannot be chosen: all {len(y):,} held-out rows are of one class",
            where=f"evaluate.threshold: {how}",
            fix="set a number, such as 0.5, or a larger evaluate.validation",
        )
    order = np.argsort(-probability, kind="stable")
    p, hits = probability[order], y[order]
    last = np.append(np.flatnonzero(np.diff(p)), len(p) - 1)  # the last row of each run of equal probabilities
    true_positives = np.cumsum(hits)[last].astype(np.float64)
    false_positives = last + 1 - true_positives
    best = int(np.argmax(RULES[how](true_positives, false_positives, positives, len(y) - positives)))
    lowest = float(p[last[best]])
    below = float(p[last[best] + 1]) if best + 1 < len(last) else 0.0
    middle = (lowest + below) / 2
    return middle if middle > below else lowest  # neighbouring floats have no middle
