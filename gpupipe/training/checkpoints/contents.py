"""Contents of checkpoints: features and trained models in the file format of model directories, without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.backends.base import Backend
from gpupipe.features.history.derivation import Derivation
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.files.jsonfile import plain
from gpupipe.model_parts.feature_files import read_features, write_features
from gpupipe.models import FittedModel, Prediction, load_fitted
from gpupipe.report.search_record import SearchRecord
from gpupipe.training.checkpoints.keys import CheckpointKey
from gpupipe.training.fit import TrainedModel
from gpupipe.typing import HostArray
from gpupipe_kernels.program.program import Program

TRAINING = "training.npz"
FOLDS = "folds.npz"
PREDICTIONS = "predictions.npz"


@dataclass(frozen=True)
class ModelCheckpoint:
    """A trained model and its predictions for rows that it was not trained on.

    `model` is in its portable form, and `predictions` are by name of the row subset. `seconds` is the wall time of the
    training in the interrupted run. `search` has the models that an ensemble or the tuning of the candidate tried, and
    `tuned` the stated parameters of a tuned entry.
    """

    model: FittedModel
    predictions: Mapping[str, Prediction]
    seconds: float
    search: SearchRecord | None = None
    tuned: Mapping[str, Any] | None = None


def write_fitted_features(folder: Path, key: CheckpointKey, features: FittedFeatures, backend: Backend) -> None:
    """Write features without custom kernels into an empty directory."""
    writer = ArtifactWriter(folder)
    write_features(writer, replace(features, derivation=None))
    if features.training_program is not None and features.folds is not None:
        writer.arrays(TRAINING, features.training_program.arrays())
        writer.arrays(FOLDS, {"folds": backend.to_host(features.folds)})
    writer.finish(
        {
            "stage": key.stage,
            "parts": dict(key.parts),
            "notes": list(features.notes),
            "warnings": list(features.warnings),
            "views": {view: list(columns) for view, columns in features.views.items()},
        }
    )


def read_fitted_features(reader: ArtifactReader, derivation: Derivation | None, backend: Backend) -> FittedFeatures:
    """Return the features written by `write_fitted_features`; `derivation` comes from the table of the run."""
    found = read_features(reader)
    training = folds = None
    if TRAINING in reader.names():
        training = Program.from_arrays(reader.arrays(TRAINING), len(found.features), ())
        folds = backend.to_device(reader.arrays(FOLDS)["folds"])
    notes, warnings = tuple(reader.manifest["notes"]), tuple(reader.manifest["warnings"])
    views = {view: tuple(columns) for view, columns in reader.manifest["views"].items()}
    return replace(
        found,
        training_program=training,
        folds=folds,
        notes=notes,
        derivation=derivation,
        warnings=warnings,
        views=views,
    )


def write_model(
    folder: Path, key: CheckpointKey, trained: TrainedModel, predictions: Mapping[str, Prediction], backend: Backend
) -> None:
    """Write a trained model in its portable form, and its predictions on `backend`, into an empty directory."""
    writer = ArtifactWriter(folder)
    description = trained.model.portable().save(folder, quick=True)
    for name in description["files"]:
        writer.file(name)
    arrays: dict[str, HostArray] = {}
    for part, found in predictions.items():
        arrays |= {f"{part}.{name}": backend.to_host(values) for name, values in found.arrays.items()}
    writer.arrays(PREDICTIONS, arrays)
    search, params = trained.search, trained.entry.params
    tuned = None
    if search is not None and search.kind == "tuning":
        tuned = params.model_dump(mode="json", by_alias=True, exclude_unset=True)
    content = {
        "stage": key.stage, "parts": dict(key.parts), "estimator": description, "notes": list(trained.model.notes),
        "seconds": trained.seconds, "predicted": list(predictions),
        "search": None if search is None else plain(search.to_json()), "tuned": tuned,
    }  # fmt: skip
    writer.finish(content)


def read_model(reader: ArtifactReader) -> ModelCheckpoint:
    """Return the model written by `write_model`."""
    content, arrays = reader.manifest, reader.arrays(PREDICTIONS)
    model = load_fitted(reader, content["estimator"])
    predictions = {part: _prediction(model, part, arrays) for part in content["predicted"]}
    search = None if content["search"] is None else SearchRecord.from_json(content["search"])
    notes = tuple(content["notes"])
    return ModelCheckpoint(replace(model, notes=notes), predictions, content["seconds"], search, content["tuned"])


def _prediction(model: FittedModel, part: str, arrays: Mapping[str, Any]) -> Prediction:
    names = [name.removeprefix(f"{part}.") for name in arrays if name.startswith(f"{part}.")]
    return Prediction(model.task, **{name: arrays[f"{part}.{name}"] for name in names}, targets=model.targets)
