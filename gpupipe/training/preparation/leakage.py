"""Warnings about splits that leak information from test rows, so that metrics are too good."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.config.event_ops import entity_columns, target_delays
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.io.event_settings import AS_OF
from gpupipe.splits import Fold
from gpupipe.training.job import Job
from gpupipe.units import DAY_US, parse_duration_us


def split_warnings(job: Job, folds: Sequence[Fold]) -> list[str]:
    """Return warnings about a split: targets that are not known yet, or one key on both sides."""
    found = [_target_history(job), _entities(job), _unknown_targets(job, folds)]
    return [warning for warning in found if warning]


def _target_history(job: Job) -> str:
    split, derivation = job.config.split, job.derivation
    if derivation is None or split.time or split.column:
        return ""
    target = next((name for name in job.config.source.targets if name in derivation.inputs), None)
    if target is None:
        return ""
    times = [op.time for op in job.config.features if isinstance(op, KeyedOp) and op.table is None and op.time]
    return (
        f"features use past values of the target {target!r} and the split is not by time, so training rows contain "
        f"targets of test rows; test on later rows: split: {{time: {times[0]}}}"
    )


def _entities(job: Job) -> str:
    entities, split = job.config.source.entities, job.config.split
    if entities is None or len(entities.as_of) < 2:
        return ""
    keys = [name for name in entity_columns(job.config) if name != AS_OF]
    if split.time is not None or split.column is not None or split.group in keys:
        return ""
    return (
        f"each {', '.join(keys)} has a row per cut-off, and the split puts them on both sides; test on later "
        f"cut-offs or on other keys: split: {{time: {AS_OF}}} or {{group: {keys[0]}}}"
    )


def _unknown_targets(job: Job, folds: Sequence[Fold]) -> str:
    """Return a warning if training rows have targets that were not known at the time of the first test row."""
    delays, times = target_delays(job.config), job.times
    if not delays or times is None or times.dtype.kind != "i":
        return ""
    delay_us, delay, where = max((parse_duration_us(delay, allow_zero=True), delay, where) for delay, where in delays)
    first = [int(times[fold.test].min()) for fold in folds]
    ahead = min(test - int(times[fold.train].max()) for test, fold in zip(first, folds, strict=True))
    if ahead >= delay_us:
        return ""
    fix = f"skip the rows before it: split: {{gap: {delay}}}"
    if any(times[fold.train].min() > test - delay_us for test, fold in zip(first, folds, strict=True)):
        fix = f"add training rows that are {delay} or more before it, and set split: {{gap: {delay}}}"
    return (
        f"targets are known after {delay} ({where}), but the first test row is only {ahead / DAY_US:g} days later than "
        f"training rows; {fix}"
    )
