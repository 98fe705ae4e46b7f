"""Strips of a beeswarm: one dot per explained row at its contribution, coloured by the value of the column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpupipe.report.contributions import ExplainedColumn
from gpupipe.report.text import signed

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

WIDTH, HEIGHT = 1000, 30  # units of a strip; its width on the page is fluid, its height is in pixels
CELL = 11  # units that a dot is wide on a page of usual width
STEP = 3.4  # pixels between the dots of a cell
REACH = 12.0  # pixels from the middle to the outermost dots
N_COLORS = 7
TICKS = 4
SMALLEST = 1e-300  # range of an axis: steps of a smaller one are subnormal numbers, or 0
TAIL_PERCENT = 5  # of the values at each end have the last colour, as in the plots of the library shap


def strip_svg(
    column: ExplainedColumn,
    contributions: HostArray,
    limits: tuple[float, float],
    ticks: Sequence[float],
    rows: HostArray,
) -> str:
    """Return the strip of a column as SVG with a description for screen readers; its classes are in style.css.

    `contributions`, float64, shape (n,), are those of all explained rows. `limits` are contributions at the left and
    the right end, and `ticks` positions of grid lines. `rows`, int64, shape (n_shown,), are the rows to draw.
    """
    import numpy as np

    low, high = limits
    scaled = np.rint((contributions[rows] - low) / (high - low) * WIDTH).astype(int)
    offsets = swarm_offsets(scaled)
    colors = color_codes(column, len(contributions))[rows]

    def line(place: float) -> str:  # longer than the strip: rows of the table may be higher
        return f"M{round((place - low) / (high - low) * WIDTH)} {-HEIGHT}v{3 * HEIGHT}"

    grid = "".join(line(tick) for tick in ticks if tick)
    paths = [f'<path class="grid" d="{grid}"/>', f'<path class="zero" d="{line(0.0)}"/>']
    for color in (-1, *range(N_COLORS)):
        own = np.flatnonzero(colors == color)
        if len(own):
            # A line of almost no length with round ends is a dot; it stays round when the strip is stretched.
            dots = "".join(f"M{scaled[i]} {HEIGHT / 2 + offsets[i]:.1f}h.01" for i in own.tolist())
            paths.append(f'<path class="dots v{color + 1}" d="{dots}"/>')
    ends = [signed(float(value), max(-low, high) * 20) for value in np.percentile(contributions, [0, 50, 100])]
    label = f"contributions from {ends[0]} to {ends[2]}, median {ends[1]}"
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{label}"'
    return f'<svg class="strip" {view}>{"".join(paths)}</svg>'


def swarm_offsets(scaled: HostArray) -> HostArray:
    """Return the distance of each dot from the middle line, so that dots in the same cell do not cover each other.

    `scaled`, int64, shape (n,), has positions along the strip.

    Examples
    --------
    >>> import numpy as np
    >>> swarm_offsets(np.array([5, 5, 5, 500])).tolist()
    [0.0, 3.4, -3.4, 0.0]
    """
    import numpy as np

    cells = scaled // CELL
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], cells[order])
    rank = np.empty(len(cells), np.int64)
    rank[order] = np.arange(len(cells)) - starts
    levels = (rank + 1) // 2 * np.where(rank % 2, 1, -1)
    most = max(1, int(np.abs(levels).max(initial=0)))
    offsets: HostArray = levels * min(STEP, REACH / most) + 0.0
    return offsets


def color_codes(column: ExplainedColumn, n_rows: int) -> HostArray:
    """Return the colour of each row, int64, shape (n,): 0 (low) to `N_COLORS` - 1 (high), -1 without a number."""
    import numpy as np

    codes: HostArray = np.full(n_rows, -1)
    if column.kind not in ("numeric", "datetime"):
        return codes
    numbers = np.asarray(column.values, float)
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return codes
    low, high = np.percentile(known, [TAIL_PERCENT, 100 - TAIL_PERCENT])
    if low == high:  # almost all rows have the same value
        low, high = known.min(), known.max()
    share = np.clip((numbers - low) / ((high - low) or 1.0), 0.0, 1.0)
    is_known = np.isfinite(numbers)
    codes[is_known] = np.minimum((share[is_known] * N_COLORS).astype(int), N_COLORS - 1)
    return codes


def axis_of(values: HostArray) -> tuple[tuple[float, float], list[float]]:
    """Return the ends of an axis that has all values and 0, with a margin, and its ticks.

    Examples
    --------
    >>> import numpy as np
    >>> axis_of(np.array([-0.9, 1.4]))
    ((-0.992, 1.492), [-0.5, 0.0, 0.5, 1.0])
    """
    low, high = min(0.0, float(values.min(initial=0.0))), max(0.0, float(values.max(initial=0.0)))
    if high - low < SMALLEST:
        return (-1.0, 1.0), [0.0]
    margin = 0.04 * (high - low)
    low, high = low - margin, high + margin
    step = 10 ** math.floor(math.log10((high - low) / TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= TICKS + 2)
    ticks = [round(i * step, 12) + 0.0 for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return (low, high), ticks
