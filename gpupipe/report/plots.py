"""Plots of a report as SVG text: few artists, thinned points, the same bytes for the same data.

Figures are made without pyplot. matplotlib is imported with the first plot, since that import takes two thirds of the
time of a report.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from gpupipe.report.data import Classification, Curve
from gpupipe.report.gains import at_threshold
from gpupipe.report.text import printable
from gpupipe.report.theme import COLORS, SERIES

if TYPE_CHECKING:
    import numpy as np

    from gpupipe.metrics import Residuals

CURVE_POINTS = 160
SCATTER_POINTS = 800
STYLE = {
    "font.family": "DejaVu Sans",
    "svg.fonttype": "none",
    "svg.hashsalt": "gpupipe",
    "text.usetex": False,  # a matplotlibrc in the current folder could have LaTeX run what it says
    "path.simplify": False,  # curves are thinned already; a dot is a line of no length
    "text.parse_math": False,  # a level named "$5-$10" is not a formula
}


def draw_classification(data: Classification) -> dict[str, str]:
    """Return file stem to SVG for each kind of curve in `data`."""
    plots = {}
    if data.gains:
        positive = "the class" if data.positive is None else legend_label(data.positive)
        labels = "Fraction of rows, highest probability first", f"Fraction of {positive} found"
        plots["gains"] = _square(*labels, lambda axes: _gains(axes, data))
    if data.roc:
        plots["roc"] = _square("False positive rate", "True positive rate", lambda axes: _roc(axes, data))
    if data.precision_recall:
        plots["precision_recall"] = _square("Recall", "Precision", lambda axes: _precision_recall(axes, data))
    if data.calibration:
        draw = lambda axes: _calibration(axes, data.calibration)  # noqa: E731
        plots["calibration"] = _square("Predicted probability", "Observed frequency", draw)
    return plots


def draw_regression(data: Residuals) -> dict[str, str]:
    """Return file stem to SVG: predicted against actual, and the histogram of residuals."""
    return {
        "predicted_actual": figure_svg("Actual", "Predicted", lambda axes: _scatter(axes, data)),
        "residuals": figure_svg("Actual − predicted", "Rows", lambda axes: _histogram(axes, data)),
    }


def draw_training(losses: Sequence[Curve]) -> dict[str, str]:
    """Return file stem to SVG: the losses by epoch."""
    return {"training": figure_svg("Epoch", "Loss", lambda axes: _losses(axes, losses))}


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


def _gains(axes: Any, data: Classification) -> None:
    axes.plot([0, 1], [0, 1], color=COLORS["faint"], linewidth=1, linestyle=(0, (4, 3)))
    _curves(axes, data.gains, legend="lower right")
    if len(data.gains) == 1:
        axes.fill_between(*thin(data.gains[0]), color=SERIES[0], alpha=0.10, linewidth=0)


def _roc(axes: Any, data: Classification) -> None:
    axes.plot([0, 1], [0, 1], color=COLORS["faint"], linewidth=1, linestyle=(0, (4, 3)))
    _curves(axes, data.roc, legend="lower right")
    if len(data.roc) == 1:
        axes.fill_between(*thin(data.roc[0]), color=SERIES[0], alpha=0.10, linewidth=0)


def _precision_recall(axes: Any, data: Classification) -> None:
    if data.prevalence is not None:
        axes.axhline(data.prevalence, color=COLORS["faint"], linewidth=1, linestyle=(0, (4, 3)))
    _curves(axes, data.precision_recall, legend="lower left")
    if len(data.precision_recall) == 1:
        axes.fill_between(*thin(data.precision_recall[0]), color=SERIES[0], alpha=0.10, linewidth=0)
        if (point := at_threshold(data)) is not None:
            precision, recall = point
            axes.plot([recall], [precision], "o", color=SERIES[1], markersize=7)
            axes.annotate(
                "threshold", (recall, precision), (6, 6), textcoords="offset points", fontsize=8.5, color=COLORS["ink"]
            )


def _calibration(axes: Any, curves: Sequence[Curve]) -> None:
    axes.plot([0, 1], [0, 1], color=COLORS["faint"], linewidth=1, linestyle=(0, (4, 3)))
    _curves(axes, curves, legend="upper left", marker="o", markersize=4.5)


def _curves(axes: Any, curves: Sequence[Curve], legend: str, **style: Any) -> None:
    for curve, color in zip(curves, SERIES, strict=False):
        axes.plot(*thin(curve), color=color, linewidth=1.9, label=legend_label(curve.label), **style)
    if len(curves) > 1:
        axes.legend(loc=legend, frameon=False, labelcolor=COLORS["muted"], fontsize=8)


def _scatter(axes: Any, data: Residuals) -> None:
    import numpy as np

    actual, predicted = np.asarray(data.y_true, dtype=float), np.asarray(data.y_pred, dtype=float)
    step = max(1, -(-len(actual) // SCATTER_POINTS))
    actual, predicted = actual[::step], predicted[::step]
    both = np.concatenate([actual, predicted])
    ends = [both.min(), both.max()] if len(both) else [0.0, 1.0]
    axes.plot(ends, ends, color=COLORS["faint"], linewidth=1, linestyle=(0, (4, 3)))
    set_number_axes(axes)
    axes.plot(actual, predicted, "o", color=SERIES[0], markersize=3.2, alpha=0.45, markeredgewidth=0)


def _losses(axes: Any, losses: Sequence[Curve]) -> None:
    set_number_axes(axes)
    _curves(axes, losses, legend="upper right")


def _histogram(axes: Any, data: Residuals) -> None:
    set_number_axes(axes)
    axes.stairs(data.counts, data.edges, fill=True, color=SERIES[0], alpha=0.85)
    axes.axvline(0, color=COLORS["muted"], linewidth=1)


def set_number_axes(axes: Any) -> None:
    """Set few ticks, and commas between thousands."""
    axes.locator_params(nbins=6)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.6g}".replace("-", "−"))


def _square(x_label: str, y_label: str, draw: Callable[[Any], None]) -> str:
    def draw_square(axes: Any) -> None:
        draw(axes)
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), xticks=[0, 0.25, 0.5, 0.75, 1], yticks=[0, 0.25, 0.5, 0.75, 1])
        axes.set(xticklabels=["0", "", "0.5", "", "1"], yticklabels=["0", "", "0.5", "", "1"])

    return figure_svg(x_label, y_label, draw_square, margins=(0.115, 0.15))


def figure_svg(
    x_label: str,
    y_label: str,
    draw: Callable[[Any], None],
    margins: tuple[float, float] = (0.17, 0.15),
    top: float = 0.96,
) -> str:
    """Return the SVG of one pair of axes; matplotlib's settings are restored."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    left, bottom = margins
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser has the fonts, text stays text
        figure = Figure(figsize=(4.8, 3.3), facecolor=COLORS["card"])
        axes = figure.add_axes((left, bottom, 0.97 - left, top - bottom), facecolor=COLORS["card"])
        axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
        axes.grid(color=COLORS["line"], linewidth=0.8)
        axes.tick_params(length=0, labelsize=8.5, labelcolor=COLORS["muted"], pad=5)
        axes.set_axisbelow(True)
        axes.set_xlabel(x_label, fontsize=9.5, color=COLORS["ink"])
        axes.set_ylabel(y_label, fontsize=9.5, color=COLORS["ink"])
        draw(axes)
        text = StringIO()
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(text, metadata=no_metadata)
    return text.getvalue()


def legend_label(label: str) -> str:
    """Return a label that fits; a space comes before an underscore, since matplotlib hides such labels."""
    label = printable(label)
    label = label if len(label) <= 24 else label[:23] + "…"
    return " " + label if label.startswith("_") else label
