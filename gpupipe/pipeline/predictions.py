"""Predictions of the test rows as a table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gpupipe.models import CLASSIFICATION
from gpupipe.pipeline.identifiers import read_identifiers
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.leaderboard import Outcome
from gpupipe.pipeline.model.prediction_table import prediction_table
from gpupipe.typing import Array


def predictions_table(job: Job, outcome: Outcome) -> pa.Table:
    """Return ``row`` (of the input, from 0), the columns of ``source.id``, ``fold``, ``target``, and the predictions.

    Each row was predicted, calibrated and called by what had not seen it.
    """
    assert job.origin is not None
    rows = job.origin[outcome.judged.rows]
    columns = {"row": pa.array(rows, pa.int64()), **read_identifiers(job.config, rows)}
    if outcome.judged.folds is not None:
        columns["fold"] = pa.array(outcome.judged.folds)
    if outcome.judged.y is not None:
        columns["target"] = _target(job, outcome.judged.y)
    on_host = outcome.judged.predicted.mapped(job.backend.to_host)
    predicted = prediction_table(on_host, job.goal, outcome.judged.threshold)
    return pa.table(columns | dict(zip(predicted.column_names, predicted.columns, strict=True)))


def _target(job: Job, y: Array) -> pa.Array:
    if job.goal.task in CLASSIFICATION:
        return pa.array(job.goal.labels).take(pa.array(y.astype(np.int64)))
    return pa.array(y)
