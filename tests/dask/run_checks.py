"""Checks that a run on workers learns and writes the same as a run on one machine.

Used by the tests of runs on the CPU and on GPUs.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd

from gpupipe.backends.base import Backend
from gpupipe.config import load_config
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.models.matrix import gather_rows
from gpupipe.partitions.workers import Workers
from gpupipe.pipeline import run as run_module
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.training import fit as training
from gpupipe.training import job

Array = Any

WRITTEN = ("metrics.json", "predictions.parquet", "model/program.npz", "model/levels.json")
LOCAL = "cluster.scheduler=local"


@dataclass(frozen=True)
class Left:
    """The outcome of a run: its directory, and every set of features with the matrix of its training rows."""

    run: Run
    learned: list[tuple[FittedFeatures, Array]]

    def notes(self) -> list[str]:
        return [note.text for stage in self.run.timeline.stages for note in stage.notes]

    def predictions(self) -> pd.DataFrame:
        return pd.read_parquet(self.run.path / "predictions.parquet")


def run_on(config: Path, output: Path, overrides: Sequence[str] = (), workers: Workers | None = None) -> Left:
    """Run a configuration on one machine, or on workers that are given."""
    given = [LOCAL] if workers else []
    settings = load_config(config, ["report.enabled=false", *overrides, *given])
    learned: list[tuple[FittedFeatures, Array]] = []
    with ExitStack() as stack:
        stack.enter_context(_kept(learned))
        if workers is not None:
            stack.enter_context(patch.object(run_module, "workers_of", lambda config: nullcontext(workers)))
        return Left(run_pipeline(settings, output), learned)


@contextmanager
def _kept(learned: list[tuple[FittedFeatures, Array]]) -> Iterator[None]:
    """Record the fitted features and their matrices before the run releases them."""
    made = training.training_matrix

    def kept(rows: training.TrainingSet, view: Any, backend: Backend) -> Any:
        is_new = view not in rows.matrices
        matrix = made(rows, view, backend)
        if is_new:
            learned.append((rows.features[view], gather_rows(matrix, None, backend)))
        return matrix

    with patch.object(job, "training_matrix", kept):
        yield


def assert_same_features(shared: Left, alone: Left) -> None:
    """Raise unless every fit has learned the same, and written the same matrix, to the last bit."""
    assert len(shared.learned) == len(alone.learned) > 0
    for (ours, matrix), (theirs, expected) in zip(shared.learned, alone.learned, strict=True):
        assert (ours.schema, ours.features, ours.notes) == (theirs.schema, theirs.features, theirs.notes)
        assert repr(ours.states) == repr(theirs.states)
        assert pickle.dumps(ours.program) == pickle.dumps(theirs.program)
        assert pickle.dumps(ours.training_program) == pickle.dumps(theirs.training_program)
        assert matrix.shape == expected.shape
        assert matrix.tobytes() == expected.tobytes()


def assert_same_files(shared: Left, alone: Left) -> None:
    """Raise unless metrics, predictions and the model's features are the same bytes."""
    for name in WRITTEN:
        assert (shared.run.path / name).read_bytes() == (alone.run.path / name).read_bytes(), name
