"""What a training may use beside its matrix; models that are trained in one go have no use for it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Checkpoints:
    """A folder of states that interrupted trainings left behind, each under a name that says what it depends on.

    Attributes
    ----------
    folder : Path
        Made when something is saved.
    resume : bool
        Whether trainings go on from what is there.
    used : set of Path
        The files of this run.
    """

    folder: Path
    resume: bool = False
    used: set[Path] = field(default_factory=set)

    def file(self, name: str) -> Path:
        """Return the file of the training called `name`."""
        path = self.folder / f"{name}.pt"
        self.used.add(path)
        return path

    def clear(self) -> None:
        """Delete the files of this run, whose trainings are over; those of other trainings stay."""
        for path in self.used:
            for file in self.folder.glob(f"{path.stem}.*"):  # and what a kill has left half written
                file.unlink(missing_ok=True)
        with suppress(OSError):  # it is not there, or others are
            self.folder.rmdir()


@dataclass(frozen=True)
class Resources:
    """What long trainings may use.

    Attributes
    ----------
    n_processes : int
        How many processes share the training of a network.
    checkpoints : Checkpoints, optional
        Where trainings leave what they can go on from; None: nowhere.
    """

    n_processes: int = 1
    checkpoints: Checkpoints | None = None


ONE_PROCESS = Resources()
"""What a training has by default."""
