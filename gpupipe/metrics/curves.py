"""What a report draws of a prediction: confusion, curves, residuals; small enough to put into a page."""

from __future__ import annotations

from dataclasses import dataclass

from gpupipe.metrics.evaluation import Predicted, predicted_labels
from gpupipe.metrics.registry import Array

MAX_POINTS = 200
CALIBRATION_BINS = 10


@dataclass(frozen=True)
class Points:
    """A curve of one class against the rest: ``x[i], y[i]``, at most `MAX_POINTS` of them.

    ``class_code`` is 1 for binary.
    """

    class_code: int
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Curves:
    """The curves of a classifier, one for each class that has rows and is not all of them.

    Attributes
    ----------
    roc : list of Points
        x: false positive rate, y: true positive rate.
    precision_recall : list of Points
        x: recall, y: precision.
    calibration : list of Points
        x: mean probability of a bin, y: share of positives in it; bins hold equally many rows.
    """

    roc: list[Points]
    precision_recall: list[Points]
    calibration: list[Points]


@dataclass(frozen=True)
class Residuals:
    """How far a regressor is off.

    Attributes
    ----------
    y_true, y_pred : list of float
        A sample of rows.
    edges : list of float, length bins + 1
        Of the histogram of ``y_true - y_pred`` over all rows.
    counts : list of int
    mean, std : float
        Of the residuals.
    quantiles : dict of str to float
        ``"0.05"``, ``"0.5"``, ``"0.95"`` of the residuals.
    """

    y_true: list[float]
    y_pred: list[float]
    edges: list[float]
    counts: list[int]
    mean: float
    std: float
    quantiles: dict[str, float]


def confusion(
    task: str, y_true: Array, prediction: Predicted, threshold: float = 0.5, n_classes: int = 2
) -> list[list[int]]:
    """Return counts: row i, column j is the number of rows of class i that were called j."""
    import numpy as np

    label = predicted_labels(task, prediction.probability, threshold)
    cells = np.asarray(y_true).astype(np.int64) * n_classes + label
    counts: list[list[int]] = np.bincount(cells, minlength=n_classes**2).reshape(n_classes, n_classes).tolist()
    return counts


def curves(task: str, y_true: Array, prediction: Predicted, n_classes: int = 2) -> Curves:
    """Return the curves of a classifier; a class without rows, or with all of them, has none."""
    import numpy as np
    from sklearn.metrics import precision_recall_curve, roc_curve

    y_true = np.asarray(y_true).astype(np.int64)
    found = Curves([], [], [])
    for code in [1] if task == "binary" else range(n_classes):
        truth = y_true == code
        if not 0 < truth.sum() < len(truth):
            continue
        p = prediction.probability if task == "binary" else prediction.probability[:, code]
        fpr, tpr, _ = roc_curve(truth, p)
        precision, recall, _ = precision_recall_curve(truth, p, drop_intermediate=True)
        found.roc.append(_thinned(code, fpr, tpr))
        found.precision_recall.append(_thinned(code, recall[::-1], precision[::-1]))
        found.calibration.append(_binned(code, p, truth))
    return found


def residuals(y_true: Array, prediction: Predicted, sample: int = 800, bins: int = 40, seed: int = 0) -> Residuals:
    """Return the residuals of a regressor, summed up."""
    import numpy as np

    y_true, y_pred = np.asarray(y_true, np.float64), np.asarray(prediction.value, np.float64)
    off = y_true - y_pred
    rows = np.arange(len(off))
    if len(off) > sample:
        rows = np.sort(np.random.default_rng(seed).choice(len(off), sample, replace=False))
    counts, edges = np.histogram(off, bins)
    quantiles = {str(q): float(np.quantile(off, q)) for q in (0.05, 0.5, 0.95)}
    return Residuals(
        y_true[rows].tolist(),
        y_pred[rows].tolist(),
        edges.tolist(),
        counts.tolist(),
        float(off.mean()),
        float(off.std()),
        quantiles,
    )


def _thinned(code: int, x: Array, y: Array) -> Points:
    """Keep points that are evenly spaced along the curve, both ends among them."""
    import numpy as np

    if len(x) > MAX_POINTS:
        way = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
        keep = np.searchsorted(way, np.linspace(0.0, way[-1], MAX_POINTS))
        keep = np.unique(np.clip(np.concatenate([[0], keep[1:-1], [len(x) - 1]]), 0, len(x) - 1))
        x, y = x[keep], y[keep]
    return Points(code, x.tolist(), y.tolist())


def _binned(code: int, probability: Array, truth: Array) -> Points:
    import numpy as np

    order = np.argsort(probability, kind="stable")
    parts = [part for part in np.array_split(order, CALIBRATION_BINS) if len(part)]
    x = [float(probability[part].mean()) for part in parts]
    return Points(code, x, [float(truth[part].mean()) for part in parts])
