"""Training and prediction on a feature matrix, dispatched on its type.

This module has the implementations for arrays; `gpupipe.partitions` registers those for partitioned matrices.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.out_of_memory import map_row_ranges
from gpupipe.models.base import ModelSettings
from gpupipe.models.context import FitContext
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.prediction import Prediction, join_predictions
from gpupipe.models.training import fit
from gpupipe.typing import Array


@singledispatch
def fit_matrix(X: Any, model: ModelSettings, y: Array | None, context: FitContext) -> FittedModel:
    """Train a model on the device of its matrix; see `gpupipe.models.training.fit`."""
    return fit(model, X, y, context)


@singledispatch
def predict_matrix(X: Any, model: FittedModel, backend: Backend) -> Prediction:
    """Return the predictions of all rows of a matrix, computed in row ranges if memory is short."""
    parts = map_row_ranges(lambda start, stop: model.predict(X[start:stop]), X.shape[0], backend, "predict")
    return join_predictions(parts, backend.xp)


@singledispatch
def gather_rows(X: Any, rows: Array | None, backend: Backend) -> Array:
    """Return the given rows of a matrix (int64, ascending), or all rows for None, on the host."""
    return backend.to_host(X) if rows is None else backend.to_host(X[backend.to_device(np.asarray(rows))])


def gather_rows_in_order(X: Any, rows: Array | None, backend: Backend) -> Array:
    """Return the given rows of a matrix (int64) in their order, or all rows for None, on the host."""
    if rows is None:
        return gather_rows(X, None, backend)
    order = np.argsort(rows)
    ascending = gather_rows(X, rows[order], backend)
    found: Array = np.empty_like(ascending)
    found[order] = ascending
    return found


@singledispatch
def rows_by_worker(X: Any) -> dict[str, int]:
    """Return the number of rows that each worker of a cluster holds, by worker address."""
    return {}
