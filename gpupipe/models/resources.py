"""Resources of long trainings: processes, checkpoint, safe points and progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpupipe.models.progress import ShowProgress, show_nothing


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
