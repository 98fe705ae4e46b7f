"""Checks before the first training: rows that models, decisions or searches cannot learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import numpy as np

from gpupipe.config import ModelEntry
from gpupipe.errors import DataError
from gpupipe.model_parts.decision import has_rule
from gpupipe.models.best import Best
from gpupipe.models.target_training import naming_target
from gpupipe.training.job import Job
from gpupipe.training.tuning.inner_folds import make_inner_folds
from gpupipe.typing import Array

Rows = Mapping[str, Array]


def require_learnable(job: Job, entries: Sequence[ModelEntry], trained: Rows, decided: Array | None) -> None:
    """Raise DataError if a training, a search or the exported decision has too few classes or rows.

    `trained` has the mask of the rows of each training by the prefix of its stages, `decided` that of the held-out rows
    which calibration and threshold of the exported model are learned from.
    """
    least, name = max((entry.params.least_class_rows, entry.label) for entry in entries)
    for own in job.of_targets() or [job]:
        with naming_target(own.goal.target) if job.goal.targets else nullcontext():
            for prefix, rows in trained.items() if own.goal.labels else ():
                counts = _class_counts(own, rows, f"{prefix}all", "training", "use a stratified split, or larger folds")
                for code in np.flatnonzero((counts > 0) & (counts < least)):
                    what = f"{prefix}{name} needs {least} training rows of each class; class "
                    what += f"{own.goal.label_texts[code]!r} has {counts[code]}"
                    raise DataError(what, where="models", fix="use another model, or drop or merge that class")
            if decided is not None and has_rule(job.config.evaluate, own.goal.task):
                fix = "set a number as threshold and calibrate: none, or increase evaluate.validation"
                _class_counts(own, decided, "no threshold or calibration can be learned: all", "held-out", fix)
    ensembles = [entry.label for entry in entries if isinstance(entry.params, Best)]
    for prefix, rows in trained.items() if ensembles else ():
        if job.groups is not None and len(np.unique(job.groups[rows])) < 2:
            what = f"{prefix}{ensembles[0]} needs training rows of two groups for its folds; they are all in one"
            raise DataError(what, where="split.group", fix="use another column or model, or add groups")
    split = job.config.split
    seed = job.config.seed
    data = (job.y, job.groups, job.times)
    for tune in [entry.tune for entry in entries if entry.tune is not None]:
        for rows in trained.values():
            y, groups, times = (None if each is None else each[rows] for each in data)
            if y is not None:
                make_inner_folds(split, tune.folds, y, groups, times, job.goal, seed)


def _class_counts(job: Job, rows: Array, what: str, kind: str, fix: str) -> Array:
    """Return the number of rows of each class; raise DataError if there is one class only."""
    assert job.y is not None
    counts = np.bincount(job.y[rows].astype(np.int64))
    if np.count_nonzero(counts) < 2:
        label = job.goal.label_texts[int(counts.argmax())]
        raise DataError(f"{what} {counts.sum():,} {kind} rows have the same class ({label})", where="split", fix=fix)
    return counts
