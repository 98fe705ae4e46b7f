"""The rows of one class against the rest, in the order of their scores: one sort, and all that is read off it.

This is our own since nothing else measures alike on every backend: the array API of scikit-learn 1.9 covers neither
roc_auc_score nor matthews_corrcoef (that of 1.8 less), and cuML has no F1. scikit-learn also sorts the scores anew for
each metric and each curve. The tests hold ours to its values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend


@dataclass(frozen=True)
class Ranking:
    """How many rows are called positive, rightly and wrongly, from each score on.

    Arrays are where the backend computes. What is made of counts alone is the same to the last bit on every device, and
    in every order of the rows.

    Attributes
    ----------
    scores : array of float64, shape (m,)
        Those that occur, the highest first.
    hits, misses : array of int64, shape (m + 1,)
        Rows of the class, and others, with one of the ``i`` highest scores.
    positives, negatives : int
        All rows of the class, and all others.
    backend : Backend
    """

    scores: Array
    hits: Array
    misses: Array
    positives: int
    negatives: int
    backend: Backend

    @staticmethod
    def of(is_positive: Array, score: Array, backend: Backend) -> Ranking:
        """Sort rows.

        Parameters
        ----------
        is_positive : array of bool, shape (n,)
        score : array of float64 in 0..1, shape (n,)
        backend : Backend
            Where both are.
        """
        xp = backend.xp
        # The bits of such numbers order as they do, and the highest two are 0, but for the sign of a negative zero,
        # which is to go: so there is room for the class behind them. Keys alone are sorted several times as fast as an
        # index of them, and nothing need be gathered.
        key = xp.ascontiguousarray(score).view("int64") << 1
        key |= is_positive
        key.sort()
        key = key[::-1]
        bits = key >> 1
        is_last = xp.ones(len(key), dtype=bool)  # of its score
        is_last[:-1] = bits[1:] != bits[:-1]
        last = xp.flatnonzero(is_last)
        hits = _from_zero(xp.cumsum(key & 1)[last], backend)
        misses = _from_zero(last + 1, backend) - hits
        positives, negatives = (int(backend.to_host(counts[-1])) for counts in (hits, misses))
        return Ranking(bits[last].view("float64"), hits, misses, positives, negatives, backend)

    @property
    def is_defined(self) -> bool:
        """Whether there are rows of the class, and others."""
        return self.positives > 0 and self.negatives > 0

    def roc_area(self) -> float:
        """Return the area under the ROC curve: a number of half pairs of rows, so nothing is rounded before the end."""
        hits, misses = self.hits, self.misses
        area = ((misses[1:] - misses[:-1]) * (hits[1:] + hits[:-1])).sum()
        return int(self.backend.to_host(area)) / (2 * self.positives * self.negatives)

    def average_precision(self) -> float:
        """Return the area under the precision-recall curve as a sum of steps."""
        recall, precision = self.precision_recall()
        steps = (recall[1:] - recall[:-1]) * precision[1:]
        return float(self.backend.to_host(steps[::-1].sum()))  # in scikit-learn's order: the same digits on the host

    def precision_recall(self) -> tuple[Array, Array]:
        """Return recall and precision, shape (m + 1,), from no row to all; of no row the precision is 1."""
        precision = self.backend.xp.ones(len(self.hits))
        precision[1:] = self.hits[1:] / (self.hits + self.misses)[1:]
        return self.hits / self.positives, precision


def _from_zero(values: Array, backend: Backend) -> Array:
    """Return ``[0, *values]``."""
    found = backend.xp.zeros(len(values) + 1, dtype=values.dtype)
    found[1:] = values
    return found
