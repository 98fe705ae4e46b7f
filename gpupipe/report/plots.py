"""Plots of a report as SVG text: few marks, thinned points, the same bytes for the same data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpupipe.report.axes import DASHES, Axes, Legend, legend_label
from gpupipe.report.data import Classification, Curve
from gpupipe.report.gains import at_threshold
from gpupipe.report.search_record import SearchRecord
from gpupipe.report.text import metric_title
from gpupipe.report.theme import COLORS, SERIES

if TYPE_CHECKING:
    import numpy as np

    from gpupipe.metrics import Residuals

MARGIN = 0.06  # of the range of scores, above and below
SHOWN_QUANTILE = 0.1  # the worst trials of a search can be far off; those below are drawn at the edge

CURVE_POINTS = 160
SCATTER_POINTS = 800


def draw_classification(data: Classification) -> dict[str, str]:
    """Return file stem to SVG for each kind of curve in `data`."""
    plots = {}
    if data.gains:
        positive = "the class" if data.positive is None else legend_label(data.positive)
        plots["gains"] = _gains(data, f"Fraction of {positive} found")
    if data.roc:
        plots["roc"] = _roc(data)
    if data.precision_recall:
        plots["precision_recall"] = _precision_recall(data)
    if data.calibration:
        plots["calibration"] = _calibration(data.calibration)
    return plots


def draw_regression(data: Residuals) -> dict[str, str]:
    """Return file stem to SVG: predicted against actual, and the histogram of residuals."""
    return {"predicted_actual": _scatter(data), "residuals": _histogram(data)}


def draw_training(losses: Sequence[Curve]) -> dict[str, str]:
    """Return file stem to SVG: the losses by epoch."""
    axes = Axes("Epoch", "Loss")
    _curves(axes, losses, "upper right")
    return {"training": axes.svg()}


def thin(curve: Curve, n_points: int = CURVE_POINTS) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return at most `n_points` points of a curve, its ends included, evenly spaced along its length."""
    import numpy as np

    x, y = np.asarray(curve.x, dtype=float), np.asarray(curve.y, dtype=float)
    if len(x) <= n_points:
        return x, y
    length = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    wanted = np.linspace(0.0, length[-1], n_points)
    kept = np.unique(np.concatenate([[0], np.searchsorted(length, wanted[1:-1]), [len(x) - 1]]))
    return x[kept], y[kept]


def _gains(data: Classification, y_label: str) -> str:
    axes = _square("Fraction of rows, highest probability first", y_label)
    axes.diagonal(0, 1)
    _curves(axes, data.gains, "lower right", is_filled=True)
    return axes.svg()


def _roc(data: Classification) -> str:
    axes = _square("False positive rate", "True positive rate")
    axes.diagonal(0, 1)
    _curves(axes, data.roc, "lower right", is_filled=True)
    return axes.svg()


def _precision_recall(data: Classification) -> str:
    axes = _square("Recall", "Precision")
    if data.prevalence is not None:
        axes.reference("horizontal", data.prevalence, COLORS["faint"], DASHES)
    _curves(axes, data.precision_recall, "lower left", is_filled=True)
    if len(data.precision_recall) == 1 and (point := at_threshold(data)) is not None:
        precision, recall = point
        axes.dots([recall], [precision], SERIES[1], 7)
        axes.text(recall, precision, "threshold")
    return axes.svg()


def _calibration(curves: Sequence[Curve]) -> str:
    axes = _square("Predicted probability", "Observed frequency")
    axes.diagonal(0, 1)
    _curves(axes, curves, "upper left", size=4.5)
    return axes.svg()


