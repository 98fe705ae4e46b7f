"""Split conformal prediction: intervals for values and sets of classes that contain the truth at a stated rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpupipe.backends.weighted_quantiles import count_rows
from gpupipe.errors import DataError
from gpupipe.typing import Array

RESOLUTION = (
    1024  # logarithms are rounded to 1 / RESOLUTION before they are hashed, so that rounding errors rarely matter
)
TINY = 1e-30  # smaller probabilities are hashed as this one


@dataclass(frozen=True)
class Conformal:
    """Intervals or sets that contain the truth of new rows with probability `level`.

    A value is expected within ``value - score`` and ``value + score``; with predicted quantiles, between the lower one
    minus the score and the upper one plus the score. Classes are taken from the most probable one on, until the sum of
    their probabilities, the last one counted in part, exceeds `score`.

    Notes
    -----
    The guarantee needs exchangeable rows; under drift or with time series, the coverage is approximate. Intervals are
    those of Lei, G'Sell, Rinaldo, Tibshirani and Wasserman, "Distribution-free predictive inference for regression",
    JASA 113 (2018) 1094; of quantiles, those of Romano, Patterson and Candès, "Conformalized quantile regression",
    NeurIPS 2019. Sets are the adaptive ones of Romano, Sesia and Candès, "Classification with valid and adaptive
    coverage", NeurIPS 2020. Their random number is a hash of the probabilities of the row: any function of the row
    keeps the guarantee, and equal rows get equal sets.
    """

    level: float
    # float, or float64, shape (n,): quantile of the conformity scores of held-out rows. When the rows of several folds
    # are evaluated together, that of each row. Infinite: nothing is excluded. Negative, for quantiles that are too far
    # apart: they move inwards.
    score: float | Array
    ends: tuple[int, int] | None = None  # quantiles only: positions of those at the ends of the interval

    def interval(self, output: Array) -> tuple[Array, Array]:
        """Return the lower and upper ends for predicted values, float64, shape (n,), or quantiles, shape (n, k).

        Ends that would cross are their mean.
        """
        if self.ends is None:
            return output - self.score, output + self.score
        low, high = (output[:, end] for end in self.ends)
        middle = low + 0.5 * (high - low)
        return (low - self.score).clip(None, middle), (high + self.score).clip(middle, None)

    def members(self, probability: Array) -> Array:
        """Return whether each class is in the set of each row, shape (n, k); see `set_scores`."""
        score = self.score if isinstance(self.score, float) else self.score[:, None]
        found: Array = set_scores(probability) <= score
        return found

    def to_json(self) -> dict[str, Any]:
        """Return level, score and ends as JSON values."""
        ends = {} if self.ends is None else {"ends": list(self.ends)}
        return {"level": self.level, "score": float(self.score), **ends}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Conformal:
        """Return the intervals from the result of `to_json`."""
        ends = value.get("ends")
        return Conformal(value["level"], value["score"], None if ends is None else tuple(ends))


def interval_ends(level: float, quantiles: Sequence[float]) -> tuple[int, int] | None:
    """Return the positions of the quantiles between which a fraction `level` is expected, as many outside on each side.

    None if they are not both among `quantiles`.

    Examples
    --------
    >>> interval_ends(0.8, (0.1, 0.5, 0.9)), interval_ends(0.9, (0.1, 0.5, 0.9))
    ((0, 2), None)
    """
    found = [
        next((i for i, q in enumerate(quantiles) if math.isclose(q, end, abs_tol=1e-9)), None)
        for end in (0.5 - level / 2, 0.5 + level / 2)
    ]
    low, high = found
    return None if low is None or high is None else (low, high)


def set_scores(probability: Array) -> Array:
    """Return the conformity score of each class, float64, shape (n, k).

    It is the sum of the probabilities of all more probable classes, plus a part of the class's probability. The part is
    a number in [0, 1) for each row, computed from its probabilities. `probability` is on the host, float64: that of
    class 1, shape (n,), if binary, otherwise of each class, shape (n, k).

    Examples
    --------
    >>> import numpy as np
    >>> set_scores(np.array([[0.7, 0.2, 0.1]])).round(2).tolist()
    [[0.1, 0.73, 0.91]]
    """
    import numpy as np

    both: Array = probability if probability.ndim > 1 else np.column_stack([1.0 - probability, probability])
    order = np.argsort(-both, axis=1, kind="stable")
    rows = np.arange(len(both))[:, None]
    ranked = both[rows, order]
    scores = np.cumsum(ranked, axis=1) - ranked * (1.0 - _parts(both))[:, None]
    found: Array = np.empty_like(scores)
    found[rows, order] = scores
    return found


def _parts(probability: Array) -> Array:
    """Return a number in [0, 1) for each row, a hash of the rounded logarithms of its probabilities.

    Logarithms distinguish rows whose largest probability is almost 1.
    """
    import numpy as np

    from gpupipe_kernels.formulas.hashes import mix

    found: Array = np.zeros(len(probability), np.uint32)
    logs = np.rint(np.log(probability.clip(TINY, None)) * RESOLUTION).astype(np.int64)
    for column in logs.T.astype(np.uint32):  # negative numbers wrap
        found = mix(found * np.uint32(31) + column + np.uint32(1))
    return found / 2.0**32


def fit_conformal(
    level: float,
    y: Array,
    output: Array,
    sample_weight: Array | None = None,
    ends: tuple[int, int] | None = None,
) -> Conformal:
    """Return intervals for values or quantiles, or sets for classes, calibrated on held-out rows.

    Raise DataError if there are too few rows for the level.

    - `level`: expected coverage, between 0 and 1
    - `y` (array, shape (n,)): True values, or class codes as int64, of rows that the model was not trained on
    - `output` (array of float64, shape (n,) or (n, k)): their predicted values, quantiles or probabilities; on the host
    - `sample_weight` (array of float64, shape (n,)): weight of each row in the coverage: a row with weight 2 counts as
      two rows. If the smallest weight is less than 1, it is the weight of one row.
    - `ends`: quantiles: see `Conformal`

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0.5, -0.1, 0.2, -0.8, 0.3, 0.4, -0.7, 0.6, 0.9])
    >>> fit_conformal(0.8, y, np.zeros(9))
    Conformal(level=0.8, score=0.8, ends=None)
    """
    import numpy as np

    n_rows = len(y)
    require_rows(level, n_rows)
    scores: Array
    if y.dtype.kind == "i":
        scores = set_scores(output)[np.arange(n_rows), y]
    elif ends is None:
        scores = np.abs(y - output)
    else:
        scores = np.maximum(output[:, ends[0]] - y, y - output[:, ends[1]])
    order = np.argsort(scores, kind="stable")
    weight = np.ones(n_rows) if sample_weight is None else sample_weight
    mass, n = np.cumsum(weight[order]), count_rows(weight)
    at = int(np.searchsorted(mass, mass[-1] * min(_rank(level, n) / n, 1.0) * (1 - 1e-12)))
    return Conformal(level, float(scores[order[at]]), ends)


def require_rows(level: float, n_rows: int) -> None:
    """Raise DataError unless `n_rows` held-out rows are enough to calibrate intervals at `level`."""
    if _rank(level, n_rows) > n_rows:
        raise DataError(
            f"{n_rows:,} held-out rows are too few for intervals at {level:g}; expected at least "
            f"{math.ceil(round(level / (1 - level), 9)):,}",
            where="evaluate.intervals",
            fix="lower the level, or hold out more rows: evaluate.validation, or fewer folds",
        )


def _rank(level: float, n_rows: float) -> int:
    """Return the rank, from 1, of the score that `level` of new rows do not exceed, among `n_rows` and the new one."""
    return math.ceil(round((n_rows + 1) * level, 9))
