"""Metrics of slices of the evaluated rows, and the limits of ``evaluate.fail_on``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpupipe.errors import ConfigError, GpupipeError, SchemaError
from gpupipe.io.raw_columns import numbers_of_texts
from gpupipe.metrics import METRICS, FailOn, SliceColumn, undefined_notes
from gpupipe.metrics.bootstrap import FEWEST_ROWS, class_strata, sampling_errors
from gpupipe.names import count_noun
from gpupipe.report.slices import MetricSlice, missed_text
from gpupipe.report.text import column_value, number, whole_number
from gpupipe.table.numeric_columns import as_numbers
from gpupipe.table.schema import FIRST_LEVEL, NAT
from gpupipe.timeline.timeline import Stage
from gpupipe.training.job import Job
from gpupipe.training.preparation.identifiers import read_unencoded
from gpupipe.typing import Array, HostArray

if TYPE_CHECKING:
    from gpupipe.training.selection.leaderboard import LeaderboardResult

MOST_LEVELS = 20  # of a column; if there are more, rare ones are one slice
MOST_VALUES = 10  # whole numbers that are slices by themselves
N_BINS = 4
MOST_RESAMPLED = 2_000  # rows of a slice
SIGNIFICANCE = 0.05  # of the test whether any slice is worse, over all slices together

RowLevels = tuple[Array, list[str]]
"""Position of the level of each row, int8, shape (n_rows,), -1 if the value is missing; and the levels."""


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
        own.column: _stored(stored[own.column], own) if own.column in stored else _encoded(job, own) for own in columns
    }


def _encoded(job: Job, own: SliceColumn) -> RowLevels:
    column, values = job.table.schema[own.column], job.backend.to_host(job.table.column(own.column))
    if column.levels is not None:
        return frequent_levels(values.astype(np.int64) - FIRST_LEVEL, column.levels, own)
    return number_levels(values, own)


def _stored(column: pa.ChunkedArray, own: SliceColumn) -> RowLevels:
    """Return the levels of a column as it is stored; texts that all are numbers are numbers."""
    column = numbers_of_texts(column)
    if pa.types.is_temporal(column.type):
        micros = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return number_levels(micros.fill_null(NAT).to_numpy(), own)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        return number_levels(as_numbers(own.column, column).cast(pa.float64()).to_numpy(), own)
    texts = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return frequent_levels(texts.indices.fill_null(-1).to_numpy(), texts.dictionary.to_pylist(), own)


def _unsuitable(own: SliceColumn, what: str, fix: str) -> ConfigError:
    return ConfigError(f"column {own.column!r} {what}", where="evaluate.by", fix=fix, names=[own.column])


def frequent_levels(codes: Array, levels: Sequence[str], own: SliceColumn) -> RowLevels:
    """Return the levels with the most rows, most frequent first, and one for all others; negative codes are missing."""
    if own.bins is not None:
        raise _unsuitable(own, "has levels; bins are for numbers and times", "remove bins")
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    used = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    n_named = len(used)
    if n_named > MOST_LEVELS:
        n_named = min(MOST_LEVELS - 1, int(np.count_nonzero(counts >= FEWEST_ROWS)))
    position = np.full(len(levels) + 1, -1, np.int8)  # the last one is that of missing values
    position[used] = np.minimum(np.arange(len(used)), n_named)
    others = [f"{len(used) - n_named:,} {'other ' * (n_named > 0)}levels"] if len(used) > n_named else []
    return position[np.where(codes < 0, len(levels), codes)], [*(levels[i] for i in used[:n_named]), *others]


def number_levels(values: Array, own: SliceColumn) -> RowLevels:
    """Return numbers, or times as int64, as levels: each value if there are few whole ones, otherwise bins."""
    kind, bins = "datetime" if values.dtype.kind == "i" else "numeric", own.bins
    is_missing = values == NAT if kind == "datetime" else np.isnan(values)
    known = values[~is_missing]
    if bins is None and kind == "numeric" and (known == np.round(known)).all():
        distinct = np.unique(known)
        if len(distinct) <= MOST_VALUES:
            names = [whole_number(float(value)) for value in distinct]
            return np.where(is_missing, -1, np.searchsorted(distinct, values)).astype(np.int8), names
    if isinstance(bins, tuple):
        if kind == "datetime":
            raise _unsuitable(own, "has times; edges of bins are for numbers", "state how many bins, as in bins: 4")
        edges = np.array(bins, values.dtype)  # so that a float32 0.7 is in the bin from 0.7
        texts = [column_value(edge, kind) if edge.is_integer() else repr(edge) for edge in bins]
    else:
        shares = np.arange(1, bins or N_BINS) / (bins or N_BINS)
        edges = np.unique(np.quantile(known, shares, method="inverted_cdf")) if len(known) else known
        higher = known[known > edges[0]] if len(known) and edges[-1] == known.min() else known[:0]
        edges = np.array([higher.min()]) if len(higher) else edges[edges > known.min()] if len(known) else edges
        texts = [column_value(edge, kind) for edge in edges.tolist()]
        if len(set(texts)) < len(texts):
            texts = [column_value(edge, kind, 17) for edge in edges.tolist()]
    inner = [f"{low} to below {high}" for low, high in pairwise(texts)]
    names = [f"below {texts[0]}", *inner, f"{texts[-1]} and above"] if texts else ["all values"]
    return np.where(is_missing, -1, np.searchsorted(edges, values, side="right")).astype(np.int8), names


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
