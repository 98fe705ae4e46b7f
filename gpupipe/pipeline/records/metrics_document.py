"""The content of metrics.json, with the coverage of intervals and sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.model_parts.goal import Goal
from gpupipe.report.intervals import IntervalCoverage
from gpupipe.tasks import CLASSIFICATION, Task
from gpupipe.training.selection.leaderboard import HeldOutPredictions, LeaderboardResult


def metrics_document(
    outcome: LeaderboardResult, goal: Goal, coverage: Sequence[IntervalCoverage | None] = ()
) -> dict[str, Any]:
    """Return the content of metrics.json; `coverage` is that of each target."""
    models = {entry.label: entry.metrics for entry in outcome.leaderboard}
    document: dict[str, Any] = {"best": outcome.leaderboard[0].label, "models": models}
    validation = {entry.label: entry.validation for entry in outcome.leaderboard if entry.validation}
    if validation:
        document["validation"] = validation
    folds = {entry.label: list(map(dict, entry.folds)) for entry in outcome.leaderboard if entry.folds}
    if folds:
        document["folds"] = folds
    if outcome.selection:
        document["selection"] = dict(outcome.selection)
    if outcome.slices:
        overall, *each = map(asdict, outcome.slices)
        names = dict.fromkeys(one.column for one in outcome.slices[1:])
        document["slices"] = {"overall": overall, "columns": {n: [s for s in each if s["column"] == n] for n in names}}
    if outcome.missed is not None:
        document["fail_on"] = {"missed": outcome.missed}
    found = {own.target: _known(each) for own, each in zip(goal.each, coverage, strict=False) if each is not None}
    if found:
        document["intervals"] = found if goal.targets else next(iter(found.values()))
    latencies = {entry.label: entry.latency for entry in outcome.leaderboard if entry.latency is not None}
    if latencies:
        document["latency"] = {
            "limit_seconds": latencies[outcome.leaderboard[0].label].limit_seconds,
            "models": {label: latency.to_json() for label, latency in latencies.items()},
        }
    document["tried"] = asdict(outcome.tried)
    searches = {entry.label: entry.search.to_json() for entry in outcome.leaderboard if entry.search is not None}
    if searches:
        document["search"] = searches
    return document


def _known(coverage: IntervalCoverage) -> dict[str, float]:
    """Return the values that are set, by name."""
    return {name: value for name, value in asdict(coverage).items() if value is not None}


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
