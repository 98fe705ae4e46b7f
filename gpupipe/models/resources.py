"""What a training may use beside its matrix; models that are trained in one go have no use for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpupipe.models.progress import ShowProgress, show_nothing


def go_on(where: str) -> None:
    """Be at a safe point of a training that nothing stops."""


@dataclass(frozen=True)
class Resources:
    """What long trainings may use.

    Attributes
    ----------
    n_processes : int
        How many processes share the training of a network.
    checkpoint : Path, optional
        The file in which a training leaves what it can go on from; its name stands for all that the training depends
        on. None: nowhere.
    resume : bool
        Whether a training goes on from what is there.
    safe_point : callable
        Called where a training can stop ("after epoch 3"); raises what stops it.
    show_progress : callable
        Takes a function that returns a `ProgressReport`, and displays it during the ``with`` block.
    """

    n_processes: int = 1
    checkpoint: Path | None = None
    resume: bool = False
    safe_point: Callable[[str], None] = go_on
    show_progress: ShowProgress = show_nothing


ONE_PROCESS = Resources()
"""What a training has by default."""
