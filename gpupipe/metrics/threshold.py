"""Choice of the decision threshold, on rows that the model was not trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpupipe.errors import DataError
from gpupipe.metrics.predictions import ClassPredictions, cost_matrix
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.metrics.settings import Costs

Score = Callable[[Array, Array, float, float], Array]

# Each rule scores every possible threshold by true and false positives, and all positives and negatives.
RULES: dict[str, Score] = {
    "best_f1": lambda tp, fp, pos, neg: 2 * tp / (tp + fp + pos),
    "best_accuracy": lambda tp, fp, pos, neg: (tp + neg - fp) / (pos + neg),
    "best_balanced_accuracy": lambda tp, fp, pos, neg: (tp / pos + 1 - fp / neg) / 2,
    "youden": lambda tp, fp, pos, neg: tp / pos - fp / neg,
}


def choose_threshold(
    y: Array,
    probability: Array,
    how: str,
    costs: Costs | None = None,
    *,
    sample_weight: Array | None = None,
    backend: Backend,
) -> float:
    """Return the threshold that is best on these rows.

    It is the midpoint between the lowest probability predicted positive and the next lower one; the highest of several
    equal optima. If it is best to predict no row positive, it is the midpoint between the highest probability and 1.
    Raise DataError if the rows have only one class, or a value is not a probability.

    - `y`: array of 0 and 1, shape (n,)
    - `probability` (array of float64, shape (n,)): predictions for rows that the model was not trained on
    - `how`: {"best_f1", "best_accuracy", "best_balanced_accuracy", "youden", "min_cost"}
    - `costs`: required by min_cost
    - `backend`: backend that computes; arrays are copied to its device
    """
    rows = ClassPredictions.of("binary", y, probability, 0.5, 2, backend, sample_weight=sample_weight)
    ranking = next((found for _, found in rows.rankings()), None)
    if ranking is None:
        raise DataError(
            f"cannot choose a threshold: all {len(y):,} held-out rows have the same class",
            where=f"evaluate.threshold: {how}",
            fix="set a number, such as 0.5, or increase evaluate.validation",
        )
    hits, misses = ranking.hits.astype("float64"), ranking.misses.astype("float64")
    rule = _saving(costs) if costs is not None and how == "min_cost" else RULES[how]
    score = rule(hits, misses, ranking.positives, ranking.negatives)
    if float(backend.to_host(ranking.scores[0])) == 1.0:
        score[0] = -backend.xp.inf  # no threshold is above a probability of 1
    best = int(backend.to_host(score.argmax()))  # number of distinct scores predicted positive
    scores = backend.to_host(ranking.scores[max(0, best - 1) : best + 1]).tolist()
    lowest, below = [1.0, *scores] if best == 0 else [*scores, 0.0][:2]
    middle: float = (lowest + below) / 2
    return middle if middle > below else lowest  # adjacent floats have no midpoint


def _saving(costs: Costs) -> Score:
    """Return the rule that scores a threshold by the negative total cost of its decisions."""
    (true_negative, false_positive), (false_negative, true_positive) = cost_matrix(costs)

    def score(tp: Array, fp: Array, pos: float, neg: float) -> Array:
        return -(tp * true_positive + (pos - tp) * false_negative + fp * false_positive + (neg - fp) * true_negative)

    return score
