"""Computation of rows by a loaded model, in batches of limited memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpupipe.backends.out_of_memory import map_row_ranges
from gpupipe.inference.explanation.explanation import Explanation, join_explanations
from gpupipe.inference.prediction.prediction_arrays import no_predictions
from gpupipe.inference.prediction.prediction_report import PredictionReport, merge_reports, report_rows
from gpupipe.inference.prediction.rows import BATCH_ROWS, EXPLAINED_ROWS, INTERACTION_ROWS, RowsToPredict
from gpupipe.models import Prediction, predict_loaded
from gpupipe.models.device.fitted import matrix_on_host
from gpupipe.models.fitted.prediction import join_predictions
from gpupipe.table.blocks import Table

if TYPE_CHECKING:
    from gpupipe.inference.model import Model


def encode_rows(model: Model, rows: RowsToPredict) -> tuple[Table, PredictionReport]:
    """Return the rows encoded for the features of `model`, and the report on their values."""
    table = _encode(model, rows)
    return table, report_rows(table, rows.column, model.features.training, model.backend, model.inputs)


def _encode(model: Model, rows: RowsToPredict) -> Table:
    if rows.encoded is not None:
        return rows.encoded
    return model.features.encode(rows.arrow, model.backend, rows.events, rows.as_of)


def predict_rows(model: Model, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
    """Return the calibrated prediction of rows, computed in batches, and the report on their values."""
    if rows.encoded is not None or model.features.derivation is not None:  # a history must stay in one batch
        return _predict_batch(model, rows)
    n_rows = rows.n_rows
    parts = map_row_ranges(
        lambda a, b: _predict_batch(model, rows.between(a, b)), n_rows, model.backend, "predict", BATCH_ROWS
    )
    return join_predictions([prediction for prediction, _ in parts]), merge_reports([report for _, report in parts])


def _predict_batch(model: Model, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
    table, report = encode_rows(model, rows)  # checks the columns even if there are no rows
    if rows.n_rows == 0:
        return no_predictions(model.goal), report
    X = model.features.transform(table, model.backend)
    X = matrix_on_host(X, model.backend)  # the estimator runs on the host
    parts = map_row_ranges(
        lambda a, b: predict_loaded(model.estimator, X[a:b], str(model.folder)), X.shape[0], model.backend, "predict"
    )
    return model.decision.apply(join_predictions(parts)), report


def explain_rows(model: Model, rows: RowsToPredict, interactions: bool) -> Explanation:
    """Return the explanation of rows, computed in batches on the host."""

    def explain(part: RowsToPredict) -> Explanation:
        X = matrix_on_host(model.features.transform(_encode(model, part), model.backend), model.backend)
        return model.explainer.explain(np.asarray(X), interactions=interactions)

    n_rows = rows.n_rows
    if rows.encoded is not None or model.features.derivation is not None or n_rows == 0:  # a history: in one batch
        return explain(rows)
    at_once = INTERACTION_ROWS if interactions else EXPLAINED_ROWS
    return join_explanations(
        map_row_ranges(lambda a, b: explain(rows.between(a, b)), n_rows, model.backend, "explain", at_once)
    )
