"""Plots of the contributions of a column against its values."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from gpupipe.report.contributions import MISSING_LEVEL, ExplainedColumn, TargetContributions
from gpupipe.report.plots import figure_svg, legend_label, set_number_axes
from gpupipe.report.theme import COLORS, SERIES

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

MOST_BINS = 20  # of a running median
MOST_LEVELS = 8
MOST_LINES = 4  # classes in a plot
TIME_LIMITS = -719_162, 2_932_896  # days since 1970 of the years 1 to 9999, outside of which Matplotlib raises an error
RANGE_PERCENT = 10  # of the rows of a level are to the left of its range, and as many to the right


def draw_dependence(found: TargetContributions, position: int) -> str:
    """Return the SVG of the contributions of one column with values: dots and a running median, or ranges of levels.

    With several margins, there is a line of medians for each of the most frequent classes.
    """
    column = found.columns[position]
    values = found.values[:, position, :]
    margins = list(found.order[:MOST_LINES])
    unit = found.short_unit
    label = f"Contribution ({unit})" if unit else "Contribution"
    if column.kind == "categorical":
        draw = lambda axes: _levels(axes, column, values, found, margins)  # noqa: E731
        return figure_svg(label, "", draw, margins=(0.33, 0.15), top=_top(margins))
    draw = lambda axes: _numbers(axes, column, values, found, margins)  # noqa: E731
    return _compact(figure_svg(legend_label(column.name), label, draw, top=_top(margins)))


def running_median(x: HostArray, y: HostArray) -> tuple[HostArray, HostArray]:
    """Return the median of `y` at the median of `x`, in bins with about as many rows each.

    There are as many bins as rows in each, at most `MOST_BINS`. Equal values of `x` are in the same bin.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = running_median(np.array([1.0, 2.0, 1.0]), np.array([5.0, 7.0, 9.0]))
    >>> x.tolist(), y.tolist()
    ([1.0, 2.0], [7.0, 7.0])
    """
    import numpy as np
    import pandas as pd

    distinct, n_bins = np.unique(x), min(MOST_BINS, max(2, math.isqrt(len(x))))
    ends = -(-len(x) * np.arange(1, n_bins + 1) // n_bins) - 1
    edges = np.unique(np.sort(x)[ends])
    bins = np.searchsorted(distinct if len(distinct) <= n_bins else edges, x)
    medians = pd.DataFrame({"x": x, "y": y}).groupby(bins).median()
    return medians["x"].to_numpy(), medians["y"].to_numpy()


def _numbers(axes: Any, column: ExplainedColumn, values: HostArray, found: TargetContributions, margins: Any) -> None:
    import numpy as np

    x = np.asarray(column.values, float)
    is_known = np.isfinite(x)
    x, values = x[is_known], values[is_known]
    set_number_axes(axes)
    is_time = column.kind == "datetime"
    shown = x.astype("int64").astype("datetime64[us]") if is_time else x
    axes.axhline(0, color=COLORS["faint"], linewidth=1)
    if len(margins) == 1:
        y = values[:, margins[0]]
        line = {"color": SERIES[0], "linewidth": 3.2, "alpha": 0.5, "solid_capstyle": "round"}
        gap = shown.astype("datetime64[us]") if is_time else shown
        nothing = np.full(len(gap), "NaT", "datetime64[us]") if is_time else np.full(len(gap), np.nan)
        pairs = np.stack([gap, gap, nothing], axis=1).ravel()
        axes.plot(pairs, np.stack([y, y, np.full(len(y), np.nan)], axis=1).ravel(), **line)
    for margin, color in zip(margins, SERIES[1:] if len(margins) == 1 else SERIES, strict=False):
        at, median = running_median(x, values[:, margin])
        places = at.astype("int64").astype("datetime64[us]") if is_time else at
        axes.plot(places, median, color=color, linewidth=2, label=legend_label(found.labels[margin]))
    if is_time:
        set_time_axis(axes)
    _class_legend(axes, margins)


def _levels(axes: Any, column: ExplainedColumn, values: HostArray, found: TargetContributions, margins: Any) -> None:
    import numpy as np
    import pandas as pd

    levels = pd.Series(column.values, dtype=object).fillna(MISSING_LEVEL).to_numpy()
    counts = pd.Series(levels).value_counts()
    names = list(counts.index[:MOST_LEVELS])
    order = sorted(names, key=lambda name: float(np.median(values[levels == name][:, margins[0]])))
    set_number_axes(axes)
    axes.axvline(0, color=COLORS["faint"], linewidth=1)
    for place, name in enumerate(order):
        for margin, color in zip(margins, SERIES, strict=False):
            own = values[levels == name][:, margin]
            if len(margins) == 1:
                ends = np.percentile(own, [RANGE_PERCENT, 100 - RANGE_PERCENT])
                axes.plot(ends, [place, place], color=color, linewidth=7, alpha=0.3, solid_capstyle="round")
            label = legend_label(found.labels[margin]) if place == 0 else None
            axes.plot([np.median(own)], [place], "o", color=color, markersize=7, label=label)
    axes.set(ylim=(-0.6, len(order) - 0.4), yticks=range(len(order)))
    axes.set_yticklabels([legend_label(str(name)) for name in order])
    _class_legend(axes, margins)


def set_time_axis(axes: Any) -> None:
    """Set the ticks of an axis of times, and its limits to those that can be drawn."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    low, high = axes.get_xlim()
    axes.set_xlim(max(low, TIME_LIMITS[0]), min(high, TIME_LIMITS[1]))
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))


def _class_legend(axes: Any, margins: Any) -> None:
    if len(margins) > 1:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            ncols=2,
            frameon=False,
            labelcolor=COLORS["muted"],
            fontsize=8,
            borderaxespad=0,
            handletextpad=0.4,
            columnspacing=1.4,
        )


def _top(margins: Any) -> float:
    return 0.96 if len(margins) == 1 else 0.92 if len(margins) == 2 else 0.87


def _compact(svg: str) -> str:
    """Return the SVG with the dots of a path, lines of no length for matplotlib, in a third of the bytes."""
    number = r"(-?\d+(?:\.\d)?)\d*"
    return re.sub(rf"M {number} {number} \nL \S+ \S+ \n(?=M|\")", r"M\1 \2h.01", svg)
