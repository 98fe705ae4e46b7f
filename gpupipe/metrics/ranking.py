"""Ranking of the rows of one class against all others by score: one sort for ROC AUC, average precision and curves.

This is our own since nothing else measures alike on every backend: the array API of scikit-learn 1.9 covers neither
roc_auc_score nor matthews_corrcoef (that of 1.8 less), and cuML has no F1. scikit-learn also sorts the scores again for
each metric and each curve. The tests compare the results with those of scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend


@dataclass(frozen=True)
class Ranking:
    """Cumulative counts of true and false positives by score, highest score first.

    Arrays are on the device of the backend. Metrics computed from counts only are bit-identical on every device and for
    every order of the rows.
    """

    scores: Array  # float64, shape (m,): distinct scores, highest first
    # hits, misses: int64, or of float64 with weights, shape (m + 1,): number or weight of the rows of the class, and of
    # other rows, with one of the ``i`` highest scores.
    hits: Array
    misses: Array
    # positives, negatives: number or weight of all rows of the class, and of all other rows.
    positives: float
    negatives: float
    backend: Backend

    @staticmethod
    def of(is_positive: Array, score: Array, backend: Backend, sample_weight: Array | None = None) -> Ranking:
        """Return the ranking of rows, by one sort.

        All arrays have shape (n,); `score` is float64 in [0, 1].
        """
        if sample_weight is not None:
            return _weighted(is_positive, score, sample_weight, backend)
        xp = backend.xp
        # The bits of floats in [0, 1], read as integers, have the same order, and the top two bits are 0 (the shift
        # drops the sign of a negative zero). So the class fits into the lowest bit. Sorting keys is several times as
        # fast as argsort, and nothing has to be gathered.
        key = xp.ascontiguousarray(score).view("int64") << 1
        key |= is_positive
        key.sort()
        key = key[::-1]
        bits = key >> 1
        is_last = xp.ones(len(key), dtype=bool)  # last row of its score
        is_last[:-1] = bits[1:] != bits[:-1]
        last = xp.flatnonzero(is_last)
        hits = _from_zero(xp.cumsum(key & 1)[last], backend)
        misses = _from_zero(last + 1, backend) - hits
        positives, negatives = (int(backend.to_host(counts[-1])) for counts in (hits, misses))
        return Ranking(bits[last].view("float64"), hits, misses, positives, negatives, backend)

    @property
    def is_defined(self) -> bool:
        """True if there are rows of the class and other rows."""
        return self.positives > 0 and self.negatives > 0

    def roc_area(self) -> float:
        """Return the area under the ROC curve.

        Without weights, it is an integer count of half pairs of rows, rounded only by the division.
        """
        hits, misses = self.hits, self.misses
        area = self.backend.to_host(((misses[1:] - misses[:-1]) * (hits[1:] + hits[:-1])).sum()).item()
        return float(area / (2 * self.positives * self.negatives))

    def average_precision(self) -> float:
        """Return the area under the precision-recall curve as a sum of steps."""
        recall, precision = self.precision_recall()
        steps = (recall[1:] - recall[:-1]) * precision[1:]
        return float(
            self.backend.to_host(steps[::-1].sum())
        )  # the order of scikit-learn, for equal results on the host

    def precision_recall(self) -> tuple[Array, Array]:
        """Return recall and precision, shape (m + 1,), from no predicted row (precision 1) to all rows."""
        precision = self.backend.xp.ones(len(self.hits))
        precision[1:] = self.hits[1:] / (self.hits + self.misses)[1:]
        return self.hits / self.positives, precision


def _weighted(is_positive: Array, score: Array, sample_weight: Array, backend: Backend) -> Ranking:
    xp = backend.xp
    order = xp.argsort(score)[::-1]
    ranked, own = score[order], xp.where(is_positive[order], sample_weight[order], 0.0)
    others = xp.where(is_positive[order], 0.0, sample_weight[order])
    is_last = xp.ones(len(ranked), dtype=bool)
    is_last[:-1] = ranked[1:] != ranked[:-1]
    last = xp.flatnonzero(is_last)
    hits, misses = (_from_zero(xp.cumsum(weight)[last], backend) for weight in (own, others))
    positives, negatives = (float(backend.to_host(weight[-1])) for weight in (hits, misses))
    return Ranking(ranked[last], hits, misses, positives, negatives, backend)


def _from_zero(values: Array, backend: Backend) -> Array:
    """Return ``[0, *values]``."""
    found = backend.xp.zeros(len(values) + 1, dtype=values.dtype)
    found[1:] = values
    return found
