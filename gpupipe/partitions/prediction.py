"""Predictions and rows of partitioned matrices: each worker predicts its own rows."""

from __future__ import annotations

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.out_of_memory import map_row_ranges
from gpupipe.models import FittedModel, Prediction
from gpupipe.models.fitted.device import join_predictions, matrix_on_host
from gpupipe.models.matrix import gather_rows, predict_matrix, rows_by_worker
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.typing import Array


@predict_matrix.register(PartitionedMatrix)
def _(X: PartitionedMatrix, model: FittedModel, backend: Backend) -> Prediction:
    """Return the predictions of all rows, in order; the model is sent to the workers in its portable form."""
    X = X.drop_empty()
    if not X.partitions:
        return model.predict(np.empty(X.shape, np.float32))
    sent = X.workers.put(model.portable())
    return join_predictions(X.compute(_predict, sent, label="predictions"))


def _predict(backend: Backend, rows: Array, model: FittedModel) -> Prediction:
    on_host = matrix_on_host(rows, backend)
    n_rows = on_host.shape[0]
    return join_predictions(
        map_row_ranges(lambda start, stop: model.predict(on_host[start:stop]), n_rows, backend, "predict")
    )


@gather_rows.register(PartitionedMatrix)
def _(X: PartitionedMatrix, rows: Array | None, backend: Backend) -> Array:
    return X.gather() if rows is None else X.rows(rows)


@rows_by_worker.register(PartitionedMatrix)
def _(X: PartitionedMatrix) -> dict[str, int]:
    return X.rows_by_worker()
