"""Choose the probability from which on a row is called positive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpupipe.errors import DataError
from gpupipe.metrics.judged import Classified
from gpupipe.metrics.registry import Array

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend

# Each rule scores every possible cut from its true and false positives and the numbers of positives and negatives.
RULES: dict[str, Callable[[Array, Array, int, int], Array]] = {
    "best_f1": lambda tp, fp, pos, neg: 2 * tp / (tp + fp + pos),
    "best_accuracy": lambda tp, fp, pos, neg: (tp + neg - fp) / (pos + neg),
    "best_balanced_accuracy": lambda tp, fp, pos, neg: (tp / pos + 1 - fp / neg) / 2,
    "youden": lambda tp, fp, pos, neg: tp / pos - fp / neg,
}


def choose_threshold(y: Array, probability: Array, how: str, *, backend: Backend) -> float:
    """Return the threshold that is best on these rows.

    Parameters
    ----------
    y : array of 0 and 1, shape (n,)
    probability : array of float64, shape (n,)
        Of rows that the model has not seen.
    how : {"best_f1", "best_accuracy", "best_balanced_accuracy", "youden"}
    backend : Backend
        Where to compute; what is not there yet is moved.

    Returns
    -------
    float
        Half-way between the lowest probability called positive and the next one; among equals, the highest cut.

    Raises
    ------
    DataError
        If the rows hold only one class, or something is no probability.
    """
    rows = Classified.of("binary", y, probability, 0.5, 2, backend)
    ranking = next((found for _, found in rows.rankings()), None)
    if ranking is None:
        raise DataError(
            f"a threshold cannot be chosen: all {len(y):,} held-out rows are of one class",
            where=f"evaluate.threshold: {how}",
            fix="set a number, such as 0.5, or a larger evaluate.validation",
        )
    hits, misses = ranking.hits[1:].astype("float64"), ranking.misses[1:].astype("float64")
    score = RULES[how](hits, misses, ranking.positives, ranking.negatives)
    best = int(backend.to_host(score.argmax()))
    lowest, below = [*backend.to_host(ranking.scores[best : best + 2]).tolist(), 0.0][:2]
    middle: float = (lowest + below) / 2
    return middle if middle > below else lowest  # neighbouring floats have no middle
