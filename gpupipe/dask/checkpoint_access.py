"""Whether workers reach the file in which a network that they train together keeps its state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from gpupipe.backends.base import Backend
from gpupipe.dask.gang import Crew
from gpupipe.models.neural.checkpoint import Checkpoint


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
