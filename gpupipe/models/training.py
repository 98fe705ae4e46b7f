"""Training of one model on one matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from gpupipe.backends.out_of_memory import is_out_of_memory, too_large
from gpupipe.backends.threads import limit_threads
from gpupipe.errors import ConfigError, DataError
from gpupipe.models.base import MODELS, ModelSettings
from gpupipe.models.catboost.fitted import FittedCatBoost
from gpupipe.models.context import FitContext, ValidationRows
from gpupipe.models.convergence import convergence_noted
from gpupipe.models.device import training as device_training
from gpupipe.models.device.fitted import HostModel, matrix_on_host
from gpupipe.models.early_stopping import HeldOut, fit_rounds
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.plugin import FittedPlugin
from gpupipe.models.lightgbm.fitted import FittedLightGBM
from gpupipe.models.linear.fitted import FittedLinear
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from gpupipe.models.selected_rows import SelectedRows
from gpupipe.models.target_scale import TargetScale, fit_on_scale
from gpupipe.models.target_training import fit_quantiles, fit_targets, learns_one_quantile
from gpupipe.models.weights import row_weights, takes_no_weights
from gpupipe.models.xgboost.fitted import FittedXGBoost
from gpupipe.random_streams import derive_seed
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task
from gpupipe.typing import Matrix

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.backends.gpu.translation import EstimatorRefusal
    from gpupipe.typing import Array, HostArray

# Fitted model class by estimator, FittedSklearn for all others. These predict without scikit-learn.
KINDS: dict[str, type[FittedModel]] = {
    **{name: FittedXGBoost for name in ("XGBClassifier", "XGBRanker", "XGBRegressor")},
    **{name: FittedCatBoost for name in ("CatBoostClassifier", "CatBoostRegressor")},
    **{name: FittedLightGBM for name in ("LGBMClassifier", "LGBMRanker", "LGBMRegressor")},
    **{name: FittedLinear for name in ("LogisticRegression", "LinearRegression", "Ridge", "Lasso", "ElasticNet")},
    "PluginEstimator": FittedPlugin,
}

MatrixT = TypeVar("MatrixT", bound=Matrix)
FitOnce = Callable[[ModelSettings, "TrainingRows[Array]", FitContext, int], tuple[FittedModel, Any]]


def fit(
    model: ModelSettings,
    X: Array,
    y: Array | None,
    context: FitContext,
    sample_weight: Array | None = None,
    n_threads: int | None = None,
) -> FittedModel:
    """Train `model` on the device of the backend and return the fitted model; see `Backend.fall_back` for refusals.

    Raise ConfigError if the model cannot learn the task, or the estimator rejects its parameters; DataError if the rows
    have fewer than two classes; DeviceError if the device cannot train the model and fallback is forbidden.

    - `X` (array of float32, shape (n, d), column-major): on the device of the backend; never written to
    - `y` (array, shape (n,) or (n, n_targets), or None): class codes from 0, or numbers, on the host; None for
      clustering and embedding
    - `sample_weight` (array of float, shape (n,)): multiplied with the class weights; default: the weights of the
      context
    - `n_threads`: number of CPU threads; default: those of the backend
    """
    if y is not None and (scale := TargetScale.of(model, y, context)) is not None:
        return fit_on_scale(scale, y, context, lambda y, own: fit(model, X, y, own, sample_weight, n_threads))
    if learns_one_quantile(model, context):
        return fit_quantiles(model, context, lambda one, own: fit(one, X, y, own, sample_weight, n_threads))
    if context.targets and not model.learns_jointly:
        assert y is not None
        return fit_targets(model, y, context, lambda one, y, own: fit(one, X, y, own, sample_weight, n_threads))
    rows = prepare_rows(model, X, y, context, sample_weight)
    if (start := context.start) is not None:
        start.require_classes(rows.classes)
        model = start.settings(model, len(X))
    threads = n_threads or context.backend.n_threads
    if isinstance(model, NeuralSettings):
        return _fit_network(model, rows, context, threads)

    def fit_on_host(rows: TrainingRows[Array], context: FitContext) -> FittedModel:
        return _fit_rounds(_fit_on_host, model, rows, context, threads)

    targets = tuple(context.targets)
    if targets:  # to the estimator, they are one target with several columns
        context = replace(context, task=targets[0].task)
    refusal = None
    if context.backend.name != "cpu":
        refusal = device_training.refusal(model, X, keyword_arguments(model, X, context, threads), context)
    if refusal is not None:
        fitted = _fall_back(model, rows, context, refusal, fit_on_host)
    elif context.backend.name == "cpu":
        fitted = fit_on_host(rows, context)
    else:
        fitted = _fit_rounds(_fit_on_device, model, rows, context, threads)
    return fitted.of_targets(targets) if targets else fitted


class TrainingRows(NamedTuple, Generic[MatrixT]):
    """Training rows: the matrix, `y` and weights on the host, and the class codes that occur in `y`."""

    X: MatrixT
    y: Array | None
    weights: Array | None
    classes: tuple[int, ...]


def prepare_rows(
    model: ModelSettings, X: MatrixT, y: Array | None, context: FitContext, sample_weight: Array | None = None
) -> TrainingRows[MatrixT]:
    """Return the rows in the form that estimators take: class codes without gaps, class weights as row weights.

    `sample_weight` replaces the weights of the context. Raise ConfigError if the model cannot learn the task or the
    targets, or takes no weights; DataError if the rows have fewer than two classes.
    """
    name, task = type(model).__name__, context.task
    if context.targets:
        assert y is not None
        model.require_targets(context.targets, bool(context.categorical))
        y = _codes_of_targets(y, context)
    else:
        model.require_task(task)
    if sample_weight is None:
        sample_weight = context.weights
    if sample_weight is not None and (task == "ranking" or not model.takes_sample_weight):
        raise takes_no_weights(name)
    classes: tuple[int, ...] = ()
    if task in CLASSIFICATION:
        assert y is not None
        y, classes, sample_weight = _codes_and_weights(model, y, context, sample_weight)
    elif getattr(model, "class_weight", None) is not None:
        raise ConfigError(f"{name}: class_weight is for classification; the task is {task}", fix="remove class_weight")
    model.require_targets_of_loss(y if task in REGRESSION else None)
    return TrainingRows(X, y, sample_weight, classes)


def load_library(model: ModelSettings, task: Task, backend: Backend) -> None:
    """Import the library that trains `model`; raise DeviceError if the device of the backend has no such model."""
    if isinstance(model, NeuralSettings):
        from gpupipe.models.neural import fit as fitting  # noqa: F401
    else:
        model.load_estimator(task, backend)


def require_torch(model: NeuralSettings) -> None:
    """Raise a ConfigError if PyTorch is not installed."""
    if find_spec("torch") is None:
        raise ConfigError(
            f"{type(model).__name__} needs PyTorch, which is not installed",
            where="models",
            fix="pip install 'gpupipe[torch]'",
        )


def _fit_network(model: NeuralSettings, rows: TrainingRows[Array], context: FitContext, threads: int) -> FittedModel:
    require_torch(model)
    from gpupipe.models.neural.fit import fit_network, refusal

    def fit_there(rows: TrainingRows[Array], context: FitContext) -> FittedModel:
        with explain_errors(model, rows.X, context):
            assert rows.y is not None
            return fit_network(model, rows.X, rows.y, rows.weights, rows.classes, context, threads)

    refused = refusal(context.backend)
    return fit_there(rows, context) if refused is None else _fall_back(model, rows, context, refused, fit_there)


def _fit_rounds(
    fit_once: FitOnce, model: ModelSettings, rows: TrainingRows[Array], context: FitContext, threads: int
) -> FittedModel:
    """Return the fitted model; with early stopping, of the best number of rounds, trained on all rows."""

    def train(model: ModelSettings, held: HeldOut | None) -> tuple[FittedModel, Any]:
        if held is None:
            return fit_once(model, rows, replace(context, validation=None), threads)
        is_read_in_parts = context.backend.name == "cpu" and model.reads_selected_rows(context.task)
        training, own, validation = _divided(
            rows, held, context, SelectedRows if is_read_in_parts else context.backend.take_rows
        )
        return fit_once(model, training, replace(own, validation=validation), threads)

    (fitted, _), notes = fit_rounds(
        model, rows.y, rows.classes, context, len(rows.X), train, lambda trained: model.best_round(trained[1])
    )
    return with_notes(fitted, *notes)


def _divided(
    rows: TrainingRows[Array], held: HeldOut, context: FitContext, take: Callable[[Array, HostArray], Any]
) -> tuple[TrainingRows[Array], FitContext, ValidationRows]:
    """Return the rows to train on, their context, and the rows that are held out; `take` selects rows by number."""
    import numpy as np

    if held.drawn is None:
        assert held.given is not None
        if (known := held.known) is None:
            return rows, context, held.given
        X = held.given.X
        y = held.given.y[known]
        weights = held.given.weights
        kept = take(X, np.flatnonzero(known))
        own = replace(held.given, X=kept, y=y, weights=None if weights is None else weights[known])
        return rows, context, own
    assert rows.y is not None
    drawn = held.drawn
    rest = ~held.drawn
    weights = rows.weights
    search = rows._replace(
        X=take(rows.X, np.flatnonzero(rest)), y=rows.y[rest], weights=None if weights is None else weights[rest]
    )
    validation = ValidationRows(
        take(rows.X, np.flatnonzero(drawn)),
        rows.y[drawn],
        None if weights is None else weights[drawn],
        None if context.groups is None else context.groups[drawn],
    )
    return search, context.of_rows(rest), validation


def with_notes(fitted: FittedModel, *notes: str) -> FittedModel:
    """Return a fitted model with further notes."""
    return replace(fitted, notes=(*fitted.notes, *notes)) if notes else fitted


def _fit_on_host(
    model: ModelSettings, rows: TrainingRows[Array], context: FitContext, threads: int
) -> tuple[FittedModel, Any]:
    """Return the fitted model, and the estimator as it was trained."""
    params = keyword_arguments(model, rows.X, context, threads)
    X = model.matrix(rows.X, params)
    if context.validation is not None:
        context = replace(context, validation=replace(context.validation, X=model.matrix(context.validation.X, params)))
    estimator = model.build(context, params)
    with convergence_noted(model, params) as notes:
        estimator = _train(model, estimator, X, rows.y, rows.weights, context, threads)
    kind = KINDS.get(model.estimator_name(context.task), FittedSklearn)
    fitted = kind.of(estimator, context.task, tuple(context.feature_names), context.n_classes, rows.classes)
    return with_notes(fitted, *filter(None, [*notes, model.thread_note(threads, estimator)])), estimator


def _fit_on_device(
    model: ModelSettings, rows: TrainingRows[Array], context: FitContext, threads: int
) -> tuple[FittedModel, Any]:
    """Return the fitted model, and the estimator as it was trained."""
    params, name = keyword_arguments(model, rows.X, context, threads), model.estimator_name(context.task)
    row = device_training.row_of(name)
    estimator = model.build(context, params)
    device_training.fit_bins(estimator, rows.X.shape[0])
    device_training.fit_penalty(estimator, rows.weights)
    dtype = row.dtype_for(params)
    X, y, weights = device_training.place(row, dtype, rows.X, rows.y, rows.weights, context.task, context.backend)
    if (held := context.validation) is not None:
        *placed, of_rows = device_training.place(
            row, dtype, held.X, held.y, held.weights, context.task, context.backend
        )
        context = replace(context, validation=replace(held, X=placed[0], y=placed[1], weights=of_rows))
    estimator = _train(model, estimator, X, y, weights, context, threads)
    fitted = device_training.device_model(name)(
        estimator,
        context.task,
        tuple(context.feature_names),
        context.n_classes,
        rows.classes,
        row.notes_on(params),
        context.backend,
        name,
        KINDS.get(name, FittedSklearn),
    )
    return fitted, estimator


def _fall_back(
    model: ModelSettings,
    rows: TrainingRows[Array],
    context: FitContext,
    refusal: EstimatorRefusal,
    fit_there: Callable[[TrainingRows[Array], FitContext], FittedModel],
) -> FittedModel:
    """Train on the host, with the matrix copied there, and return the model for the device."""
    from gpupipe.backends import choose

    device = context.backend
    name = MODELS.name_of(type(model))
    device.fall_back(refusal.what, f"models: {name}", refusal.fix)
    on_host = rows._replace(X=matrix_on_host(rows.X, device))
    if (held := context.validation) is not None:
        context = replace(context, validation=replace(held, X=matrix_on_host(held.X, device)))
    fitted = fit_there(on_host, replace(context, backend=choose("cpu")))
    return HostModel(fitted, context.task, fitted.feature_names, fitted.n_classes, fitted.classes, (), device, refusal)


def keyword_arguments(model: ModelSettings, X: Matrix, context: FitContext, threads: int) -> dict[str, Any]:
    """Return the keyword arguments of the estimator of a model."""
    params = {**model.estimator_params(context.task), **model.data_params(X, context)}
    if model.takes_seed:
        params["random_state"] = derive_seed(context.seed, "model")
    if model.takes_threads:
        params["n_jobs"] = model.training_threads(threads, math.prod(X.shape))
    return params


def _codes_and_weights(
    model: ModelSettings, y: Array, context: FitContext, sample_weight: Array | None
) -> tuple[Array, tuple[int, ...], Array | None]:
    """Return y as codes without gaps, the classes that occur, and the weight of each row."""
    import numpy as np

    y = np.asarray(y).astype(np.int64, copy=False)
    classes = np.unique(y)
    if len(classes) < 2:
        label = context.class_labels[classes[0]] if len(classes) and context.class_labels else classes.tolist()
        raise DataError(
            f"all {len(y):,} training rows have the same class ({label})",
            fix="check the target and `positive`, or use a stratified split",
        )
    class_weight = getattr(model, "class_weight", None)
    weights = row_weights(y, class_weight, context.class_labels, context.n_classes, sample_weight)
    if len(classes) < context.n_classes:
        y = np.searchsorted(classes, y)
    return y, tuple(int(code) for code in classes), weights


def _codes_of_targets(y: Array, context: FitContext) -> Array:
    """Return several targets: as int64 if all have classes, of which each must have two in these rows."""
    import numpy as np

    has_classes = [target.task in CLASSIFICATION for target in context.targets]
    for target, column, is_class in zip(context.targets, y.T, has_classes, strict=True):
        if is_class and len(found := np.unique(column)) < 2:
            label = target.labels[int(found[0])] if len(found) and target.labels else found.tolist()
            raise DataError(
                f"target {target.name!r}: all {len(column):,} training rows have the same class ({label})",
                fix="check the target and `positive`, or use a stratified split",
            )
    return y.astype(np.int64) if all(has_classes) else y


def _train(
    model: ModelSettings,
    estimator: Any,
    X: Array,
    y: Array | None,
    weights: Array | None,
    context: FitContext,
    threads: int,
) -> Any:
    openmp = model.training_threads(threads, math.prod(X.shape))
    with explain_errors(model, X, context), limit_threads(threads if model.uses_blas_threads else 1, openmp):
        return model.train(estimator, X, y, weights, context)


@contextmanager
def explain_errors(model: ModelSettings, X: Matrix, context: FitContext) -> Iterator[None]:
    """Raise library errors of a training as gpupipe errors with a fix."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):  # also raised as RuntimeError by cuML's libraries
            what = f"training {type(model).__name__} next to its matrix"
            raise too_large(what, X.nbytes, context.backend, error) from error
        if not isinstance(error, ValueError):  # scikit-learn, XGBoost and cuML raise ValueError for bad parameters
            raise
        raise ConfigError(
            f"cannot train {type(model).__name__} on {X.shape[0]:,} rows and {X.shape[1]} columns: {error}",
            where="models",
            fix="change its parameters or the features",
        ) from error
