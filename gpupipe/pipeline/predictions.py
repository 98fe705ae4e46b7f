"""What the best model said of rows that it had not seen, as a table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gpupipe.models import CLASSIFICATION
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.leaderboard import Outcome
from gpupipe.pipeline.prediction_table import prediction_table


def predictions_table(job: Job, outcome: Outcome) -> pa.Table:
    """Return ``row`` (of the input, from 0), ``fold`` where there are any, ``target``, and the predictions."""
    columns = {"row": pa.array(job.origin[outcome.rows], pa.int64())}
    if outcome.folds is not None:
        columns["fold"] = pa.array(outcome.folds)
    if outcome.y is not None:
        columns["target"] = _target(job, outcome)
    on_host = outcome.predicted.mapped(job.backend.to_host)
    predicted = prediction_table(on_host, job.goal, outcome.decision.threshold)
    return pa.table(columns | dict(zip(predicted.column_names, predicted.columns, strict=True)))


def _target(job: Job, outcome: Outcome) -> pa.Array:
    if job.goal.task in CLASSIFICATION:
        return pa.array(job.goal.labels).take(pa.array(outcome.y.astype(np.int64)))
    return pa.array(outcome.y)
