"""Training on a device: refusals, array placement and fitted model classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpupipe.backends.probe import lacks_nothing
from gpupipe.models.base import ModelSettings
from gpupipe.models.best import Best
from gpupipe.models.device.fitted import (
    MISSING_FIX,
    DeviceForest,
    DeviceModel,
    DeviceNeighbors,
    DeviceXGBoost,
    missing_columns,
    missing_text,
)
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.tasks import CLASSIFICATION, Task

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.backends.gpu.translation import EstimatorRefusal, GpuEstimator
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array


def library_refusal(model: ModelSettings, task: Task, lacks: Callable[[str], bool]) -> EstimatorRefusal | None:
    """Return the reason that a device cannot train `model` if it is a missing library, or None."""
    from gpupipe.backends.gpu import estimators

    row = None if isinstance(model, (NeuralSettings, Best)) else estimators.ESTIMATORS.get(model.estimator_name(task))
    return None if row is None else estimators.missing_library(row, lacks)


def early_refusal(
    model: ModelSettings, task: Task, lacks: Callable[[str], bool] = lacks_nothing
) -> EstimatorRefusal | None:
    """Return the reason that a device cannot train `model` with its parameters, known without data, or None."""
    from gpupipe.backends.gpu import estimators

    if isinstance(model, (NeuralSettings, Best)):
        return None  # decided by PyTorch when it trains, or for each member
    return estimators.refusal(model.estimator_name(task), model.estimator_params(task), lacks)


def refusal(model: ModelSettings, X: Array, params: Mapping[str, Any], context: FitContext) -> EstimatorRefusal | None:
    """Return the reason that the device of the context cannot train `model` on `X` with `params`, or None."""
    from gpupipe.backends.gpu import estimators
    from gpupipe.backends.gpu.translation import EstimatorRefusal

    name = model.estimator_name(context.task)
    refused = estimators.refusal(name, params, context.backend.lacks)
    if refused is not None:
        return refused
    if model.accepts_missing and not estimators.ESTIMATORS[name].takes_missing:
        names = tuple(context.feature_names) or tuple(f"f{j}" for j in range(X.shape[1]))
        missing = missing_columns(X, names, context.backend.xp)
        if missing:
            return EstimatorRefusal(missing_text(missing), MISSING_FIX)
    return None


def row_of(name: str) -> GpuEstimator:
    """Return the device counterpart of scikit-learn's class `name`."""
    from gpupipe.backends.gpu.estimators import ESTIMATORS

    return ESTIMATORS[name]


def place(
    row: GpuEstimator, dtype: str, X: Array, y: Array | None, weights: Array | None, task: Task, backend: Backend
) -> tuple[Array, Array | None, Array | None]:
    """Return the matrix, the target and the weights on the device, in `dtype`; class codes are int32.

    The target and the weights are copied from the host. `X` is converted only if it has another dtype and the estimator
    does not process it in blocks.
    """
    if not row.by_blocks:
        X = X.astype(dtype, order="F", copy=False)
    if y is not None:
        y = backend.to_device(y.astype("int32" if task in CLASSIFICATION else dtype))
    return X, y, None if weights is None else backend.to_device(weights.astype(dtype))


def fit_bins(estimator: Any, n_rows: int) -> None:
    """Limit the bins of a forest to the number of rows, as cuML does with a warning."""
    if getattr(estimator, "n_bins", 0) > n_rows:
        estimator.n_bins = n_rows


def fit_penalty(estimator: Any, weights: Array | None) -> None:
    """Scale C of a weighted logistic regression so that its penalty equals that of scikit-learn.

    scikit-learn divides loss and penalty by the sum of the weights; cuML divides the penalty by the number of rows.
    """
    if weights is not None and hasattr(estimator, "penalty_normalized"):
        estimator.C = estimator.C * float(weights.mean())


def device_model(name: str) -> type[DeviceModel]:
    """Return the fitted model class for a device estimator that stands for scikit-learn's class `name`."""
    if name.startswith("XGB"):
        return DeviceXGBoost
    if name.startswith("KNeighbors"):
        return DeviceNeighbors
    return DeviceForest if name.startswith("RandomForest") else DeviceModel
