"""Record of a split for the model card: rows by class, and time ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpupipe.model_parts.goal import Goal
from gpupipe.splits import Fold, final_training_rows
from gpupipe.table.schema import NAT
from gpupipe.training.job import Job
from gpupipe.typing import Array

TimeRange = tuple[float, float]


@dataclass(frozen=True)
class SplitRecord:
    """Rows that the exported model is trained on and those that test it."""

    n_folds: int  # 1 without cross-validation
    n_tested: int  # distinct rows that are tested
    # For each target with classes, the training and test rows of each class, in the order of the labels
    classes: tuple[tuple[tuple[int, int], ...], ...] = ()
    # `training_times`, `test_times`: first and last value of ``split.time``: numbers, or microseconds since 1970-01-01
    # UTC
    training_times: TimeRange | None = None
    test_times: TimeRange | None = None
    time_kind: str = ""  # {"", "numeric", "datetime"}: the kind of ``split.time``


def record_split(job: Job, folds: Sequence[Fold]) -> SplitRecord:
    """Return the record of the split of a job."""
    train, test = _exported_rows(job, folds), np.logical_or.reduce([fold.test for fold in folds])
    targets = [] if job.y is None else list(zip(job.goal.each, job.y.reshape(len(job.y), -1).T, strict=True))
    classes = tuple(_class_counts(goal, y, train, test) for goal, y in targets if goal.labels)
    n_tested = int(np.count_nonzero(test))
    if job.times is None:
        return SplitRecord(len(folds), n_tested, classes)
    kind = "datetime" if job.times.dtype.kind == "i" else "numeric"
    return SplitRecord(len(folds), n_tested, classes, _range(job.times[train]), _range(job.times[test]), kind)


def _exported_rows(job: Job, folds: Sequence[Fold]) -> Array:
    """Return the mask of the rows that the exported model is trained on."""
    if len(folds) == 1:
        return folds[0].train
    return np.ones(job.table.n_rows, bool) if job.times is None else final_training_rows(job.config.split, job.times)


def _class_counts(goal: Goal, y: Array, train: Array, test: Array) -> tuple[tuple[int, int], ...]:
    counts = [np.bincount(y[rows].astype(np.int64), minlength=goal.n_classes).tolist() for rows in (train, test)]
    return tuple(zip(*counts, strict=True))


def _range(times: Array) -> TimeRange | None:
    known = times[times != NAT] if times.dtype.kind == "i" else times[times == times]
    return (known.min().item(), known.max().item()) if len(known) else None
