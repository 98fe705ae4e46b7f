"""Plot of tuning: the score of each trial, and the best score so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpupipe.report.axes import Axes, Legend
from gpupipe.report.search_record import SearchRecord
from gpupipe.report.text import metric_title
from gpupipe.report.theme import COLORS, SERIES

if TYPE_CHECKING:
    import numpy as np

MARGIN = 0.06  # of the range of scores, above and below
SHOWN_QUANTILE = 0.1  # the worst trials of a search can be far off; those below are drawn at the edge


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
