"""Metrics of slices of the evaluated rows, and the limits of ``evaluate.fail_on``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.errors import GpupipeError, SchemaError
from gpupipe.metrics import METRICS, FailOn, SliceColumn, undefined_notes
from gpupipe.metrics.bootstrap import FEWEST_ROWS, class_strata, sampling_errors
from gpupipe.model_parts.slice_levels import RowLevels, frequent_levels, number_levels, stored_levels
from gpupipe.names import count_noun
from gpupipe.report.slices import MetricSlice, missed_text
from gpupipe.report.text import number
from gpupipe.table.schema import FIRST_LEVEL
from gpupipe.timeline.timeline import Stage
from gpupipe.training.job import Job
from gpupipe.training.preparation.identifiers import read_unencoded
from gpupipe.typing import Array, HostArray

if TYPE_CHECKING:
    from gpupipe.training.selection.leaderboard import LeaderboardResult

MOST_RESAMPLED = 2_000  # rows of a slice
SIGNIFICANCE = 0.05  # of the test whether any slice is worse, over all slices together


def read_levels(job: Job) -> dict[str, RowLevels]:
    """Return the levels of each column of ``evaluate.by``; dropped columns and texts are read again.

    Raise ConfigError if ``bins`` does not suit a column; SchemaError if a column does not exist, or is nested.
    """
    schema, columns = job.table.schema, job.config.evaluate.by
    raw = [own.column for own in columns if own.column not in schema or schema[own.column].kind == "text"]
    try:
        stored = read_unencoded(job.config, raw, np.asarray(job.row_ids), job.files) if raw else {}
    except SchemaError as error:
        error.where = "evaluate.by"
        raise
    return {
        own.column: stored_levels(stored[own.column], own) if own.column in stored else _encoded(job, own)
        for own in columns
    }


def _encoded(job: Job, own: SliceColumn) -> RowLevels:
    column, values = job.table.schema[own.column], job.backend.to_host(job.table.column(own.column))
    if column.levels is not None:
        return frequent_levels(values.astype(np.int64) - FIRST_LEVEL, column.levels, own)
    return number_levels(values, own)


def add_slices(
    job: Job, outcome: LeaderboardResult, levels: Mapping[str, RowLevels], stage: Stage
) -> LeaderboardResult:
    """Return the outcome with its slices and the limits that it misses, both noted on the stage."""
    fail_on, name = job.config.evaluate.fail_on, job.metrics[0]
    slices = _measure(job, outcome, levels) if levels else []
    if worse := [each for each in slices if each.is_worse]:
        worst = max(worse, key=lambda each: abs(each.metrics[name] - slices[0].metrics[name]))
        more = f"; {count_noun(len(worse) - 1, 'more slice', 'is', 'are')} worse too" if len(worse) > 1 else ""
        found = f"{number(worst.metrics[name])} for {worst}, worse than {number(slices[0].metrics[name])} of all rows"
        stage.note(f"{name} is {found} by more than chance{more}", "warning")
    if fail_on is None:
        return replace(outcome, slices=slices)
    missed = tuple(_missed(fail_on, outcome.leaderboard[0].metrics, slices[1:]))
    for each in missed:
        stage.note(f"evaluate.fail_on: {missed_text(each)}", "warning")
    large = [each for each in slices[1:] if each.n_rows >= fail_on.min_rows]
    if levels and not large:
        stage.note(f"evaluate.fail_on: no slice is checked, as none has {fail_on.min_rows} evaluated rows", "warning")
    limited = {metric for rule, metric, _ in fail_on.rules if rule.endswith("_slice")}
    for own in (own for own in large if any(math.isnan(own.metrics[metric]) for metric in limited)):
        stage.note(f"evaluate.fail_on: {own} is not checked: {'; '.join(own.notes)}", "warning")
    return replace(outcome, slices=slices, missed=missed)


def assume_missed(outcome: LeaderboardResult, fail_on: FailOn | None) -> LeaderboardResult:
    """Return the outcome with all limits missed, until `add_slices` has checked them."""
    if fail_on is None:
        return outcome
    unknown = dict.fromkeys(("value", "column", "level", "n_rows"))
    missed = tuple({"rule": rule, "metric": name, "limit": limit, **unknown} for rule, name, limit in fail_on.rules)
    return replace(outcome, missed=missed)


def _missed(fail_on: FailOn, metrics: Mapping[str, float], slices: Sequence[MetricSlice]) -> Iterator[dict[str, Any]]:
    """Yield each missed limit; an undefined metric of all rows misses its limit, that of a slice does not."""
    for rule, name, limit in fail_on.rules:
        sign, record = 1.0 if rule.startswith("min") else -1.0, {"rule": rule, "metric": name, "limit": limit}
        if not rule.endswith("_slice"):
            if not sign * metrics[name] >= sign * limit:
                yield record | {"value": metrics[name], "column": None, "level": None, "n_rows": None}
            continue
        for each in slices:
            if each.n_rows >= fail_on.min_rows and sign * each.metrics[name] < sign * limit:
                where = {"column": each.column, "level": each.level, "n_rows": each.n_rows}
                yield record | {"value": each.metrics[name], **where}


def _measure(job: Job, outcome: LeaderboardResult, levels: Mapping[str, RowLevels]) -> list[MetricSlice]:
    """Return all evaluated rows and the slices of each column, measured on the host."""
    held_out = outcome.held_out
    host = replace(job, backend=job.backend.host)
    name = job.metrics[0]
    truth = held_out.truth
    decision = held_out.decision.uncalibrated
    task = job.goal.each[0].task
    predicted = held_out.predicted.mapped(job.backend.to_host)
    assert truth is not None
    deviations: list[float] = []

    def score(rows: Array) -> dict[str, float]:
        try:
            return host.score(truth.take(rows), predicted.mapped(lambda array: array[rows]), decision.take(rows))
        except GpupipeError:  # such as a metric of a plug-in that needs rows of two classes
            return dict.fromkeys(outcome.leaderboard[0].metrics, math.nan)

    def measure(column: str, level: str | None, rows: Array) -> MetricSlice:
        metrics, errors = score(rows), dict[str, HostArray]()
        known = {metric: value for metric, value in metrics.items() if math.isfinite(value)}
        if len(rows) >= FEWEST_ROWS and known:
            strata = class_strata(np.asarray(truth.y[rows]), job.goal.has_classes)
            errors = sampling_errors(lambda at: score(rows[at]), known, strata, most_rows=MOST_RESAMPLED)
        ends = {metric: np.nanquantile(each, (0.025, 0.975)).tolist() for metric, each in errors.items()}
        intervals = {m: (known[m] + min(low, 0.0), known[m] + max(high, 0.0)) for m, (low, high) in ends.items()}
        deviations.append(float(np.nanstd(errors[name])) if name in errors else math.nan)
        notes = undefined_notes(task, metrics) if len(rows) else ["no row of the slice was evaluated"]
        return MetricSlice(column, level, len(rows), metrics, intervals, notes=notes)

    found = [measure("", None, np.arange(len(truth)))]
    for column, (codes, names) in levels.items():
        own = codes[held_out.rows]
        each = [*enumerate(names), *([(-1, None)] if (codes < 0).any() else [])]
        found += [measure(column, level, np.flatnonzero(own == code)) for code, level in each]
    # All rows have a much smaller error, which is correlated with that of the slice: that of the slice is enough.
    limit = NormalDist().inv_cdf(1 - SIGNIFICANCE / max(1, sum(map(math.isfinite, deviations[1:]))))
    sign, overall = 1.0 if METRICS.get(name).greater_is_better else -1.0, found[0].metrics[name]
    losses = [sign * (overall - each.metrics[name]) for each in found]
    return [
        replace(each, is_worse=bool(loss > max(limit * deviation, 1e-12)))
        for each, loss, deviation in zip(found, losses, deviations, strict=True)
    ]
