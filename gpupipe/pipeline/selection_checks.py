"""Checks of a selection before its first training: rows that models, decisions or searches cannot learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import numpy as np

from gpupipe.config import ModelEntry
from gpupipe.errors import DataError, naming_target
from gpupipe.pipeline.decision import has_rule
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.tuning.inner_folds import make_inner_folds
from gpupipe.splits import check_splits
from gpupipe.typing import Array


def require_learnable(
    job: Job, entries: Sequence[ModelEntry], trained: Mapping[str, Array], decided: Array | None
) -> None:
    """Raise DataError if a training, or the decision of the exported model, has rows of too few classes.

    Parameters
    ----------
    job : Job
    entries : sequence of ModelEntry
    trained : mapping of str to array of bool
        The rows of each training, by the prefix of its stages.
    decided : array of bool, shape (n_rows,), optional
        The held-out rows that calibration and threshold of the exported model are learned from.
    """
    for own in job.of_targets() or [job]:
        if own.y is None or not own.goal.labels:
            continue
        with naming_target(own.goal.target) if job.goal.targets else nullcontext():
            for prefix, rows in trained.items():
                _require_classes(own, rows, f"{prefix}all", "training", "use a stratified split, or larger folds")
                _require_class_rows(own, entries, rows, prefix)
            if decided is not None and has_rule(job.config.evaluate, own.goal.task):
                what = "no threshold or calibration can be learned: all"
                fix = "set a number as threshold and calibrate: none, or increase evaluate.validation"
                _require_classes(own, decided, what, "held-out", fix)
    for entry in entries:
        for rows in trained.values() if entry.tune is not None and job.y is not None else ():
            y, groups, times = (None if each is None else each[rows] for each in (job.y, job.groups, job.times))
            assert entry.tune is not None
            make_inner_folds(
                job.config.split, entry.tune.folds, y, groups, times, job.goal, job.config.seed, check_splits
            )


def _require_classes(job: Job, rows: Array, what: str, kind: str, fix: str) -> None:
    assert job.y is not None
    y = job.y[rows]
    if y.min() == y.max():
        label = job.goal.label_texts[int(y[0])]
        raise DataError(f"{what} {len(y):,} {kind} rows have the same class ({label})", where="split", fix=fix)


def _require_class_rows(job: Job, entries: Sequence[ModelEntry], rows: Array, prefix: str) -> None:
    """Raise DataError if a class has rows, but fewer than an entry needs."""
    least, name = max((entry.params.least_class_rows, entry.label) for entry in entries)
    if least < 2:
        return
    assert job.y is not None
    counts = np.bincount(job.y[rows].astype(np.int64))
    for code in np.flatnonzero((counts > 0) & (counts < least)):
        raise DataError(
            f"{prefix}{name} needs {least} training rows of each class; class {job.goal.label_texts[code]!r} has "
            f"{counts[code]}",
            where="models",
            fix="use another model, or drop or merge that class",
        )
