"""Loading of trained models from untrusted files."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.untrusted.failures import VERIFY, refuse_failures
from gpupipe.artifact.untrusted.shapes import check_shape
from gpupipe.errors import ArtifactError
from gpupipe.models.catboost.fitted import FittedCatBoost
from gpupipe.models.composites.ensemble import EnsembleMember, FittedEnsemble, file_prefix
from gpupipe.models.composites.parts import FittedQuantiles, FittedTargets
from gpupipe.models.composites.scaled_target import FittedScaledTarget, read_units
from gpupipe.models.files.description import ESTIMATOR, Description
from gpupipe.models.files.model_files import ModelFiles, PrefixedFiles
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.plugin import FittedPlugin, read_plugin
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.lightgbm.fitted import FittedLightGBM
from gpupipe.models.linear.fitted import FittedLinear
from gpupipe.models.neural.files.load import load_network
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from gpupipe.models.xgboost.fitted import FittedXGBoost
from gpupipe.tasks import CLASSIFICATION, REGRESSION

if TYPE_CHECKING:
    from gpupipe.typing import Array

MOST_MODELS = 1_000  # of all members; each has its own files, whose sizes are limited like those of a single model
MOST_LETTERS = 200
TOLERANCE = 1e-6  # of the sum of the weights
LoadModel = Callable[[ModelFiles, dict[str, Any], Description], FittedModel]

MOST_QUANTILES = 1_000

# Models that are stored in one file. A network has several, and the installed libraries decide which one is read.
KINDS: tuple[
    type[FittedXGBoost | FittedLightGBM | FittedCatBoost | FittedLinear | FittedSklearn | FittedPlugin], ...
] = (FittedXGBoost, FittedLightGBM, FittedCatBoost, FittedLinear, FittedSklearn, FittedPlugin)


def load_fitted(files: ModelFiles, description: dict[str, Any]) -> FittedModel:
    """Return the model that `FittedModel.save` wrote to `files`, and of which it returned the `description`.

    Only the library of that model is imported, or those of an ensemble's members: scikit-learn, XGBoost, PyTorch, or
    ONNX Runtime. The trees of LightGBM and CatBoost need none. Raise ArtifactError if a file is missing, malformed or
    malicious, or does not match the description; LimitError if the model does not fit into memory; ConfigError if the
    model is a network, and neither PyTorch nor ONNX Runtime is installed; or if it needs a plug-in that is not
    installed.
    """
    try:
        check_shape(description, ESTIMATOR, "estimator")
        expected = Description.of(description)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(str(error), where=str(files.folder), fix="export the model again") from None
    if description.get("library") == FittedEnsemble.library:
        return read_ensemble(files, description, expected, _load_member)
    if description.get("library") == FittedScaledTarget.library:
        return read_scaled_target(files, description, expected, _load_scaled)
    return _load_of_one_unit(files, description, expected)


def _load_scaled(files: ModelFiles, description: dict[str, Any], expected: Description) -> FittedModel:
    """Return the model of a scaled target, which may be an ensemble."""
    if description.get("library") == FittedEnsemble.library:
        return read_ensemble(files, description, expected, _load_member)
    return _load_of_one_unit(files, description, expected)


def _load_member(files: ModelFiles, description: dict[str, Any], expected: Description) -> FittedModel:
    """Return a model of an ensemble, whose target may have been scaled."""
    if description.get("library") == FittedScaledTarget.library:
        return read_scaled_target(files, description, expected, _load_single)
    return _load_single(files, description, expected)


def _load_of_one_unit(files: ModelFiles, description: dict[str, Any], expected: Description) -> FittedModel:
    """Return a model of one or several targets or quantiles."""
    if description.get("library") == FittedQuantiles.library:
        return read_quantiles(files, description, expected, _load_single)
    if description.get("library") == FittedTargets.library:
        return read_targets(files, description, expected, _load_single)
    return _load_single(files, description, expected)


def _load_single(files: ModelFiles, description: dict[str, Any], expected: Description) -> FittedModel:
    """Return a model that does not consist of others; `expected` is the checked part of its description."""
    library = description.get("library")
    if library == "torch":
        with refuse_failures("the network cannot be read", str(files.folder)):
            return load_network(files, expected)
    kind = next((kind for kind in KINDS if kind.library == library), None)
    if kind is None:
        what = f"the model needs the unknown library {library!r:.40}"
        raise ArtifactError(what, where=str(files.folder), fix="update gpupipe")
    if expected.task == "multioutput" and kind is not FittedXGBoost:
        what = f"a model of {library} cannot predict several targets"
        raise ArtifactError(what, where=str(files.folder), fix="export the model again")
    path = files.path(kind.file)
    where = str(path)
    if kind.file not in files.names():
        raise ArtifactError("the estimator's file is missing", where=where, fix="export the model again")
    with refuse_failures(f"{path.name} is not a valid estimator of this model", where):
        data = files.read(kind.file)
        estimator: Any
        if issubclass(kind, FittedPlugin):
            estimator = read_plugin(data, description.get("plugin"), expected, where)
        else:
            estimator = kind.read(data, expected, where)
    return kind(
        estimator,
        expected.task,
        expected.feature_names,
        expected.n_classes,
        expected.classes,
        targets=expected.targets,
    )


def predict_loaded(model: FittedModel, X: Array, where: str) -> Prediction:
    """Return the predictions of a loaded model, checked: a valid file can still contain inconsistent numbers.

    `X` is float32, shape (n, d); `where` is the model directory, for messages. Raise ArtifactError if the estimator
    raises any error, or does not return one prediction of its task per row; LimitError if memory is short.
    """
    with refuse_failures("the estimator failed on valid rows", where, VERIFY):
        prediction = model.predict(X)
        prediction.check(len(X), model.n_classes, model.n_outputs)
        return prediction


def read_quantiles(
    files: ModelFiles, description: dict[str, Any], expected: Description, load_model: LoadModel
) -> FittedQuantiles:
    """Return the model that `FittedQuantiles.save` wrote; arguments as in `gpupipe.models.load`.

    Raise ArtifactError if a value of the description is invalid, or a model cannot be read.
    """
    models = description.get("models", [])
    n_models = len(models)
    if not 0 < n_models <= MOST_QUANTILES or expected.task != "quantile":
        raise _invalid(files, f"expected up to {MOST_QUANTILES:,} models for the task quantile; found {n_models:,}")
    own = Description("regression", expected.feature_names, 0, (), n_models)
    loaded = tuple(
        load_model(PrefixedFiles(files, FittedQuantiles.file_prefix(i)), model, own) for i, model in enumerate(models)
    )
    return FittedQuantiles(loaded, "quantile", expected.feature_names, notes=_notes(loaded))


def read_targets(
    files: ModelFiles, description: dict[str, Any], expected: Description, load_model: LoadModel
) -> FittedTargets:
    """Return the model that `FittedTargets.save` wrote; arguments and errors as in `read_quantiles`."""
    models, specs = description.get("models", []), expected.targets
    if expected.task != "multioutput" or len(models) != len(specs):
        raise _invalid(files, "expected a model for each target of the task multioutput")
    loaded = []
    for i, (model, spec) in enumerate(zip(models, specs, strict=True)):
        try:
            checked = Description.of({**model, "task": spec.task, "feature_names": [], "n_classes": spec.n_classes})
        except ValueError as error:
            raise _invalid(files, str(error)) from None
        own = Description(spec.task, expected.feature_names, spec.n_classes, checked.classes, len(specs))
        loaded.append(load_model(PrefixedFiles(files, FittedTargets.file_prefix(i)), model, own))
    return FittedTargets(tuple(loaded), "multioutput", expected.feature_names, notes=_notes(loaded), targets=specs)


def read_scaled_target(
    files: ModelFiles, description: dict[str, Any], expected: Description, load_model: LoadModel
) -> FittedScaledTarget:
    """Return the model that `FittedScaledTarget.save` wrote; arguments and errors as in `read_quantiles`."""
    models = description.get("models", [])
    try:
        units = read_units(description.get("units", []), len(expected.targets) or 1)
        if expected.task not in ("regression", "quantile", "multioutput"):
            raise ValueError(f"the task {expected.task} has no units")
        if len(models) != 1:
            raise ValueError("expected one model of a scaled target")
    except ValueError as error:
        raise _invalid(files, str(error)) from None
    fitted = load_model(PrefixedFiles(files, FittedScaledTarget.file_prefix(0)), models[0], expected)
    return FittedScaledTarget(
        (fitted,), expected.task, expected.feature_names, notes=fitted.notes, targets=expected.targets, units=units
    )


def _notes(models: tuple[FittedModel, ...] | list[FittedModel]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(model.notes for model in models)))


def _invalid(files: ModelFiles, what: str) -> ArtifactError:
    return ArtifactError(f"the models are invalid: {what}", where=str(files.folder), fix="export the model again")


def read_ensemble(
    files: ModelFiles, description: dict[str, Any], expected: Description, load_model: LoadModel
) -> FittedEnsemble:
    """Return the ensemble that `FittedEnsemble.save` wrote.

    `description` is what `FittedEnsemble.save` returned, and `expected` its checked part. `load_model` loads one model,
    which is not an ensemble, from its files, its values in `description` and its description. Raise ArtifactError if a
    value of the description is invalid, or a model cannot be read.
    """
    try:
        listed = _check_members(description.get("members", []), expected)
    except ValueError as error:
        what = f"the ensemble is invalid: {error}"
        raise ArtifactError(what, where=str(files.folder), fix="export the model again") from None
    n_models = sum(len(models) for _, models in listed)
    members = []
    for i, (values, models) in enumerate(listed):
        names = tuple(expected.feature_names[column] for column in values["columns"])
        loaded = []
        for j, model in enumerate(models):
            own = Description(expected.task, names, expected.n_classes, tuple(model["classes"]), n_models)
            loaded.append(load_model(PrefixedFiles(files, file_prefix(i, j)), model, own))
        members.append(
            EnsembleMember(
                values["label"], values["name"], float(values["weight"]), tuple(values["columns"]), tuple(loaded)
            )
        )
    fitted = chain.from_iterable(member.models for member in members)
    notes = dict.fromkeys(chain.from_iterable(model.notes for model in fitted))
    return FittedEnsemble(
        tuple(members), expected.task, expected.feature_names, expected.n_classes, expected.classes, tuple(notes)
    )


def _check_members(members: list[Any], expected: Description) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return the values of each member with those of its models; raise ValueError if any is invalid."""
    if expected.task not in CLASSIFICATION | REGRESSION:
        raise ValueError(f"expected classification or regression; found the task {expected.task}")
    if not expected.feature_names:
        raise ValueError("its columns have no names")
    texts = chain.from_iterable((member["label"], member["name"]) for member in members)
    named = all(0 < len(text) <= MOST_LETTERS for text in texts)
    if not members or not named or not all(member["models"] for member in members):
        raise ValueError(f"expected members with models, and with a label and name of 1 to {MOST_LETTERS} letters")
    n_models = sum(len(member["models"]) for member in members)
    if n_models > MOST_MODELS:
        raise ValueError(f"expected at most {MOST_MODELS:,} models; found {n_models:,}")
    labels = [member["label"] for member in members]
    if len(set(labels)) < len(labels):
        raise ValueError("two members have the same label")
    for member in members:
        _check_columns(member["columns"], len(expected.feature_names))
        for model in member["models"]:
            _check_model(model, expected)
    _check_weights([member["weight"] for member in members])
    return [(member, member["models"]) for member in members]


def _check_columns(columns: list[Any], n_columns: int) -> None:
    if not columns or not all(0 <= column < n_columns for column in columns):
        raise ValueError(f"expected columns of a member in [0, {n_columns:,})")
    if len(set(columns)) < len(columns):
        raise ValueError("a member reads a column twice")


def _check_weights(weights: list[Any]) -> None:
    if not all(0 < weight <= 1 + TOLERANCE for weight in weights):
        raise ValueError("expected weights in (0, 1]")
    if not math.isclose(math.fsum(weights), 1.0, rel_tol=0, abs_tol=TOLERANCE):
        raise ValueError(f"expected weights that sum to 1; they sum to {math.fsum(weights):.6g}")


def _check_model(model: dict[str, Any], expected: Description) -> None:
    """Check the classes of a model: it may lack classes of the ensemble, and has no others."""
    Description.of({**model, "task": expected.task, "feature_names": [], "n_classes": expected.n_classes})
    if not set(model["classes"]) <= set(expected.classes):
        raise ValueError("a model has a class that the ensemble has not")
