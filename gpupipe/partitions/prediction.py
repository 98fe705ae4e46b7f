"""What a model says of rows that lie on workers: each predicts its own."""

from __future__ import annotations

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.out_of_memory import by_parts
from gpupipe.models import FittedModel, Prediction
from gpupipe.models.fitted.device import joined, matrix_on_host
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.typing import Array


def predict_partitions(model: FittedModel, X: PartitionedMatrix) -> Prediction:
    """Return what a model, which is sent to the workers in its portable form, says of all rows, in their order."""
    X = X.filled()
    if not X.parts:
        return model.predict(np.empty(X.shape, np.float32))
    sent = X.workers.put(model.portable())
    return joined(X.workers.gather(X.map(_predict, sent, label="predictions")))


def _predict(backend: Backend, rows: Array, model: FittedModel) -> Prediction:
    on_host = matrix_on_host(rows, backend)
    n_rows = on_host.shape[0]
    return joined(by_parts(lambda start, stop: model.predict(on_host[start:stop]), n_rows, backend, "predict"))
