"""Models that all workers train together: XGBoost, networks and, on GPUs, the estimators of cuml.dask."""

from __future__ import annotations

from gpupipe.dask.workers import DaskWorkers
from gpupipe.models import MODELS, FitContext, FittedModel, ModelSettings
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.training import require_torch
from gpupipe.models.xgboost.settings import XGBoost
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.training import fit_on_workers
from gpupipe.partitions.workers import Workers
from gpupipe.typing import Array


@fit_on_workers.register(DaskWorkers)
def fit_on_cluster(
    workers: Workers, model: ModelSettings, X: PartitionedMatrix, y: Array | None, context: FitContext
) -> FittedModel | None:
    """Train a model on the workers of a cluster; return None, after a fallback on GPUs, if they cannot."""
    # Imports inside: XGBoost, PyTorch and cuML are loaded for their own models only.
    if isinstance(model, XGBoost):
        from gpupipe.dask.boosting import fit_xgboost

        return fit_xgboost(model, X, y, context)
    if isinstance(model, NeuralSettings) and (workers.n_workers > 1 or workers.device == "gpu"):
        require_torch(model)
        from gpupipe.dask.networks import fit_network

        return fit_network(model, X, y, context)
    if workers.device != "gpu":
        return None
    from gpupipe.dask.cuml import fit_cuml, refusal

    refused = refusal(model, X, y, context)
    if refused is None:
        return fit_cuml(model, X, y, context)
    name = MODELS.name_of(type(model))
    workers.fall_back(refused.what, f"models: {name}", refused.fix)
    return None
