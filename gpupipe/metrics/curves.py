"""Data of the plots of a prediction: confusion, curves, gains, residuals; small enough to put into a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpupipe.backends.weighted_quantiles import weighted_quantiles
from gpupipe.metrics.predictions import ClassPredictions, Threshold, ValuePredictions
from gpupipe.metrics.ranking import Ranking
from gpupipe.random_streams import make_generator
from gpupipe.typing import Array, ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend

MAX_POINTS = 200
CALIBRATION_BINS = 10
QUANTILES = (0.05, 0.5, 0.95)
ERROR_QUANTILES = (0.5, 0.9)  # of absolute residuals
TOP_ROWS = (100, 50, 20, 10)  # the first that is at most a tenth of all rows is counted
TOP_FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)
MIN_TOP_ROWS = 10  # fewer say too little


@dataclass(frozen=True)
class Points:
    """Curve of one class against all others: at most `MAX_POINTS` points ``x[i], y[i]``.

    ``class_code`` is 1 for binary.
    """

    class_code: int
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class TopRows:
    """Rows of a class among the `n_rows` rows with its highest probabilities.

    Rows that share the lowest of these probabilities count in proportion, so that `hits` need not be an integer.
    """

    n_rows: int
    hits: float


@dataclass(frozen=True)
class Curves:
    """The curves of a classifier, one for each class, except classes without rows or with all rows."""

    roc: list[Points] = field(default_factory=list)  # x: false positive rate, y: true positive rate
    precision_recall: list[Points] = field(default_factory=list)  # x: recall, y: precision
    # x: mean probability in a bin, y: fraction of positive rows in it; all bins have the same number of rows, or the
    # same weight.
    calibration: list[Points] = field(default_factory=list)
    # x: fraction of all rows, those with the highest probability first, y: fraction of the class among them.
    gains: list[Points] = field(default_factory=list)
    # Binary only: of a round number of rows, then of `TOP_FRACTIONS` of all rows; at least `MIN_TOP_ROWS` each. None
    # with weights.
    top: list[TopRows] = field(default_factory=list)


@dataclass(frozen=True)
class Residuals:
    """Residuals of a regressor, ``y_true - y_pred``."""

    # y_true, y_pred: true and predicted values of a sample of rows.
    y_true: list[float]
    y_pred: list[float]
    edges: list[float]  # length bins + 1: bin edges of the histogram of all residuals
    counts: list[float]  # number or weight of the rows in each bin
    mean: float
    std: float
    quantiles: dict[str, float]  # quantiles ``"0.05"``, ``"0.5"`` and ``"0.95"`` of the residuals
    errors: dict[str, float]  # ``"0.5"``, ``"0.9"`` of the absolute residuals
    constant_error: float  # median absolute residual of the best constant prediction, the median of ``y_true``


def confusion(
    task: str,
    y_true: Array,
    predicted: Array,
    threshold: Threshold = 0.5,
    n_classes: int = 2,
    *,
    sample_weight: Array | None = None,
    backend: Backend,
) -> list[list[float]]:
    """Return the confusion matrix: row i, column j is the number of rows of class i predicted as j, or their weight."""
    rows = ClassPredictions.of(task, y_true, predicted, threshold, n_classes, backend, sample_weight=sample_weight)
    counts: list[list[float]] = rows.counts.tolist()
    return counts


def curves(
    task: str,
    y_true: Array,
    predicted: Array,
    n_classes: int = 2,
    *,
    sample_weight: Array | None = None,
    backend: Backend,
) -> Curves:
    """Return the curves of a classifier; classes without rows, or with all rows, have none."""
    rows = ClassPredictions.of(task, y_true, predicted, 0.5, n_classes, backend, sample_weight=sample_weight)
    found = Curves()
    for code, ranking in rows.rankings():
        found.roc.append(_thinned(code, *_roc(ranking), backend))
        found.precision_recall.append(_thinned(code, *_precision_recall(ranking), backend))
        found.calibration.append(_binned(code, ranking))
        found.gains.append(_thinned(code, *_gains(ranking), backend))
        if n_classes == 2 and sample_weight is None:
            found.top.extend(_top_rows(ranking))
    return found


def residuals(
    y_true: Array,
    predicted: Array,
    sample: int = 800,
    bins: int = 40,
    seed: int = 0,
    *,
    sample_weight: Array | None = None,
    backend: Backend,
) -> Residuals:
    """Return the summary of the residuals of a regressor; the sample of rows is drawn without regard to weights."""
    import numpy as np

    found, xp = ValuePredictions.of(y_true, predicted, backend, sample_weight), backend.xp
    off, n_rows = found.error, len(found.value)
    rows = np.arange(n_rows)
    if n_rows > sample:
        rows = np.sort(make_generator(seed, "residuals").choice(n_rows, sample, replace=False))
    chosen = backend.to_device(rows)
    counts, edges = xp.histogram(off, bins, weights=found.sample_weight)
    (middle,) = _quantiles(found, found.y_true, (0.5,))
    (constant_error,) = _quantiles(found, abs(found.y_true - middle), (0.5,))
    mean = found.mean(off)
    return Residuals(
        backend.to_host(found.y_true[chosen]).tolist(),
        backend.to_host(found.value[chosen]).tolist(),
        backend.to_host(edges).tolist(),
        backend.to_host(counts).tolist(),
        mean,
        math.sqrt(found.mean((off - mean) ** 2)),
        {str(q): value for q, value in zip(QUANTILES, _quantiles(found, off, QUANTILES), strict=True)},
        {str(q): value for q, value in zip(ERROR_QUANTILES, _quantiles(found, abs(off), ERROR_QUANTILES), strict=True)},
        constant_error,
    )


def _quantiles(rows: ValuePredictions, values: Array, shares: Sequence[float]) -> list[float]:
    backend, weight = rows.backend, rows.sample_weight
    if weight is not None:
        return weighted_quantiles(values, weight, shares, backend)
    found: list[float] = backend.to_host(backend.xp.quantile(values, shares)).tolist()
    return found


def _roc(ranking: Ranking) -> tuple[Array, Array]:
    """Return false and true positive rates, without the points on a straight line between their neighbours."""
    hits = ranking.hits
    misses = ranking.misses
    xp = ranking.backend.xp
    kept = _corners(len(hits), (xp.diff(hits[1:], 2) != 0) | (xp.diff(misses[1:], 2) != 0), xp)
    return misses[kept] / ranking.negatives, hits[kept] / ranking.positives


def _precision_recall(ranking: Ranking) -> tuple[Array, Array]:
    """Return recall and precision, without the points between two others of the same recall."""
    recall, precision = ranking.precision_recall()
    rises = ranking.hits[2:] != ranking.hits[1:-1]
    kept = _corners(len(recall), rises[:-1] | rises[1:], ranking.backend.xp)
    return recall[kept], precision[kept]


def _gains(ranking: Ranking) -> tuple[Array, Array]:
    """Return fractions of all rows and of the class, without points on a straight line between their neighbours."""
    hits = ranking.hits
    rows = ranking.hits + ranking.misses
    xp = ranking.backend.xp
    kept = _corners(len(hits), (xp.diff(hits[1:], 2) != 0) | (xp.diff(rows[1:], 2) != 0), xp)
    return rows[kept] / (ranking.positives + ranking.negatives), hits[kept] / ranking.positives


def _top_rows(ranking: Ranking) -> list[TopRows]:
    import numpy as np

    n_rows = int(ranking.positives + ranking.negatives)
    rounds = [n for n in TOP_ROWS if n <= n_rows // 10][:1]
    shares = [n for share in TOP_FRACTIONS if (n := round(share * n_rows)) >= MIN_TOP_ROWS]
    if not rounds:
        return []
    backend, hits = ranking.backend, ranking.hits.astype("float64")
    wanted = backend.to_device(np.array(rounds + shares, dtype=np.float64))
    found = backend.to_host(backend.xp.interp(wanted, hits + ranking.misses, hits)).tolist()
    return [TopRows(n, among) for n, among in zip(rounds + shares, found, strict=True)]


def _corners(n_points: int, bends: Array, xp: ArrayNamespace) -> Array:
    """Return a mask of the points to keep: the first two, the last, and each point ``i + 2`` with ``bends[i]``."""
    kept = xp.ones(n_points, dtype=bool)
    kept[2:-1] = bends
    return kept


def _thinned(code: int, x: Array, y: Array, backend: Backend) -> Points:
    """Return at most `MAX_POINTS` points, evenly spaced along the curve, including both ends."""
    import numpy as np

    if len(x) > MAX_POINTS:
        xp = backend.xp
        way = xp.zeros(len(x))
        way[1:] = xp.cumsum(abs(x[1:] - x[:-1]) + abs(y[1:] - y[:-1]))
        stops = np.linspace(0.0, float(backend.to_host(way[-1])), MAX_POINTS)
        passed = backend.to_host(xp.searchsorted(way, backend.to_device(stops)))
        even = np.unique(np.clip(np.concatenate([[0], passed[1:-1], [len(x) - 1]]), 0, len(x) - 1))
        keep = backend.to_device(even)
        x, y = x[keep], y[keep]
    return Points(code, backend.to_host(x).tolist(), backend.to_host(y).tolist())


def _binned(code: int, ranking: Ranking) -> Points:
    """Return mean probability and fraction of positives in bins of equal size; rows of equal probability are split."""
    import numpy as np

    backend, xp = ranking.backend, ranking.backend.xp
    rows = (ranking.hits + ranking.misses).astype("float64")
    total = xp.zeros(len(rows))
    total[1:] = xp.cumsum(ranking.scores * (rows[1:] - rows[:-1]))
    sizes = _bin_sizes(ranking)
    edges = backend.to_device(np.append(np.cumsum(sizes[::-1])[::-1], 0).astype(np.float64))
    hits, sums = (
        -np.diff(backend.to_host(xp.interp(edges, rows, along))) for along in (ranking.hits.astype("float64"), total)
    )
    return Points(code, (sums / sizes).tolist(), (hits / sizes).tolist())


def _bin_sizes(ranking: Ranking) -> Array:
    """Return the number of rows of each bin, or its weight, from the lowest probability."""
    import numpy as np

    total = ranking.positives + ranking.negatives
    if isinstance(total, float):
        return np.full(CALIBRATION_BINS, total / CALIBRATION_BINS)
    least, more = divmod(total, CALIBRATION_BINS)
    sizes = np.repeat([least + 1, least], [more, CALIBRATION_BINS - more])
    return sizes[sizes > 0]
