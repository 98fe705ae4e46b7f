"""Check that the folder of a network's checkpoint is shared between the driver and the worker of rank 0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from gpupipe.dask.gang import Gang
from gpupipe.models.neural.checkpoint import Checkpoint


def can_reach(gang: Gang, checkpoint: Checkpoint) -> bool:
    """Return whether the worker of rank 0 reaches the folder of the checkpoint under the path of this process."""
    with _probe(checkpoint.path.parent) as probe:
        (found,) = gang.gather([gang.submit(0, lambda _: probe.is_file())])
    return found


@contextmanager
def _probe(folder: Path) -> Iterator[Path]:
    """Yield a new empty file; it is removed on exit, and with it a folder that is empty then."""
    probe = folder / f"{uuid4().hex}.probe"
    folder.mkdir(parents=True, exist_ok=True)
    probe.touch()
    try:
        yield probe
    finally:
        probe.unlink()
        with suppress(OSError):  # others are in it
            folder.rmdir()
