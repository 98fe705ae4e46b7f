"""Inference of a loaded model on prepared rows: encode, compute features, estimate, decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.backends.out_of_memory import map_row_ranges
from gpupipe.models import Prediction, predict_loaded
from gpupipe.models.fitted.device import join_predictions, matrix_on_host
from gpupipe.pipeline.model.prediction_report import PredictionReport, merge_reports, report_rows
from gpupipe.pipeline.model.prediction_table import no_predictions
from gpupipe.pipeline.model.rows import RowsToPredict
from gpupipe.table.blocks import Table

if TYPE_CHECKING:
    from gpupipe.pipeline.model.model import Model

BATCH_ROWS = 1_048_576  # rows whose matrix is in memory at once


def encode_rows(model: Model, rows: RowsToPredict) -> tuple[Table, PredictionReport]:
    """Return rows as the features of `model` read them, with the report on their values."""
    table = model.features.encode(rows.arrow, model.backend, rows.events, rows.as_of)
    return table, report_rows(table, rows.arrow, model.features.training, model.backend, model.inputs)


def predict_rows(model: Model, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
    """Return the calibrated prediction of rows, in batches, with the report on their values."""
    if model.features.derivation is not None:  # a history must not be cut
        return _predict_batch(model, rows)
    n_rows = rows.arrow.num_rows
    parts = map_row_ranges(
        lambda a, b: _predict_batch(model, rows.between(a, b)), n_rows, model.backend, "predict", BATCH_ROWS
    )
    return join_predictions([prediction for prediction, _ in parts]), merge_reports([report for _, report in parts])


def _predict_batch(model: Model, rows: RowsToPredict) -> tuple[Prediction, PredictionReport]:
    table, report = encode_rows(model, rows)  # the columns must be right, even if there are no rows
    if rows.arrow.num_rows == 0:
        return no_predictions(model.goal), report
    X = model.features.transform(table, model.backend, model.engine)
    X = matrix_on_host(X, model.backend)  # the estimator is the host's
    parts = map_row_ranges(
        lambda a, b: predict_loaded(model.estimator, X[a:b], str(model.folder)), X.shape[0], model.backend, "predict"
    )
    return model.decision.apply(join_predictions(parts)), report
