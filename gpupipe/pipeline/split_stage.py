"""Split of the rows of a run, with its candidates and the checks that precede any training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from gpupipe.config import ModelEntry
from gpupipe.files.disk import require_room
from gpupipe.model_parts.goal import Truth, unseen_labels
from gpupipe.model_parts.slice_levels import RowLevels
from gpupipe.names import count_noun
from gpupipe.pipeline.records.card.split_record import SplitRecord, record_split
from gpupipe.pipeline.services import RunServices
from gpupipe.splits import Fold
from gpupipe.training.checkpoints.keys import table_key
from gpupipe.training.checkpoints.run_checkpoints import RunCheckpoints
from gpupipe.training.ensemble import require_one_process
from gpupipe.training.imports import import_libraries
from gpupipe.training.job import Job
from gpupipe.training.preparation.leakage import split_warnings
from gpupipe.training.preparation.preparation import choose_entries, folds_of, require_tuning
from gpupipe.training.selection.slices import read_levels

PREDICTED_BYTES = 8  # minimum per row: one number


@dataclass(frozen=True)
class SplitJob:
    """A job with its candidates, its folds, the levels of ``evaluate.by``, and the record of the split."""

    job: Job
    entries: Sequence[ModelEntry]
    folds: Sequence[Fold]
    levels: dict[str, RowLevels]
    record: SplitRecord


def split_rows(job: Job, services: RunServices) -> SplitJob:
    """Choose the candidates, import their libraries, and split the rows into folds, or training and test rows."""
    truth = None if job.y is None else Truth(job.y, job.weights)
    checkpoints = RunCheckpoints(services.store, table_key(services.key, job.table, truth, job.goal, job.workers))
    services.stack.enter_context(checkpoints.flush_on_error())
    require_tuning(job.config, job.workers)
    entries = choose_entries(job.config, job.goal, job.backend)
    require_one_process(entries, job.workers)
    # The records of the run show the models and the values of parameters that were used.
    config = job.config.model_copy(update={"models": entries})
    job = replace(job, config=config, resources=services.resources, checkpoints=checkpoints)
    import_libraries(job, entries)
    with job.stage("split", job.backend.host_place) as stage:
        levels = read_levels(job) if job.config.evaluate.by else {}
        folds = folds_of(job)
        stage.rows = job.table.n_rows
        stage.note(_describe(folds, stage.rows))
        unseen = set(chain.from_iterable(unseen_labels(job.goal, job.y, fold.train, fold.test) for fold in folds))
        if unseen:
            known = job.goal.labels or sorted(unseen)
            labels = ", ".join(repr(label) for label in known if label in unseen)
            stage.note(f"class {labels} occurs only in the test rows; no model can predict it", "warning")
        for warning in split_warnings(job, folds):
            stage.note(warning, "warning")
    n_rows = sum(int(fold.test.sum()) for fold in folds)
    # Before any training.
    require_room(services.directory.path, n_rows * PREDICTED_BYTES, "predictions.parquet")
    return SplitJob(job, entries, folds, levels, record_split(job, folds))


def _describe(folds: Sequence[Fold], n_rows: int) -> str:
    """Return the numbers of training and test rows; of folds, what is tested of all rows."""
    tested = int(np.count_nonzero(np.logical_or.reduce([fold.test for fold in folds])))
    if len(folds) > 1:
        return (
            f"{len(folds)} folds" if tested == n_rows else f"{len(folds)} folds, which test {count_noun(tested, 'row')}"
        )
    unused = n_rows - tested - int(folds[0].train.sum())
    parts = f"{count_noun(int(folds[0].train.sum()), 'training row')}, {count_noun(tested, 'test row')}"
    return f"{parts}, {count_noun(unused, 'row')} in neither" if unused else parts
