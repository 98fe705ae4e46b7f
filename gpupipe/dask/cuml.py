"""Training with cuml.dask: the GPUs of a cluster train one model on the partitions in place.

The driver needs a GPU and cuML too: some estimators count classes there, and all collect the trained model there. The
model is then converted to a portable one, which needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any

from packaging.version import Version

from gpupipe.backends import device_report
from gpupipe.backends.gpu.portable import to_scikit_learn
from gpupipe.backends.gpu.translation import EstimatorRefusal
from gpupipe.backends.probe import INSTALL_RAPIDS, lacks_package
from gpupipe.dask import cuml_estimators
from gpupipe.dask.arrays import to_dask_array
from gpupipe.dask.cuml_estimators import ESTIMATORS, OLDEST_FOREST
from gpupipe.dask.library_calls import call_library
from gpupipe.dask.workers import DaskWorkers
from gpupipe.errors import ConfigError
from gpupipe.models import FitContext, FittedModel, ModelSettings
from gpupipe.models.device.fitted import MISSING_FIX, missing_columns, missing_text
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from gpupipe.models.training import KINDS, keyword_arguments, prepare_rows
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.typing import Array
from gpupipe_kernels.numpy_compat import restore_row_stack


def refusal(
    model: ModelSettings, X: PartitionedMatrix, y: Array | None, context: FitContext
) -> EstimatorRefusal | None:
    """Return the reason that the GPUs of the workers cannot train a model, or None if they can.

    Raise the errors of `gpupipe.models.training.prepare_rows`.
    """
    name, rows = model.estimator_name(context.task), prepare_rows(model, X, y, context)
    params = keyword_arguments(model, X, context, 1)
    refused = cuml_estimators.refusal(name, params, X.shape, rows.weights is not None)
    if refused is None and (obstacle := device_report().gpu_obstacle):
        what = f"cuml.dask needs a GPU on the driver, which cannot use one: {obstacle}"
        return EstimatorRefusal(what, "run gpupipe on a machine with a GPU, or use the model xgboost")
    if refused is None and lacks_package("cuml"):
        what = "cuml.dask is not installed on the driver"
        return EstimatorRefusal(what, f"{INSTALL_RAPIDS}, or use the model xgboost")
    if refused is None and name.startswith("RandomForest"):
        refused = _old_forest()
    if refused is None and model.accepts_missing:
        refused = _missing(X, tuple(context.feature_names))
    return refused


def fit_cuml(model: ModelSettings, X: PartitionedMatrix, y: Array | None, context: FitContext) -> FittedModel:
    """Train a model that `refusal` accepts; see `gpupipe.dask.training.fit_on_cluster`.

    The fitted model is portable: it predicts on the host. Raise ClusterError if workers were lost in every attempt, and
    ConfigError if cuML refuses the parameters or is not installed.
    """
    assert isinstance(X.workers, DaskWorkers)
    name, rows = model.estimator_name(context.task), prepare_rows(model, X, y, context)
    params = keyword_arguments(model, X, context, 1)
    row, where = ESTIMATORS[name], f"training {type(model).__name__} by cuml.dask"
    try:
        learned = call_library(X.workers, partial(_train, name, params, X, rows.y), where)
    except ValueError as error:  # those of cuML are
        raise ConfigError(
            f"training with cuml.dask failed: {error}", where=where, fix="change its parameters"
        ) from error
    kind = KINDS.get(name, FittedSklearn)
    fitted = kind.of(learned, context.task, tuple(context.feature_names), context.n_classes, rows.classes)
    return replace(fitted, notes=row.notes_on(params))


def _train(name: str, params: Mapping[str, Any], X: PartitionedMatrix, y: Array | None) -> Any:
    """Return the trained model as a scikit-learn object, as `to_scikit_learn` does."""
    import cupy

    estimator = _created(name, params, X)
    estimator.fit(*_arrays(name, X, y, ESTIMATORS[name].dtype_for(params)))
    # These two wrap the estimator that is trained.
    combined = (estimator.solver if name in ("Lasso", "ElasticNet") else estimator).get_combined_model()
    if name == "PCA":
        combined.n_samples_ = X.shape[0]  # the conversion reads it, and only single-GPU training sets it
    return to_scikit_learn(name, combined, cupy.asnumpy)


def _created(name: str, params: Mapping[str, Any], X: PartitionedMatrix) -> Any:
    assert isinstance(X.workers, DaskWorkers)
    row = ESTIMATORS[name]
    module, _, class_name = row.path.partition(":")
    given = row.translate(params)
    if "n_bins" in given:  # more than rows: cuML would reduce it with a warning
        given["n_bins"] = min(given["n_bins"], X.shape[0])
    return getattr(_imported(module), class_name)(client=X.workers.client, **given)


def _arrays(name: str, X: PartitionedMatrix, y: Array | None, dtype: str) -> tuple[Any, ...]:
    """Return the matrix, and the target if there is one, as Dask arrays of CuPy's, without moving partitions."""
    import cupy  # Dask counts classes with the library of `meta`

    matrix = X.map(lambda _, rows: rows.astype(dtype, order="F", copy=False), label="matrix for cuml.dask")
    arrays = [to_dask_array(matrix.partitions, X.heights, (X.n_columns,), cupy.empty((0, 0), dtype))]
    if y is not None:
        # cuML's linear models, including logistic regression, require a target with the dtype of the matrix.
        y = y.astype("int32" if name == "RandomForestClassifier" else dtype)
        # The rows are an argument so that the target is placed on the same worker.
        target = X.map(
            lambda backend, rows, own: backend.to_device(own), each=[X.split_rows(y)], label="target for cuml.dask"
        )
        arrays.append(to_dask_array(target.partitions, X.heights, (), cupy.empty(0, y.dtype)))
    return tuple(arrays)


def _missing(X: PartitionedMatrix, names: tuple[str, ...]) -> EstimatorRefusal | None:
    names = names or tuple(f"f{j}" for j in range(X.n_columns))
    parts = X.compute(lambda backend, rows: missing_columns(rows, names, backend.xp), label="missing values")
    found = set(chain.from_iterable(parts))
    return EstimatorRefusal(missing_text([name for name in names if name in found]), MISSING_FIX) if found else None


def _old_forest() -> EstimatorRefusal | None:
    found: str = _imported("cuml").__version__
    if Version(found) >= Version(OLDEST_FOREST):
        return None
    what = f"in cuML {found}, each worker grows its trees from its own rows only"
    return EstimatorRefusal(what, f"install cuML {OLDEST_FOREST}, or use the model xgboost")


def _imported(module: str) -> Any:
    restore_row_stack()
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"training on the GPUs of a cluster needs {module}: {error}", fix=INSTALL_RAPIDS) from error