def _curves(axes: Axes, curves: Sequence[Curve], place: str, is_filled: bool = False, size: float = 0.0) -> None:
    """Add curves; with dots of a size, a legend if there are several, and an area if there is one and `is_filled`."""
    for curve, color in zip(curves, SERIES, strict=False):
        x, y = thin(curve)
        axes.line(x, y, color, label=legend_label(curve.label))
        if size:
            axes.dots(x, y, color, size)
        if is_filled and len(curves) == 1:
            axes.area(x, y, color, 0.10)
    if len(curves) > 1:
        axes.legend = Legend(place)


def _scatter(data: Residuals) -> str:
    import numpy as np

    axes = Axes("Actual", "Predicted")
    actual, predicted = np.asarray(data.y_true, dtype=float), np.asarray(data.y_pred, dtype=float)
    step = max(1, -(-len(actual) // SCATTER_POINTS))
    actual, predicted = actual[::step], predicted[::step]
    both = np.concatenate([actual, predicted])
    axes.diagonal(*((both.min(), both.max()) if len(both) else (0.0, 1.0)))
    axes.dots(actual, predicted, SERIES[0], 3.2, opacity=0.45)
    return axes.svg()


def _histogram(data: Residuals) -> str:
    import numpy as np

    axes = Axes("Actual − predicted", "Rows")
    axes.area(np.repeat(data.edges, 2)[1:-1], np.repeat(data.counts, 2), SERIES[0], 0.85)
    axes.reference("vertical", 0, COLORS["muted"])
    return axes.svg()


def _square(x_label: str, y_label: str) -> Axes:
    """Return axes from 0 to 1 in both directions."""
    ticks = [(0, "0"), (0.25, ""), (0.5, "0.5"), (0.75, ""), (1, "1")]
    limits = -0.01, 1.01
    return Axes(x_label, y_label, left=0.115, x_limits=limits, y_limits=limits, x_ticks=ticks, y_ticks=ticks)


def draw_tuning(search: SearchRecord, higher_is_better: bool) -> str:
    """Return the SVG of a search with at least one score."""
    import numpy as np

    axes = Axes("Trial", metric_title(search.metric), top=0.89, legend=Legend("above", n_columns=4))
    scored = [(i, each) for i, each in enumerate(search.tried, 1) if each.score is not None]
    numbers, scores = np.array([i for i, _ in scored]), np.array([each.score for _, each in scored], dtype=float)
    complete = np.array([each.state == "complete" for _, each in scored])
    low, high = _limits(scores[complete] if complete.any() else scores, higher_is_better)
    shown, is_inside = np.clip(scores, low, high), (scores >= low) & (scores <= high)
    for state, mask, shape in (("complete", complete, "dots"), ("pruned", ~complete, "rings")):
        if (mask & is_inside).any():
            axes.dots(numbers[mask & is_inside], shown[mask & is_inside], SERIES[0], 5, state, shape=shape)
    if not is_inside.all():
        shape, label = ("v", "lower") if higher_is_better else ("^", "higher")
        axes.dots(numbers[~is_inside], shown[~is_inside], COLORS["faint"], 5, label, shape=shape)
    if complete.any():
        so_far = (np.maximum if higher_is_better else np.minimum).accumulate(scores[complete])
        starts = np.append(numbers[complete], len(search.tried))
        axes.line(
            np.repeat(starts, 2)[1:], np.repeat(np.append(so_far, so_far[-1]), 2)[:-1], SERIES[1], 1.6, "best so far"
        )
    axes.x_limits, axes.y_limits = (0.5, len(search.tried) + 0.5), (low, high)
    return axes.svg()


def _limits(scores: np.ndarray[Any, Any], higher_is_better: bool) -> tuple[float, float]:
    """Return the range of the axis: from the best score to a low quantile of all."""
    import numpy as np

    best = scores.max() if higher_is_better else scores.min()
    worst = np.quantile(scores, SHOWN_QUANTILE if higher_is_better else 1 - SHOWN_QUANTILE)
    margin = MARGIN * abs(best - worst) or 0.01 * abs(best) or 0.01
    return float(min(best, worst) - margin), float(max(best, worst) + margin)
