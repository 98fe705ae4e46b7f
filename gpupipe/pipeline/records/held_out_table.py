"""Table of the predictions of test rows, predictions.parquet."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gpupipe.arrow_numpy import number_array
from gpupipe.inference.prediction.prediction_table import label_column, prediction_table
from gpupipe.model_parts.goal import output_of_target
from gpupipe.tasks import CLASSIFICATION
from gpupipe.training.job import Job
from gpupipe.training.preparation.identifiers import read_identifiers
from gpupipe.training.selection.leaderboard import LeaderboardResult
from gpupipe.training.selection.optional_parts import optional_part


def held_out_table(job: Job, outcome: LeaderboardResult) -> pa.Table:
    """Return the predictions of the test rows: ``row``, columns of ``source.id``, ``fold``, ``target``, predictions.

    With several targets, the columns of each have its name: ``target_price``, ``prediction_price``. Each row is
    predicted, calibrated and labelled by a model and a decision that were fitted without it.
    """
    assert job.row_ids is not None
    held_out, goal = outcome.held_out, job.goal
    rows = job.row_ids[held_out.rows]
    columns = {"row": number_array(rows.astype(np.int64))}
    with optional_part(job.timeline, "predictions.parquet has no columns of source.id"):
        columns |= read_identifiers(job.config, rows, job.files)
    if held_out.folds is not None:
        columns["fold"] = number_array(held_out.folds)
    for own, part in zip(goal.each, held_out.each, strict=True):
        if part.truth is not None:
            y, name = part.truth.y, output_of_target("target", own) if goal.targets else "target"
            is_coded = own.task in CLASSIFICATION
            columns[name] = label_column(own, y.astype(np.int64)) if is_coded else number_array(y)
    predicted = prediction_table(held_out.predicted.mapped(job.backend.to_host), goal, held_out.decision)
    return pa.table(columns | dict(zip(predicted.column_names, predicted.columns, strict=True)))
