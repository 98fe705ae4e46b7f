"""Report of a run: its results as `gpupipe.report` takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.config import ModelEntry, resolved_yaml
from gpupipe.files.libraries import libraries
from gpupipe.metrics import METRICS, Points
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.names import count_noun
from gpupipe.pipeline.records.card.split_record import SplitRecord
from gpupipe.pipeline.records.importance_work import ImportanceWork
from gpupipe.pipeline.records.importances_and_plots import MeasuredImportances, ModelPlots
from gpupipe.report.contributions import TargetContributions
from gpupipe.report.data import (
    Classification,
    ColumnQuality,
    Confusion,
    Curve,
    LeaderboardRow,
    Lineage,
    ReportData,
    TargetReport,
)
from gpupipe.report.intervals import IntervalCoverage
from gpupipe.report.render import render
from gpupipe.report.text import column_value, metric_title
from gpupipe.rules import RuleViolation
from gpupipe.table.blocks import EncodedTable
from gpupipe.table.schema import FIRST_LEVEL, NAT, NULL, RAW_KINDS, Column
from gpupipe.training.job import Job
from gpupipe.training.selection.leaderboard import HeldOutPredictions, LeaderboardResult, leaderboard_rows
from gpupipe.training.tuning.tuned_yaml import models_yaml
from gpupipe.units import format_latency

MOST_BARS = 20
SAMPLED_ROWS = 20_000  # of a histogram
ROWS_TO_SORT = 200_000  # distinct numbers are counted up to this many rows; sorting more would take seconds


def write_report(
    folder: Path,
    job: Job,
    outcome: LeaderboardResult,
    importances: MeasuredImportances,
    contributions: Sequence[TargetContributions],
    drawings: Sequence[ModelPlots],
    tuned: Sequence[ModelEntry] = (),
    coverages: Sequence[IntervalCoverage | None] = (None,),
    split: SplitRecord | None = None,
) -> None:
    """Write report.html and plots/ into `folder`.

    `contributions`, `drawings` and `coverages` are those of each target, `tuned` the entries with the best parameters
    of a search, `split` has the rows of each class.
    """
    each = (job.of_targets() or [job], outcome.held_out.each, outcome.decision.targets or (outcome.decision,))
    results = [_target_report(*parts) for parts in zip(*each, drawings, coverages, strict=True)]
    one = results[0]
    config, name = job.config, job.metrics[0]
    n_test = 0 if outcome.held_out.folds is not None else len(outcome.held_out.rows)
    n_folds = 0 if outcome.held_out.folds is None else int(outcome.held_out.folds.max())
    timeline = job.timeline.to_json()
    data = ReportData(
        name=config.name,
        created=f"{datetime.fromisoformat(timeline['started']).astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        seconds=timeline["seconds"],
        device=job.backend.name,
        device_reason=config.origin.redactor.hide(job.backend.reason),
        task=job.goal.task,
        target=", ".join(job.goal.names) or None,
        metric=name,
        higher_is_better=METRICS.get(name).greater_is_better,
        evaluated_on=_evaluated_on(n_folds, config.split.repeats),
        weight=config.source.weight,
        rows_train=outcome.n_training_rows,
        rows_test=n_test,
        n_features=len(outcome.champion.features.features),
        n_inputs=len(set(chain.from_iterable(outcome.champion.features.lineage.values()))),
        leaderboard=_with_tuned(leaderboard_rows(outcome.leaderboard), tuned, config.origin.redactor.hide),
        selection=outcome.selection,
        targets=results if job.goal.targets else (),
        tried=outcome.tried,
        generated=outcome.generated,
        n_validation_rows=outcome.n_validation_rows,
        latency_note=_latency_note(outcome),
        cluster_sizes=drawings[0].cluster_sizes or (),
        losses=_losses(outcome.champion.model.history),
        importances=importances.columns,
        contributions=contributions,
        importance_note=_importance_note(
            name, importances.work, len(outcome.champion.features.inputs), is_folded=n_folds > 0
        ),
        columns=column_quality(job.table, job.goal.names, job.backend, job.rules.broken),
        classes={} if split is None else _classes(job.goal, split),
        slices=outcome.slices,
        lineage=[Lineage(output=f.name, inputs=f.inputs, op=f.op) for f in outcome.champion.features.features],
        stages=[stage for stage in timeline["stages"] if stage["status"] != "running"],  # the report's has no end yet
        limits=timeline["limits"],
        imports=timeline["imports"],
        samples=timeline["samples"],
        notes=[note.text for note in job.timeline.all_notes("info")],
        warnings=[note.text for note in job.timeline.all_notes("warning")],
        config=resolved_yaml(config),
        versions=libraries(),
    )
    if not job.goal.targets:
        data = replace(
            data,
            classification=one.classification,
            regression=one.regression,
            quantiles=one.quantiles,
            ndcg=one.ndcg,
            intervals=one.intervals,
        )
    render(data, folder, config.report)


def _target_report(
    job: Job, held_out: HeldOutPredictions, decision: Decision, drawing: ModelPlots, coverage: IntervalCoverage | None
) -> TargetReport:
    """Return the predictions of the target of a job with a single one; `decision` is exported."""
    return TargetReport(
        target=job.goal.target,
        task=job.goal.task,
        classification=_classification(job, held_out, decision, drawing),
        regression=drawing.residuals,
        quantiles=drawing.quantiles or (),
        ndcg=drawing.ndcg or (),
        intervals=coverage,
    )


def _classes(goal: Goal, split: SplitRecord) -> dict[str, dict[str, tuple[int, int]]]:
    targets = [own for own in goal.each if own.labels]
    counts = zip(targets, split.classes, strict=True)
    return {own.target or "": dict(zip(own.label_texts, each, strict=True)) for own, each in counts}


def _evaluated_on(n_folds: int, n_repeats: int) -> str:
    if not n_folds:
        return "test split"
    return f"mean over {n_folds} folds" if n_repeats == 1 else f"mean over {n_repeats} repeats of {n_folds} folds"


def _with_tuned(
    rows: Sequence[LeaderboardRow], tuned: Sequence[ModelEntry], hide: Callable[[str], str]
) -> list[LeaderboardRow]:
    """Return the rows, those of tuned models with their entry as YAML."""
    sections = {entry.label: hide(models_yaml([entry])) for entry in tuned}
    return [replace(row, tuned_yaml=sections.get(row.model, "")) for row in rows]


def _importance_note(metric: str, work: ImportanceWork | None, n_inputs: int, *, is_folded: bool) -> str:
    if work is None:
        return ""
    change = "decrease" if METRICS.get(metric).greater_is_better else "increase"
    rows = count_noun(work.n_rows, "test row") + (" of the last fold" if is_folded else "")
    note = (
        f"Permutation importance: the mean {change} of {metric_title(metric)} on {rows} when the values of a column "
        f"are shuffled, {work.repeats} times."
    )
    if work.n_columns < n_inputs:
        note += f" Measured for {work.n_columns:,} of {n_inputs:,} columns, those that the model relies on most."
    return note


def _latency_note(outcome: LeaderboardResult) -> str:
    found = outcome.leaderboard[0].latency
    if found is None:
        return ""
    return (
        "One row, p99: 99 % of single rows were predicted within this time on the CPU of this machine, one after the "
        f"other, from raw values to the prediction. The limit is {format_latency(found.limit_seconds)}; candidates "
        f"that exceed it are not exported. The exported model: {found}."
    )


def _classification(
    job: Job, held_out: HeldOutPredictions, decision: Decision, drawing: ModelPlots
) -> Classification | None:
    drawn, counts = drawing.curves, drawing.confusion
    if drawn is None or counts is None:
        return None
    labels = list(job.goal.label_texts)
    binary, truth = job.goal.task == "binary", held_out.truth
    rule = job.config.evaluate.threshold
    return Classification(
        roc=_curves(drawn.roc, labels),
        precision_recall=_curves(drawn.precision_recall, labels),
        calibration=_curves(drawn.calibration, labels),
        gains=_curves(drawn.gains, labels),
        headline=next(iter(drawn.top), None),
        top=drawn.top[1:],
        prevalence=float(np.average(truth.y, weights=truth.weights)) if binary and truth is not None else None,
        positive=labels[1] if binary else None,
        threshold=float(decision.threshold) if binary else None,
        threshold_rule=rule if isinstance(rule, str) else "",
        fold_thresholds=_fold_thresholds(held_out) if binary else (),
        confusion=Confusion(labels=labels, counts=counts),
    )


def _fold_thresholds(held_out: HeldOutPredictions) -> list[float]:
    """Return the threshold of each fold; none if all are equal."""
    if held_out.folds is None:
        return []
    own = np.asarray(held_out.decision.threshold)
    thresholds = [float(own[held_out.folds == fold][0]) for fold in range(1, int(held_out.folds.max()) + 1)]
    return thresholds if len(set(thresholds)) > 1 else []


def _curves(points: Sequence[Points], labels: Sequence[str]) -> list[Curve]:
    named = len(points) > 1
    return [Curve(x=p.x, y=p.y, label=labels[p.class_code] if named else "") for p in points]


def _losses(history: Sequence[Mapping[str, float]]) -> list[Curve]:
    epochs = list(range(1, len(history) + 1))
    rows = {"training": "training rows", "validation": "held-out rows"}
    return [
        Curve(x=epochs, y=[epoch[name] for epoch in history], label=label) for name, label in rows.items() if epochs
    ]


def column_quality(
    table: EncodedTable, targets: Sequence[str], backend: Backend, broken: Sequence[RuleViolation] = ()
) -> list[ColumnQuality]:
    """Return a summary of each column, in order; columns on a device are summarized there.

    Violations of rules (`broken`) are added to the notes of their columns.
    """

    def summary(column: Column) -> ColumnQuality:
        found = _summary(table, column, "target" if column.name in targets else column.kind, backend)
        return replace(found, notes=(*found.notes, *(each.breach for each in broken if each.column == column.name)))

    return [summary(column) for column in table.schema]


def _summary(table: EncodedTable, column: Column, kind: str, backend: Backend) -> ColumnQuality:
    if column.kind in RAW_KINDS:
        null = table.text_nulls(column.name) / max(1, table.n_rows)
        note = RAW_KINDS[column.kind].removeprefix("is ")
        return ColumnQuality(name=column.name, kind=kind, dtype=column.dtype, null_fraction=null, notes=(note,))
    values = table.column(column.name)
    if column.levels is not None:
        found = _levels(column, values, backend)
    elif column.kind == "datetime":
        found = _times(values, backend)
    else:
        found = _numbers(values, backend)
    notes = ("constant",) if found.get("distinct") == 1 else ()
    return ColumnQuality(name=column.name, kind=kind, dtype=column.dtype, notes=notes, **found)


def _levels(column: Column, values: Any, backend: Backend) -> dict[str, Any]:
    counts = backend.to_host(backend.xp.bincount(values, minlength=column.n_codes))
    levels = counts[FIRST_LEVEL:]
    known = int(levels.sum())
    found: dict[str, Any] = {
        "null_fraction": int(counts[NULL]) / max(1, len(values)),
        "distinct": int(np.count_nonzero(levels)),
    }
    if known and column.levels:
        top = int(levels.argmax())
        found |= {"top": column.levels[top], "top_fraction": int(levels[top]) / known}
        found["bars"] = np.sort(levels[levels > 0])[::-1][:MOST_BARS].tolist()
    return found


def _numbers(values: Any, backend: Backend) -> dict[str, Any]:
    known = values[~backend.xp.isnan(values)]
    found: dict[str, Any] = {"null_fraction": 1.0 - len(known) / max(1, len(values))}
    if len(known):
        bounds = [known.min().astype("float64"), known.mean(dtype=np.float64), known.max().astype("float64")]
        found |= zip(("minimum", "mean", "maximum"), backend.to_host(backend.xp.stack(bounds)).tolist(), strict=True)
    if len(known) <= ROWS_TO_SORT:
        found["distinct"] = len(backend.xp.unique(known))
    return found | {"bars": _histogram(known, backend)}


def _times(values: Any, backend: Backend) -> dict[str, Any]:
    known = values[values != NAT]
    found: dict[str, Any] = {"null_fraction": 1.0 - len(known) / max(1, len(values))}
    if len(known):
        bounds = backend.to_host(backend.xp.stack([known.min(), known.max()])).tolist()
        found |= zip(("minimum", "maximum"), (column_value(each, "datetime") for each in bounds), strict=True)
    return found | {"bars": _histogram(known, backend)}


def _histogram(known: Any, backend: Backend) -> list[float]:
    """Return the number of sampled values in bars of equal width; the outer ones have the tails, 1 % at each end."""
    sample = np.sort(backend.to_host(known[:: 1 + len(known) // SAMPLED_ROWS]).astype(np.float64))
    if not len(sample):
        return []
    low, high = sample[[len(sample) // 100, -1 - len(sample) // 100]]
    if not np.isfinite(high - low):
        return []
    n_bars = min(MOST_BARS, len(np.unique(sample)))
    counts: list[float] = np.histogram(sample.clip(low, high), n_bars)[0].tolist()
    return counts
