"""Reader of models that consist of several models over one matrix; their description is untrusted, so it is checked."""

from __future__ import annotations

from itertools import chain
from typing import Any

from gpupipe.errors import ArtifactError
from gpupipe.models.composites.ensemble_files import LoadModel
from gpupipe.models.composites.quantiles import FittedQuantiles
from gpupipe.models.composites.scaled_target import FittedScaledTarget, read_units
from gpupipe.models.composites.targets import FittedTargets
from gpupipe.models.files.description import Description
from gpupipe.models.files.model_files import ModelFiles, PrefixedFiles
from gpupipe.models.fitted.base import FittedModel

MOST_QUANTILES = 1_000


def read_quantiles(
    files: ModelFiles, description: dict[str, Any], expected: Description, load_model: LoadModel
) -> FittedQuantiles:
    """Return the model that `FittedQuantiles.save` wrote; arguments as in `gpupipe.models.composites.ensemble_files`.

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
