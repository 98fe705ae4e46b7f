"""XGBoost training on all workers with ``xgboost.dask``, on the partitions in place."""

from __future__ import annotations

from typing import Any

import dask.array
import numpy as np

from gpupipe.dask.arrays import to_dask_array
from gpupipe.dask.gang import blame_lost_workers, retry_collective
from gpupipe.dask.progress import ThrottledReports, show_worker_reports
from gpupipe.dask.workers import DaskWorkers
from gpupipe.errors import ConfigError
from gpupipe.models import FitContext, FittedModel
from gpupipe.models.boosting import XGBoost
from gpupipe.models.fitted.xgboost import FittedXGBoost
from gpupipe.models.training import keyword_arguments, prepare_rows
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.typing import Array


def fit_xgboost(model: XGBoost, X: PartitionedMatrix, y: Array | None, context: FitContext) -> FittedModel:
    """Train XGBoost on a matrix in partitions; training restarts on the remaining workers if one is lost.

    Its histograms are sketched on each worker and merged, so trees may differ in their last splits from those of one
    machine, and with the number of workers.

    Raises
    ------
    ClusterError
        If workers were lost in every attempt.
    ConfigError
        If XGBoost refuses the parameters, or is not installed.
    """
    workers, where = X.workers, "models: xgboost"
    assert isinstance(workers, DaskWorkers)
    _, target, weights, classes = prepare_rows(model, X, y, context)
    assert target is not None
    params = keyword_arguments(model, X, context, 1) | {"device": "cuda" if workers.device == "gpu" else "cpu"}
    del params["n_jobs"]  # XGBoost uses the threads of its worker

    def attempt(begun: int) -> Any:
        with blame_lost_workers(workers, where):
            return _train(model, params, X, target, weights, context, workers)

    try:
        estimator = retry_collective(workers, attempt, where)
    except ValueError as error:
        what = f"XGBoost training failed: {error}"
        raise ConfigError(what, where=where, fix="change its parameters") from error
    return FittedXGBoost.of(estimator, context.task, tuple(context.feature_names), context.n_classes, classes)


def _train(
    model: XGBoost,
    params: dict[str, Any],
    X: PartitionedMatrix,
    y: Array,
    weights: Array | None,
    context: FitContext,
    workers: DaskWorkers,
) -> Any:
    import xgboost
    import xgboost.dask

    from gpupipe.models.xgboost_rounds import BoostingRounds

    estimator = getattr(xgboost.dask, f"Dask{model.estimator_name(context.task)}")(**params)
    estimator.client = workers.client
    held = model.draw_validation_rows(X.n_rows, context.seed)
    fitted = _arrays(X, y, weights, None if held is None else ~held)
    given: dict[str, Any] = {"sample_weight": fitted[2]}
    if held is not None:
        asked = _arrays(X, y, weights, held)
        given |= {
            "eval_set": [asked[:2]],
            "sample_weight_eval_set": None if weights is None else [asked[2]],
            "verbose": False,
        }
    # Workers print at the verbosity of this process: warnings only.
    with (
        show_worker_reports(workers.client, context.resources.show_progress) as reports,
        workers.client.as_current(),
        xgboost.config_context(verbosity=0),
    ):
        send = ThrottledReports(reports).send
        estimator.callbacks = [BoostingRounds(model.n_estimators, held is not None, send=send)]
        return estimator.fit(fitted[0], fitted[1], **given)


def _arrays(X: PartitionedMatrix, y: Array, weights: Array | None, mask: Array | None) -> tuple[Any, Any, Any]:
    """Return matrix, target and weights of some rows as Dask arrays, without moving the matrix."""
    partitions, heights = X.partitions, X.heights
    if mask is not None:
        own = X.split_rows(mask)
        chosen = X.map(lambda backend, rows, at: rows[backend.to_device(at)], each=[own], label="validation rows")
        partitions, heights = chosen.partitions, tuple(int(at.sum()) for at in own)
        y, weights = y[mask], None if weights is None else weights[mask]
    chunks = (tuple(height for height in heights if height),)
    return (
        to_dask_array(partitions, heights, (X.n_columns,), np.empty((0, 0), "float32")),
        dask.array.from_array(y, chunks=chunks),
        None if weights is None else dask.array.from_array(weights.astype("float32"), chunks=chunks),
    )
