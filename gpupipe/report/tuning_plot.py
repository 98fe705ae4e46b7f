"""Plot of tuning: the score of each trial, and the best score so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpupipe.report.plots import figure_svg, set_number_axes
from gpupipe.report.search_record import SearchRecord
from gpupipe.report.text import metric_title
from gpupipe.report.theme import COLORS, SERIES

if TYPE_CHECKING:
    import numpy as np

MARGIN = 0.06  # of the range of scores, above and below
SHOWN_QUANTILE = 0.1  # the worst trials of a search can be far off; those below are drawn at the edge


def draw_tuning(search: SearchRecord, higher_is_better: bool) -> str:
    """Return the SVG of a search with at least one score."""
    draw = lambda axes: _trials(axes, search, higher_is_better)  # noqa: E731
    return figure_svg("Trial", metric_title(search.metric), draw, top=0.89)


def _trials(axes: Any, search: SearchRecord, higher_is_better: bool) -> None:
    import numpy as np

    set_number_axes(axes)
    scored = [(i, each) for i, each in enumerate(search.tried, 1) if each.score is not None]
    numbers, scores = np.array([i for i, _ in scored]), np.array([each.score for _, each in scored], dtype=float)
    complete = np.array([each.state == "complete" for _, each in scored])
    low, high = _limits(scores[complete] if complete.any() else scores, higher_is_better)
    shown, is_inside = np.clip(scores, low, high), (scores >= low) & (scores <= high)
    dots = {"linestyle": "none", "markersize": 4.5, "markeredgewidth": 1.2, "clip_on": False}
    for state, mask, face in (("complete", complete, SERIES[0]), ("pruned", ~complete, COLORS["card"])):
        if (mask & is_inside).any():
            at = numbers[mask & is_inside], shown[mask & is_inside]
            axes.plot(*at, marker="o", color=SERIES[0], markerfacecolor=face, label=state, **dots)
    if not is_inside.all():
        marker, label = ("v", "lower") if higher_is_better else ("^", "higher")
        axes.plot(numbers[~is_inside], shown[~is_inside], marker=marker, color=COLORS["faint"], label=label, **dots)
    if complete.any():
        so_far = (np.maximum if higher_is_better else np.minimum).accumulate(scores[complete])
        steps = {"color": SERIES[1], "linewidth": 1.6, "drawstyle": "steps-post", "label": "best so far"}
        axes.plot(np.append(numbers[complete], len(search.tried)), np.append(so_far, so_far[-1]), **steps)
    axes.set(ylim=(low, high), xlim=(0.5, len(search.tried) + 0.5))
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=4,
        frameon=False,
        labelcolor=COLORS["muted"],
        fontsize=8,
        borderaxespad=0,
        handletextpad=0.4,
        columnspacing=1.4,
    )


def _limits(scores: np.ndarray[Any, Any], higher_is_better: bool) -> tuple[float, float]:
    """Return the range of the axis: from the best score to a low quantile of all."""
    import numpy as np

    best = scores.max() if higher_is_better else scores.min()
    worst = np.quantile(scores, SHOWN_QUANTILE if higher_is_better else 1 - SHOWN_QUANTILE)
    margin = MARGIN * abs(best - worst) or 0.01 * abs(best) or 0.01
    return float(min(best, worst) - margin), float(max(best, worst) + margin)
