"""XGBoost training on all workers with ``xgboost.dask``, on the partitions in place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import dask.array
import numpy as np

from gpupipe.dask.arrays import to_dask_array
from gpupipe.dask.gang import blame_lost_workers, retry_collective
from gpupipe.dask.progress import ThrottledReports, show_worker_reports
from gpupipe.dask.workers import DaskWorkers
from gpupipe.errors import ConfigError
from gpupipe.models import FitContext, FittedModel
from gpupipe.models.early_stopping import HeldOut, fit_rounds
from gpupipe.models.training import keyword_arguments, prepare_rows, with_notes
from gpupipe.models.xgboost.fitted import FittedXGBoost
from gpupipe.models.xgboost.settings import XGBoost
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.typing import Array


def fit_xgboost(model: XGBoost, X: PartitionedMatrix, y: Array | None, context: FitContext) -> FittedModel:
    """Train XGBoost on a matrix in partitions; training restarts on the remaining workers if one is lost.

    Its histograms are sketched on each worker and merged, so trees may differ in their last splits from those of one
    machine, and with the number of workers. Raise ClusterError if workers were lost in every attempt, and ConfigError
    if XGBoost refuses the parameters or is not installed.
    """
    workers, where = X.workers, "models: xgboost"
    assert isinstance(workers, DaskWorkers)
    _, target, weights, classes = prepare_rows(model, X, y, context)
    assert target is not None
    all_rows = _Rows(X, target, weights)

    def fit(model: XGBoost, held: HeldOut | None) -> Any:
        training, held_out = all_rows, None
        if held is not None and held.given is not None:
            held_out = _Rows(held.given.X.drop_empty(), held.given.y, held.given.weights, held.known)
        elif held is not None and held.drawn is not None:
            training, held_out = replace(all_rows, mask=~held.drawn), replace(all_rows, mask=held.drawn)

        def attempt(begun: int) -> Any:
            with blame_lost_workers(workers, where):
                return _train(model, training, held_out, context, workers)

        try:
            return retry_collective(workers, attempt, where)
        except ValueError as error:
            what = f"XGBoost training failed: {error}"
            raise ConfigError(what, where=where, fix="change its parameters") from error

    estimator, notes = fit_rounds(model, target, classes, context, len(target), fit, model.best_round)
    fitted = FittedXGBoost.of(estimator, context.task, tuple(context.feature_names), context.n_classes, classes)
    return with_notes(fitted, *notes)


@dataclass(frozen=True)
class _Rows:
    """Rows of a matrix: those where the mask is true, or all."""

    X: PartitionedMatrix
    y: Array
    weights: Array | None
    mask: Array | None = None

    def arrays(self) -> tuple[Any, Any, Any]:
        """Return matrix, target and weights as Dask arrays, without moving the matrix."""
        X = self.X
        y = self.y
        weights = self.weights
        partitions, heights = X.partitions, X.heights
        if self.mask is not None:
            own = [np.flatnonzero(at) for at in X.split_rows(self.mask)]
            chosen = X.map(lambda backend, rows, at: backend.take_rows(rows, at), each=[own], label="validation rows")
            partitions, heights = chosen.partitions, tuple(map(len, own))
            y, weights = y[self.mask], None if weights is None else weights[self.mask]
        chunks = (tuple(height for height in heights if height),)
        return (
            to_dask_array(partitions, heights, (X.n_columns,), np.empty((0, 0), "float32")),
            dask.array.from_array(y, chunks=chunks),
            None if weights is None else dask.array.from_array(weights.astype("float32"), chunks=chunks),
        )


def _train(model: XGBoost, rows: _Rows, held_out: _Rows | None, context: FitContext, workers: DaskWorkers) -> Any:
    import xgboost
    import xgboost.dask

    from gpupipe.models.xgboost.rounds import BoostingRounds

    params = keyword_arguments(model, rows.X, context, 1)
    params["device"] = "cuda" if workers.device == "gpu" else "cpu"
    del params["n_jobs"]  # XGBoost uses the threads of its worker
    estimator = getattr(xgboost.dask, f"Dask{model.estimator_name(context.task)}")(**params)
    estimator.client = workers.client
    X, y, weights = rows.arrays()
    given: dict[str, Any] = {"sample_weight": weights}
    if held_out is not None:
        *evaluated, evaluated_weights = held_out.arrays()
        given |= {
            "eval_set": [tuple(evaluated)],
            "sample_weight_eval_set": None if evaluated_weights is None else [evaluated_weights],
            "verbose": False,
        }
    # Workers print at the verbosity of this process: warnings only.
    with (
        show_worker_reports(workers.client, context.resources.show_progress) as reports,
        workers.client.as_current(),
        xgboost.config_context(verbosity=0),
    ):
        send = ThrottledReports(reports).send
        estimator.callbacks = [BoostingRounds(model.n_estimators, held_out is not None, send=send)]
        return estimator.fit(X, y, **given)
