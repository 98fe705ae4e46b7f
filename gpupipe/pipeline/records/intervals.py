"""Coverage of the prediction intervals and sets of a run."""

from __future__ import annotations

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.report.intervals import IntervalCoverage
from gpupipe.tasks import CLASSIFICATION, Task
from gpupipe.training.selection.leaderboard import HeldOutPredictions


def measure_coverage(held_out: HeldOutPredictions, task: Task, backend: Backend) -> IntervalCoverage | None:
    """Return the coverage of the intervals or sets of rows that they were not calibrated on; None without any.

    With row weights, all means are weighted.
    """
    intervals, truth = held_out.decision.intervals, held_out.truth
    if intervals is None or truth is None:
        return None
    output = backend.to_host(held_out.predicted.output)
    has_interval = np.broadcast_to(np.isfinite(intervals.score), len(truth))
    if not has_interval.any():
        return None
    weights = None if truth.weights is None else truth.weights[has_interval]
    if task in CLASSIFICATION:
        members = intervals.members(output)[has_interval]
        is_inside = members[np.arange(len(members)), truth.y[has_interval].astype(np.int64)]
        sizes = members.sum(axis=1)
    else:
        lower, upper = (end[has_interval] for end in intervals.interval(output))
        y = truth.y[has_interval]
        is_inside, sizes = (lower <= y) & (y <= upper), upper - lower
    coverage, size = (float(np.average(values, weights=weights)) for values in (is_inside, sizes))
    name = "mean_size" if task in CLASSIFICATION else "mean_width"
    return IntervalCoverage(intervals.level, coverage, int(has_interval.sum()), **{name: size})
