"""Checkpoints of the models of an ensemble: one for each model and fold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.config import ModelEntry
from gpupipe.models import load_fitted
from gpupipe.splits import Fold
from gpupipe.training.checkpoints.keys import CheckpointKey, digest, rows_digest
from gpupipe.training.checkpoints.run_checkpoints import TrainingCheckpoints, on_host

if TYPE_CHECKING:
    from gpupipe.training.ensemble.fold_training import FoldModel
    from gpupipe.training.ensemble.portfolio import PortfolioEntry

PREDICTED = "predicted.npz"
WORTH_SECONDS = 2.0  # of training: writing a model takes 0.05 s, and reading it again as long


@dataclass(frozen=True)
class FoldCheckpoints:
    """Checkpoints of the models of one ensemble, see `gpupipe.training.ensemble.entry_training.FoldModelStore`.

    `checkpoints` are those of the training rows.
    """

    checkpoints: TrainingCheckpoints
    entry: ModelEntry

    def load(self, entry: PortfolioEntry, fold: Fold, seed: int) -> FoldModel | None:
        """Return the model that an interrupted run has saved, or None."""
        run, backend = self.checkpoints.run, self.checkpoints.backend
        if not run.store.resume or not self.checkpoints.may_load:
            return None
        found, _ = run.store.load(self._key(entry, fold, seed), read_fold_model)
        is_on_device = found is not None and backend.name == "gpu"
        return replace(found, model=on_host(found.model, backend)) if is_on_device and found else found

    def save(self, entry: PortfolioEntry, fold: Fold, seed: int, trained: FoldModel) -> None:
        """Save a model for a run that resumes this one, unless it took less than 2 s to train."""
        if self.checkpoints.run.store.folder is not None and trained.seconds >= WORTH_SECONDS:
            key = self._key(entry, fold, seed)
            self.checkpoints.run.save(key, trained.seconds, partial(write_fold_model, key=key, trained=trained))

    def _key(self, entry: PortfolioEntry, fold: Fold, seed: int) -> CheckpointKey:
        settings = [
            entry.name,
            entry.settings.model_dump(mode="json"),
            entry.base and entry.base.model_dump(mode="json"),
            getattr(self.entry.params, "class_weight", None),
        ]
        return self.checkpoints.key.of(
            f"{self.checkpoints.label}train {self.entry.label}: {entry.label}",
            the_model=digest(settings),
            the_fold=digest([rows_digest(fold.train), rows_digest(fold.test), seed]),
        )


def write_fold_model(folder: Path, key: CheckpointKey, trained: FoldModel) -> None:
    """Write a model in its portable form, and its predictions, into an empty directory."""
    writer = ArtifactWriter(folder)
    description = trained.model.portable().save(folder, quick=True)
    for name in description["files"]:
        writer.file(name)
    writer.arrays(PREDICTED, {"predicted": np.asarray(trained.predicted)})
    writer.finish(
        {
            "stage": key.stage,
            "parts": dict(key.parts),
            "estimator": description,
            "seconds": trained.seconds,
            "notes": list(trained.model.notes),
        }
    )


def read_fold_model(reader: ArtifactReader) -> FoldModel:
    """Return the model written by `write_fold_model`."""
    from gpupipe.training.ensemble.fold_training import FoldModel

    content = reader.manifest
    model = replace(load_fitted(reader, content["estimator"]), notes=tuple(content["notes"]))
    return FoldModel(model, reader.arrays(PREDICTED)["predicted"], content["seconds"])
