"""Training on rows that lie on workers.

XGBoost is trained by all workers together, on the rows that each has; networks too (`gpupipe.cluster.networks`), and
on GPUs what cuml.dask has (`gpupipe.cluster.cuml_dask`). What learns from one matrix only is trained by the process
that leads, if the matrix fits there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.cluster.matrices import PartitionedMatrix
from gpupipe.cluster.on_disk import OnDisk
from gpupipe.errors import LimitError
from gpupipe.models import MODELS, FitContext, FittedModel, Model, fit
from gpupipe.models.boosting import XGBoost
from gpupipe.models.fitting import require_torch
from gpupipe.models.neural.settings import Neural

Array = Any

GIB = 1 << 30
WITH_COPIES = 3.0  # scikit-learn's solvers hold the matrix in float64 beside the float32 one
SHARE = 0.8  # of the memory that is free
# Of XGBoost that is shown one partition at a time, measured with XGBoost 3.2, 2 threads.
BINS_CELL = 6.2  # bins, by rows and by columns
BINS_ROW = 64  # gradients, scores, labels, the node that a row is in; all there is where bins are in files


def fit_partitions(model: Model, X: PartitionedMatrix, y: Array | None, context: FitContext) -> FittedModel:
    """Train `model` on a matrix in partitions.

    Parameters
    ----------
    model : Model
    X : PartitionedMatrix
    y : array, shape (n,), or None
        Class codes, or numbers, of all rows, on the host.
    context : FitContext
        Its backend is that of the process that leads.

    Raises
    ------
    DeviceError
        If the workers have GPUs, these cannot train the model, and fallback is forbidden.
    LimitError
        If the model learns from one matrix, which does not fit into this process.
    GpupipeError
        As `gpupipe.models.fit`.
    """
    X, y = X.filled(), y if y is None else np.asarray(y)
    if isinstance(model, XGBoost) and isinstance(X.workers, OnDisk):
        from gpupipe.cluster.boosting_on_disk import fit_on_disk

        return fit_on_disk(model, X, y, context, X.workers)
    if isinstance(model, XGBoost):
        from gpupipe.cluster.boosting import fit_xgboost

        return fit_xgboost(model, X, y, context)
    if isinstance(model, Neural) and (X.workers.n_workers > 1 or X.workers.device == "gpu"):
        require_torch(model)
        from gpupipe.cluster.networks import fit_network

        return fit_network(model, X, y, context)
    if X.workers.device == "gpu":
        from gpupipe.cluster.cuml_dask import fit_cuml, refusal

        refused = refusal(model, X, y, context)
        if refused is None:
            return fit_cuml(model, X, y, context)
        name = next(name for name, other in MODELS.items() if other is type(model))
        X.workers.fall_back(refused.what, f"models: {name}", refused.fix)
    if _has_room(X, context.backend):
        return fit(model, X.gather(), y, context)
    if X.workers.device == "cpu" and y is not None:
        from gpupipe.cluster.linear import fit_in_passes, is_learned_in_passes

        if is_learned_in_passes(model, X.n_columns, context):
            return fit_in_passes(model, X, y, context)
    raise _no_room(model, X, context.backend)


def sliced(X: PartitionedMatrix, values: Array) -> Sequence[Array]:
    """Return an array with an element for each row of `X`, cut as its partitions are."""
    return [values[start:stop] for start, stop in pairwise(X.bounds)]


def gathered_bytes(n_rows: int, n_columns: int) -> int:
    """Return what a matrix takes in the process that leads, with the copies that training makes of it."""
    return int(4 * n_rows * n_columns * WITH_COPIES)


def binned_bytes(n_rows: int, n_columns: int, available: int) -> tuple[int, bool]:
    """Return what XGBoost takes that is shown one partition at a time, and whether it keeps its bins in files.

    Parameters
    ----------
    n_rows, n_columns : int
    available : int
        Bytes of memory that are free.
    """
    rows, bins = BINS_ROW * n_rows, int(BINS_CELL * n_rows * n_columns)
    in_files = rows + bins > SHARE * available
    return (rows if in_files else rows + bins), in_files


def _has_room(X: PartitionedMatrix, backend: Backend) -> bool:
    return gathered_bytes(*X.shape) <= SHARE * backend.memory().available


def _no_room(model: Model, X: PartitionedMatrix, backend: Backend) -> LimitError:
    needed, free = gathered_bytes(*X.shape), backend.memory().available
    return LimitError(
        f"{type(model).__name__} learns from one matrix: {X.shape[0]:,} rows and {X.shape[1]} columns take about "
        f"{needed / GIB:.2f} GiB with its copies, and the process that leads has {free / GIB:.2f} GiB free",
        where="models",
        fix="use xgboost, logistic_regression or ridge, which learn from partitions; with several workers mlp, resnet "
        "or ft_transformer; fewer rows (where); or a leading process with more memory",
    )
