"""XGBoost training on all workers with ``xgboost.dask``, on the partitions in place."""

from __future__ import annotations

from collections.abc import Callable
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
from gpupipe.models.early_stopping import NONE_HELD_OUT, describe_rounds, draw_validation_rows, gapless_codes
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

    def fit(model: XGBoost, rows: _Rows, held_out: _Rows | None = None) -> Any:
        def attempt(begun: int) -> Any:
            with blame_lost_workers(workers, where):
                return _train(model, rows, held_out, context, workers)

        try:
            return retry_collective(workers, attempt, where)
        except ValueError as error:
            what = f"XGBoost training failed: {error}"
            raise ConfigError(what, where=where, fix="change its parameters") from error

    estimator, notes = _fit_rounds(model, all_rows, classes, context, fit)
    fitted = FittedXGBoost.of(estimator, context.task, tuple(context.feature_names), context.n_classes, classes)
    return with_notes(fitted, *notes)


@dataclass(frozen=True)
class _Rows:
    """Rows of a matrix: those where the mask is true, or all."""

    X: PartitionedMatrix
    y: Array
    weights: Array | None
    mask: Array | None = None

    def __len__(self) -> int:
        return len(self.y) if self.mask is None else int(self.mask.sum())

    def arrays(self) -> tuple[Any, Any, Any]:
        """Return matrix, target and weights as Dask arrays, without moving the matrix."""
        return _arrays(self.X, self.y, self.weights, self.mask)


def _fit_rounds(
    model: XGBoost, rows: _Rows, classes: tuple[int, ...], context: FitContext, fit: Callable[..., Any]
) -> tuple[Any, tuple[str, ...]]:
    """Return the estimator, with early stopping that of the best number of rounds, and notes about it.

    `fit` takes a model, the rows to train on and, for early stopping, the rows held out.
    """
    if not model.stops_early(len(rows)):
        return fit(model, rows), ()
    if (given := context.validation) is not None:
        y, known = gapless_codes(given, classes, context)
        held_out = _Rows(given.X.drop_empty(), y, given.weights, known)
        if len(held_out):
            estimator = fit(model, rows, held_out)
            return estimator, (describe_rounds(model.best_round(estimator), len(held_out), None),)
        return fit(model.with_rounds(None), rows), (NONE_HELD_OUT,)
    held = draw_validation_rows(rows.y, model.validation_fraction, context)
    if not held.any():
        return fit(model.with_rounds(None), rows), (NONE_HELD_OUT,)
    found = model.best_round(fit(model, replace(rows, mask=~held), replace(rows, mask=held)))
    note = describe_rounds(found, int(held.sum()), len(rows))
    return fit(model.with_rounds(found.best), rows), (note,)


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


def _arrays(X: PartitionedMatrix, y: Array, weights: Array | None, mask: Array | None) -> tuple[Any, Any, Any]:
    """Return matrix, target and weights of some rows as Dask arrays, without moving the matrix."""
    partitions, heights = X.partitions, X.heights
    if mask is not None:
        own = [np.flatnonzero(at) for at in X.split_rows(mask)]
        chosen = X.map(lambda backend, rows, at: backend.take_rows(rows, at), each=[own], label="validation rows")
        partitions, heights = chosen.partitions, tuple(map(len, own))
        y, weights = y[mask], None if weights is None else weights[mask]
    chunks = (tuple(height for height in heights if height),)
    return (
        to_dask_array(partitions, heights, (X.n_columns,), np.empty((0, 0), "float32")),
        dask.array.from_array(y, chunks=chunks),
        None if weights is None else dask.array.from_array(weights.astype("float32"), chunks=chunks),
    )
