"""Training on partitioned matrices: by all workers together, or by this process on the gathered matrix."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import numpy as np

from gpupipe.errors import ConfigError, LimitError
from gpupipe.models import FitContext, FittedModel, ModelSettings, fit
from gpupipe.models.matrix import fit_matrix
from gpupipe.models.target_scale import TargetScale, fit_on_scale
from gpupipe.models.target_training import fit_quantiles, fit_targets, learns_one_quantile
from gpupipe.models.xgboost.settings import XGBoost
from gpupipe.partitions.linear import can_fit_in_passes, fit_in_passes
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.out_of_core.workers import OutOfCoreWorkers
from gpupipe.partitions.training_memory import SHARE, gathered_bytes
from gpupipe.partitions.workers import Workers
from gpupipe.typing import Array
from gpupipe.units import GIB


def require_partitions(model: ModelSettings) -> None:
    """Raise ConfigError if a model that learns several targets together does not learn them from partitions."""
    if isinstance(model, XGBoost) and model.learns_jointly:
        raise ConfigError(
            "multi_strategy: multi_output_tree needs the training rows in the memory of one process; they are in "
            "partitions",
            where="models: xgboost.multi_strategy",
            fix="use one_output_per_tree, or raise limits.memory",
        )


@singledispatch
def fit_on_workers(
    workers: Workers, model: ModelSettings, X: PartitionedMatrix, y: Array | None, context: FitContext
) -> FittedModel | None:
    """Train a model on all workers together; return None if they cannot, so that one process trains it.

    `gpupipe.dask.training` registers the workers of a cluster.
    """
    return None


@fit_on_workers.register(OutOfCoreWorkers)
def _(
    workers: OutOfCoreWorkers, model: ModelSettings, X: PartitionedMatrix, y: Array | None, context: FitContext
) -> FittedModel | None:
    if not isinstance(model, XGBoost):
        return None
    from gpupipe.partitions.out_of_core.boosting import fit_out_of_core  # imports XGBoost

    return fit_out_of_core(model, X, y, context, workers)


@fit_matrix.register(PartitionedMatrix)
def _(X: PartitionedMatrix, model: ModelSettings, y: Array | None, context: FitContext) -> FittedModel:
    """Train `model` on a matrix in partitions.

    `y` has class codes or numbers of all rows, on the host, shape (n,) or (n, n_targets). The backend of `context` is
    that of the driver. Raise DeviceError if the workers have GPUs, these cannot train the model, and fallback is
    forbidden; LimitError if the model learns from one matrix, which does not fit into this process; GpupipeError as
    `gpupipe.models.fit`.
    """
    if y is not None and (scale := TargetScale.of(model, y, context)) is not None:
        return fit_on_scale(scale, y, context, lambda y, own: fit_matrix(X, model, y, own))
    if learns_one_quantile(model, context):
        return fit_quantiles(model, context, lambda one, own: fit_matrix(X, one, y, own))
    if context.targets and not model.learns_jointly:
        assert y is not None
        return fit_targets(model, y, context, lambda one, y, own: fit_matrix(X, one, y, own))
    if context.targets:
        require_partitions(model)
    X, y = X.drop_empty(), y if y is None else np.asarray(y)
    # The rows of a group are in several partitions.
    fitted = None if context.task == "ranking" else fit_on_workers(X.workers, model, X, y, context)
    if fitted is not None:
        return fitted
    needed, free = gathered_bytes(*X.shape), context.backend.memory().available
    if needed <= SHARE * free:
        if (held := context.validation) is not None:
            context = replace(context, validation=replace(held, X=held.X.gather()))
        return fit(model, X.gather(), y, context)
    if X.workers.device == "cpu" and y is not None and can_fit_in_passes(model, X.n_columns, context):
        return fit_in_passes(model, X, y, context)
    raise LimitError(
        f"{type(model).__name__} learns from one matrix: {X.shape[0]:,} rows and {X.shape[1]} columns take about "
        f"{needed / GIB:.2f} GiB with its copies, and the driver has {free / GIB:.2f} GiB free",
        where="models",
        fix="fewer rows (where), or a driver with more memory"
        if context.task == "ranking"
        else "use xgboost or a linear model, which learn from partitions; with several workers mlp, tabm or "
        "ft_transformer; fewer rows (where); or a driver with more memory",
    )
