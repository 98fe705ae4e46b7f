"""Training on partitioned matrices.

XGBoost is trained by all workers together, on the rows that each has; networks too (`gpupipe.dask.networks`), and
on GPUs what cuml.dask has (`gpupipe.dask.cuml`). What learns from one matrix only is trained by the process
that leads, if the matrix fits there.
"""

from __future__ import annotations

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.errors import LimitError
from gpupipe.models import MODELS, FitContext, FittedModel, ModelSettings, fit
from gpupipe.models.boosting import XGBoost
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.training import require_torch
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.out_of_core.workers import OutOfCoreWorkers
from gpupipe.partitions.training_memory import SHARE, gathered_bytes
from gpupipe.typing import Array
from gpupipe.units import GIB


def fit_partitions(model: ModelSettings, X: PartitionedMatrix, y: Array | None, context: FitContext) -> FittedModel:
    """Train `model` on a matrix in partitions.

    Parameters
    ----------
    model : ModelSettings
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
    X, y = X.drop_empty(), y if y is None else np.asarray(y)
    if isinstance(model, XGBoost) and isinstance(X.workers, OutOfCoreWorkers):
        from gpupipe.partitions.out_of_core.boosting import fit_out_of_core

        return fit_out_of_core(model, X, y, context, X.workers)
    if isinstance(model, XGBoost):
        from gpupipe.dask.boosting import fit_xgboost

        return fit_xgboost(model, X, y, context)
    if isinstance(model, NeuralSettings) and (X.workers.n_workers > 1 or X.workers.device == "gpu"):
        require_torch(model)
        from gpupipe.dask.networks import fit_network

        return fit_network(model, X, y, context)
    if X.workers.device == "gpu":
        from gpupipe.dask.cuml import fit_cuml, refusal

        refused = refusal(model, X, y, context)
        if refused is None:
            return fit_cuml(model, X, y, context)
        name = next(name for name, other in MODELS.items() if other is type(model))
        X.workers.fall_back(refused.what, f"models: {name}", refused.fix)
    if _has_room(X, context.backend):
        return fit(model, X.gather(), y, context)
    if X.workers.device == "cpu" and y is not None:
        from gpupipe.partitions.linear import can_fit_in_passes, fit_in_passes

        if can_fit_in_passes(model, X.n_columns, context):
            return fit_in_passes(model, X, y, context)
    raise _no_room(model, X, context.backend)


def _has_room(X: PartitionedMatrix, backend: Backend) -> bool:
    return gathered_bytes(*X.shape) <= SHARE * backend.memory().available


def _no_room(model: ModelSettings, X: PartitionedMatrix, backend: Backend) -> LimitError:
    needed, free = gathered_bytes(*X.shape), backend.memory().available
    return LimitError(
        f"{type(model).__name__} learns from one matrix: {X.shape[0]:,} rows and {X.shape[1]} columns take about "
        f"{needed / GIB:.2f} GiB with its copies, and the process that leads has {free / GIB:.2f} GiB free",
        where="models",
        fix="use xgboost, logistic_regression or ridge, which learn from partitions; with several workers mlp, resnet "
        "or ft_transformer; fewer rows (where); or a leading process with more memory",
    )
