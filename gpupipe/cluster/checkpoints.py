"""Where a network that workers train together keeps its state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.cluster.crew import Crew
from gpupipe.cluster.partitions import PartitionedMatrix
from gpupipe.models import FitContext
from gpupipe.models.neural.checkpoint import FORMAT, Checkpoint
from gpupipe.models.neural.lesson import Lesson
from gpupipe.models.neural.settings import Neural

Array = Any


def checkpoint_of(
    model: Neural, X: PartitionedMatrix, lesson: Lesson, context: FitContext, n_workers: int
) -> Checkpoint | None:
    """Return the checkpoint of a training, under a name that says all it depends on; None if none is wanted.

    Parameters
    ----------
    model : Neural
    X : PartitionedMatrix
        Its bits are summed where they are.
    lesson : Lesson
    context : FitContext
    n_workers : int
        Of which the batches depend.
    """
    checkpoints = context.resources.checkpoints
    if checkpoints is None:
        return None
    sums = X.workers.gather(X.map(_bit_sums, each=[X.bounds[:-1]], label="checksums"))
    settings = {
        "model": model.model_dump(mode="json"), "architecture": asdict(lesson.architecture), "task": context.task,
        "seed": context.seed, "workers": n_workers, "format": FORMAT, "torch": version("torch"),
        "bits": [sum(column) % (1 << 64) for column in zip(*sums, strict=True)],
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for array in (lesson.training, lesson.validation, lesson.target, lesson.weight):
        digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return Checkpoint(replace(checkpoints, folder=checkpoints.folder.absolute()), digest.hexdigest()[:32])


def reaches(crew: Crew, checkpoint: Checkpoint) -> bool:
    """Return whether the worker that leads the training has the folder of the checkpoint, as this process has it."""
    with _probe(checkpoint.path.parent) as probe:
        (found,) = crew.gather([crew.submit(0, _is_there, probe)])
    return found


@contextmanager
def _probe(folder: Path) -> Iterator[Path]:
    """Yield a file that was just made; the folder is there as long as that."""
    probe = folder / f"{uuid4().hex}.probe"
    folder.mkdir(parents=True, exist_ok=True)
    probe.touch()
    try:
        yield probe
    finally:
        probe.unlink()
        with suppress(OSError):  # others are in it
            folder.rmdir()


def _is_there(backend: Backend, file: Path) -> bool:
    return file.is_file()


def _bit_sums(backend: Backend, rows: Array, first: int) -> list[int]:
    """Return for each column the sum of its cells' bits, each times the number of its row, modulo 2⁶⁴."""
    xp = backend.xp
    places = xp.arange(first + 1, first + 1 + rows.shape[0], dtype="int64")
    columns = (xp.ascontiguousarray(rows[:, j]).view("int32").astype("int64") for j in range(rows.shape[1]))
    return [int((bits * places).sum()) for bits in columns]
