"""Plots of the contributions of a column against its values."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any

from gpupipe.report.axes import Axes, Legend, Tick, legend_label, padded
from gpupipe.report.contributions import ExplainedColumn, TargetContributions, level_names
from gpupipe.report.theme import COLORS, SERIES

if TYPE_CHECKING:
    from gpupipe.typing import Array, HostArray

MOST_TICKS = 7
MOST = (1 << 63) - 1  # microseconds in a time of NumPy
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAY = 86_400_000_000  # in microseconds
ROUND = tuple(m * 10**k for k, m in product(range(6), (1, 2, 5)))
# NumPy's code of a calendar unit, its mean length in microseconds, and the distances of ticks in it.
UNITS = (
    ("us", 1, ROUND),
    ("s", 1_000_000, (1, 5, 15, 30)),
    ("m", 60_000_000, (1, 5, 15, 30)),
    ("h", 3_600_000_000, (1, 3, 6, 12)),
    ("D", DAY, (1, 2, 7, 14)),
    ("M", DAY * 30.436875, (1, 3, 6)),
    ("Y", DAY * 365.2425, ROUND),
)

MOST_BINS = 20  # of a running median
MOST_LEVELS = 8
MOST_LINES = 4  # classes in a plot
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
    top = 0.96 if len(margins) == 1 else 0.92 if len(margins) == 2 else 0.87
    if column.kind == "categorical":
        axes = Axes(label, "", left=0.33, top=top)
        _levels(axes, column, values, found, margins)
    else:
        axes = Axes(legend_label(column.name), label, top=top)
        _numbers(axes, column, values, found, margins)
    if len(margins) > 1:
        axes.legend = Legend("above", n_columns=2)
    return axes.svg()


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

    distinct, n_bins = np.unique(x), min(MOST_BINS, max(2, math.isqrt(len(x))))
    ends = -(-len(x) * np.arange(1, n_bins + 1) // n_bins) - 1
    edges = np.unique(np.sort(x)[ends])
    bins = np.searchsorted(distinct if len(distinct) <= n_bins else edges, x)
    members = [bins == number for number in np.unique(bins)]
    return np.array([np.median(x[own]) for own in members]), np.array([np.median(y[own]) for own in members])


def _numbers(axes: Axes, column: ExplainedColumn, values: HostArray, found: TargetContributions, margins: Any) -> None:
    import numpy as np

    x = np.asarray(column.values, float)
    is_known = np.isfinite(x)
    x, values = x[is_known], values[is_known]
    axes.reference("horizontal", 0, COLORS["faint"])
    if len(margins) == 1:
        axes.dots(x, values[:, margins[0]], SERIES[0], 3.2, opacity=0.5)
    for margin, color in zip(margins, SERIES[1:] if len(margins) == 1 else SERIES, strict=False):
        axes.line(*running_median(x, values[:, margin]), color, 2, legend_label(found.labels[margin]))
    if column.kind == "datetime" and len(x):
        axes.x_limits = padded([float(x.min()), float(x.max())])
        axes.x_ticks = time_ticks(*axes.x_limits)


def _levels(axes: Axes, column: ExplainedColumn, values: HostArray, found: TargetContributions, margins: Any) -> None:
    import numpy as np

    levels = level_names(column.values)
    names = [name for name, _ in Counter(levels.tolist()).most_common(MOST_LEVELS)]
    order = sorted(names, key=lambda name: float(np.median(values[levels == name][:, margins[0]])))
    axes.reference("vertical", 0, COLORS["faint"])
    for place, name in enumerate(order):
        for margin, color in zip(margins, SERIES, strict=False):
            own = values[levels == name][:, margin]
            if len(margins) == 1:
                ends = np.percentile(own, [RANGE_PERCENT, 100 - RANGE_PERCENT])
                axes.line(ends, [place, place], color, 7, style="stroke-linecap: round; opacity: 0.3")
            axes.dots([np.median(own)], [place], color, 7, legend_label(found.labels[margin]))
    axes.y_limits = -0.6, len(order) - 0.4
    axes.y_ticks = [(place, legend_label(name)) for place, name in enumerate(order)]


def time_ticks(low: float, high: float) -> list[Tick]:
    """Return calendar times between two times, in microseconds since 1970 in UTC, with short labels.

    Examples
    --------
    >>> [label for _, label in time_ticks(1_650_000_000_000_000, 1_680_000_000_000_000)]
    ['Jul', 'Oct', '2023']
    """
    import numpy as np

    unit, step = _unit_and_step(high - low)
    origin = 1970 if unit == "Y" else 0  # years are counted from 0, so that decades begin with one
    ends = np.array([max(int(low), -MOST), min(int(high), MOST)]).astype("M8[us]")
    first, last = (ends.astype(f"M8[{unit}]").astype(int) + origin).tolist()
    found = []
    for position in range(-(-first // step) * step, last + 1, step):
        at = np.asarray(position - origin).astype(f"M8[{unit}]")
        place = float(at.astype("M8[us]").astype(int))
        if low <= place <= high:
            found.append((place, _label(at, unit)))
    return found


def _unit_and_step(microseconds: float) -> tuple[str, int]:
    """Return the first calendar unit, and distance of ticks in it, of which a duration has few enough."""
    for unit, length, steps in UNITS:
        for step in steps:
            if microseconds / (length * step) <= MOST_TICKS:
                return unit, step
    return unit, step


def _label(at: Array, unit: str) -> str:
    """Return the part of a time that differs from tick to tick, or the next larger one at its first value."""
    year = int(at.astype("M8[Y]").astype(int)) + 1970
    month = int(at.astype("M8[M]").astype(int)) % 12
    if unit == "Y" or (unit == "M" and month == 0):
        return str(year).replace("-", "−")
    day = int((at.astype("M8[D]") - at.astype("M8[M]").astype("M8[D]")).astype(int)) + 1
    if unit == "M" or (unit == "D" and day == 1):
        return MONTHS[month]
    in_day = int((at.astype("M8[us]") - at.astype("M8[D]").astype("M8[us]")).astype(int))
    if unit == "D" or in_day == 0:
        return f"{day} {MONTHS[month]}"
    seconds, fraction = divmod(in_day, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if unit in ("h", "m"):
        return clock
    return f"{clock}:{seconds % 60:02}" + (f".{fraction:06}".rstrip("0") if fraction else "")
