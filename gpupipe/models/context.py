"""Context and resources of one model fit, besides the model settings and the matrix."""

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
    """Resources of a long training.

    Attributes
    ----------
    n_processes : int
        Number of processes that share the training of a network.
    checkpoint : Path, optional
        The file that a training saves its state to; its name identifies all that the training depends on. None: no
        checkpoints.
    resume : bool
        Whether a training resumes from the checkpoint.
    safe_point : callable
        Called where a training can stop ("after epoch 3"); raises what stops it.
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
    """Context of one model fit, besides the model settings and the matrix.

    Attributes
    ----------
    backend : Backend
    task : Task
    seed : int
    n_classes : int
        Classification only: y holds codes below it.
    categorical : mapping of int to int
        Column of the matrix to its number of codes; empty in the dense view.
    feature_names : sequence of str
        One name for each column of the matrix.
    class_labels : sequence of str
        Classification only: the label of each code, for ``class_weight``; empty if labels are codes.
    resources : Resources
        Of trainings that take long.
    """

    backend: Backend
    task: Task
    seed: int
    n_classes: int = 0
    categorical: Mapping[int, int] = field(default_factory=dict)
    feature_names: Sequence[str] = ()
    class_labels: Sequence[str] = ()
    resources: Resources = ONE_PROCESS
