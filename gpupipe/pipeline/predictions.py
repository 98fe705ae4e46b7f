"""Predictions of the test rows as a table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gpupipe.pipeline.identifiers import read_identifiers
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.leaderboard import LeaderboardResult
from gpupipe.pipeline.model.prediction_table import prediction_table
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import Array


def predictions_table(job: Job, outcome: LeaderboardResult) -> pa.Table:
    """Return ``row`` (of the input, from 0), the columns of ``source.id``, ``fold``, ``target``, and the predictions.

    Each row was predicted, calibrated and called by what had not seen it.
    """
    assert job.row_ids is not None
    rows = job.row_ids[outcome.held_out.rows]
    columns = {"row": pa.array(rows, pa.int64()), **read_identifiers(job.config, rows, job.files)}
    if outcome.held_out.folds is not None:
        columns["fold"] = pa.array(outcome.held_out.folds)
    if outcome.held_out.y is not None:
        columns["target"] = _target(job, outcome.held_out.y)
    on_host = outcome.held_out.predicted.mapped(job.backend.to_host)
    predicted = prediction_table(on_host, job.goal, outcome.held_out.threshold)
    return pa.table(columns | dict(zip(predicted.column_names, predicted.columns, strict=True)))


def _target(job: Job, y: Array) -> pa.Array:
    if job.goal.task in CLASSIFICATION:
        return pa.array(job.goal.labels).take(pa.array(y.astype(np.int64)))
    return pa.array(y)
