"""XGBoost, trained by all workers together: its own estimators for Dask, on the partitions where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.dask.gang import TRAININGS
from gpupipe.dask.progress import ThrottledReports, show_worker_reports
from gpupipe.dask.workers import DaskHandle, DaskWorkers
from gpupipe.errors import ClusterError, ConfigError
from gpupipe.models import FitContext, FittedModel
from gpupipe.models.boosting import XGBoost
from gpupipe.models.fitted.xgboost import FittedXGBoost
from gpupipe.models.training import fit, keyword_arguments, prepare_rows
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.typing import Array


def fit_xgboost(model: XGBoost, X: PartitionedMatrix, y: Array | None, context: FitContext) -> FittedModel:
    """Train XGBoost on a matrix in partitions; a training that loses a worker begins again with those that are left.

    Its histograms are sketched on each worker and merged, so trees may differ in their last splits from those of one
    machine, and with the number of workers.

    Raises
    ------
    ClusterError
        If workers were lost again and again.
    ConfigError
        If XGBoost refuses the parameters, or is not installed.
    """
    workers = X.workers
    if not isinstance(workers, DaskWorkers):  # those of this very process
        return fit(model, X.gather(), y, context)
    rows = prepare_rows(model, X, y, context)
    assert rows.y is not None
    params = keyword_arguments(model, X, context, 1) | {"device": "cuda" if workers.device == "gpu" else "cpu"}
    del params["n_jobs"]  # a worker gives XGBoost its own threads
    for left in reversed(range(TRAININGS)):
        workers.poll()  # one that has joined, and is lost, is noticed only if it was seen
        n_lost = workers.n_lost
        try:
            estimator = _train(model, params, X, rows.y, rows.weights, context, workers)
            break
        except Exception as error:
            workers.poll()
            if workers.n_lost > n_lost and left:
                continue
            raise _told(error, workers.n_lost > n_lost) from error
    return FittedXGBoost.of(estimator, context.task, tuple(context.feature_names), context.n_classes, rows.classes)


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
    held = None
    if model.early_stopping_rounds is not None:
        held = np.random.default_rng(context.seed).random(X.shape[0]) < model.validation_fraction
    fitted = _arrays(X, y, weights, None if held is None else ~held)
    given: dict[str, Any] = {"sample_weight": fitted[2]}
    if held is not None:
        asked = _arrays(X, y, weights, held)
        given |= {
            "eval_set": [asked[:2]],
            "sample_weight_eval_set": None if weights is None else [asked[2]],
            "verbose": False,
        }
    # Workers print as this process does: here it is only what is wrong.
    with (
        show_worker_reports(workers.client, context.resources.show_progress) as reports,
        workers.client.as_current(),
        xgboost.config_context(verbosity=0),
    ):
        send = ThrottledReports(reports).send
        estimator.callbacks = [BoostingRounds(model.n_estimators, held is not None, send=send)]
        return estimator.fit(fitted[0], fitted[1], **given)


def _arrays(X: PartitionedMatrix, y: Array, weights: Array | None, mask: Array | None) -> tuple[Any, Any, Any]:
    """Return matrix, target and weights of some rows as arrays of Dask, each partition where it lies."""
    parts, heights = list(X.partitions), list(X.heights)
    chosen: Array | slice = slice(None)
    if mask is not None:
        own = X.split_rows(mask)
        parts, heights = X.map(_chosen, each=[own], label="rows of a validation"), [int(m.sum()) for m in own]
        chosen = mask
    matrix = _joined(parts, heights, X.n_columns, "float32")
    weight = None if weights is None else _cut(weights[chosen].astype("float32"), heights)
    return matrix, _cut(y[chosen], heights), weight


def _joined(parts: list[Any], heights: list[int], n_columns: int, dtype: str) -> Any:
    import dask.array as da

    arrays = [
        da.from_delayed(part.future, (height, n_columns), dtype)
        for part, height in zip(parts, heights, strict=True)
        if isinstance(part, DaskHandle) and height
    ]
    return da.concatenate(arrays)


def _cut(values: Array, heights: list[int]) -> Any:
    import dask.array as da

    return da.from_array(values, chunks=(tuple(height for height in heights if height),))


def _chosen(backend: Backend, rows: Array, mask: Array) -> Array:
    chosen: Array = rows[backend.to_device(mask)]
    return chosen


def _told(error: Exception, lost: bool) -> Exception:
    if lost:
        return ClusterError(
            f"workers were lost in every training of XGBoost: {str(error).splitlines()[0]}",
            where="models: xgboost",
            fix="see what ends them: memory (cluster.memory_limit), or the machine",
        )
    if isinstance(error, ValueError):
        what = f"XGBoost could not be trained: {error}"
        return ConfigError(what, where="models: xgboost", fix="change its parameters")
    return error
