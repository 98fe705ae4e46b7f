"""Reader of ensembles; their description is untrusted, so every value is checked before a model is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import Any

from gpupipe.errors import ArtifactError
from gpupipe.models.composites.ensemble import EnsembleMember, FittedEnsemble, file_prefix
from gpupipe.models.files.description import Description
from gpupipe.models.files.model_files import ModelFiles, PrefixedFiles
from gpupipe.models.fitted.base import FittedModel
from gpupipe.tasks import CLASSIFICATION, REGRESSION

MOST_MODELS = 1_000  # of all members; each has its own files, whose sizes are limited like those of a single model
MOST_LETTERS = 200
TOLERANCE = 1e-6  # of the sum of the weights
LoadModel = Callable[[ModelFiles, dict[str, Any], Description], FittedModel]


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
