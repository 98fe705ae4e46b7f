"""Warnings about splits that make test rows look easier than new rows will be."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.config.event_ops import entity_columns
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.io.event_settings import AS_OF
from gpupipe.pipeline.job import Job
from gpupipe.splits import Fold
from gpupipe.units import DAY_US, parse_duration_us


def split_warnings(job: Job, folds: Sequence[Fold]) -> list[str]:
    """Return what is doubtful about a split: known targets among the features, rows of one key on both sides."""
    found = [_target_history(job), _entities(job, folds)]
    return [warning for warning in found if warning]


def _target_history(job: Job) -> str:
    target, split = job.config.source.target, job.config.split
    if job.derivation is None or target not in job.derivation.inputs or split.time or split.column:
        return ""
    times = [op.time for op in job.config.features if isinstance(op, KeyedOp) and op.table is None and op.time]
    return (
        f"features use past values of the target {target!r}, and the split is not by time: rows to train on hold "
        f"targets of rows to test on. Test on later rows: split: {{time: {times[0]}}}"
    )


def _entities(job: Job, folds: Sequence[Fold]) -> str:
    entities, split = job.config.source.entities, job.config.split
    if entities is None or len(entities.as_of) < 2:
        return ""
    keys = [name for name in entity_columns(job.config) if name != AS_OF]
    if split.time is None and split.column is None and split.group not in keys:
        return (
            f"each {', '.join(keys)} has a row for several cut-offs, and the split puts them on both sides. Test on "
            f"later ones or on others: split: {{time: {AS_OF}}} or {{group: {keys[0]}}}"
        )
    if split.time != AS_OF or entities.label is None:
        return ""
    assert job.times is not None
    times, within = job.times, parse_duration_us(entities.label.within)
    ahead = min(int(times[fold.test].min() - times[fold.train].max()) for fold in folds)
    if ahead >= within:
        return ""
    return (
        f"labels to train on are made of the {entities.label.within} after their cut-off, and the first cut-off "
        f"to test on is {ahead / DAY_US:g} days later, when they were not known yet. Space cut-offs by "
        f"{entities.label.within} or more"
    )
