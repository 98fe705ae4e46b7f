"""Context and resources of a model fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpupipe.models.progress import ShowProgress, show_nothing
from gpupipe.tasks import Task

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend


def never_stop(where: str) -> None:
    """Default safe-point callback: do nothing."""


@dataclass(frozen=True)
class Resources:
    """Resources of a training run.

    Attributes
    ----------
    n_processes : int
        Number of processes that train a network together.
    checkpoint : Path, optional
        Checkpoint file; its name identifies everything the training depends on. None: no checkpoints.
    resume : bool
        Whether a training resumes from the checkpoint.
    safe_point : callable
        Called where a training can stop, with a text such as "after epoch 3"; stops it by raising.
    show_progress : callable
        Takes a function that returns a `ProgressReport`, and displays it during the ``with`` block.
    """

    n_processes: int = 1
    checkpoint: Path | None = None
    resume: bool = False
    safe_point: Callable[[str], None] = never_stop
    show_progress: ShowProgress = show_nothing


ONE_PROCESS = Resources()
"""The default resources: one process, no checkpoint."""


@dataclass(frozen=True)
class FitContext:
    """Context of a model fit: everything except the model settings and the matrix.

    Attributes
    ----------
    backend : Backend
    task : Task
    seed : int
    n_classes : int
        Number of classes, for classification; y holds codes below it.
    categorical : mapping of int to int
        Position of a categorical column to its number of codes; empty in the dense view.
    feature_names : sequence of str
        Name of each column of the matrix.
    class_labels : sequence of str
        Label of each class code, for ``class_weight``; empty if the labels are the codes.
    resources : Resources
    """

    backend: Backend
    task: Task
    seed: int
    n_classes: int = 0
    categorical: Mapping[int, int] = field(default_factory=dict)
    feature_names: Sequence[str] = ()
    class_labels: Sequence[str] = ()
    resources: Resources = ONE_PROCESS
