"""Warnings about splits that leak information from test rows, so that metrics are too good."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.config.event_ops import entity_columns
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.io.event_settings import AS_OF
from gpupipe.pipeline.job import Job
from gpupipe.splits import Fold
from gpupipe.units import DAY_US, parse_duration_us


def split_warnings(job: Job, folds: Sequence[Fold]) -> list[str]:
    """Return warnings about a split: targets of test rows among the features, or one key on both sides."""
    found = [_target_history(job), _entities(job, folds)]
    return [warning for warning in found if warning]


def _target_history(job: Job) -> str:
    target, split = job.config.source.target, job.config.split
    if job.derivation is None or target not in job.derivation.inputs or split.time or split.column:
        return ""
    times = [op.time for op in job.config.features if isinstance(op, KeyedOp) and op.table is None and op.time]
    return (
        f"features use past values of the target {target!r} and the split is not by time, so training rows contain "
        f"targets of test rows; test on later rows: split: {{time: {times[0]}}}"
    )


def _entities(job: Job, folds: Sequence[Fold]) -> str:
    entities, split = job.config.source.entities, job.config.split
    if entities is None or len(entities.as_of) < 2:
        return ""
    keys = [name for name in entity_columns(job.config) if name != AS_OF]
    if split.time is None and split.column is None and split.group not in keys:
        return (
            f"each {', '.join(keys)} has a row per cut-off, and the split puts them on both sides; test on later "
            f"cut-offs or on other keys: split: {{time: {AS_OF}}} or {{group: {keys[0]}}}"
        )
    if split.time != AS_OF or entities.label is None:
        return ""
    assert job.times is not None
    times, within = job.times, parse_duration_us(entities.label.within)
    ahead = min(int(times[fold.test].min() - times[fold.train].max()) for fold in folds)
    if ahead >= within:
        return ""
    return (
        f"training labels cover {entities.label.within} after their cut-off, but the first test cut-off is only "
        f"{ahead / DAY_US:g} days later, before they were known; space the cut-offs by {entities.label.within} or more"
    )
