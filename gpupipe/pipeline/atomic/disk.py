"""Room on the disk: asked for before much is written, and its lack told as what it means."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpupipe.errors import GpupipeError, LimitError
from gpupipe.system_errors import DISK, is_full
from gpupipe.units import format_size


@contextmanager
def room_on(folder: Path, fix: str) -> Iterator[None]:
    """Do something that writes into `folder`.

    Raises
    ------
    LimitError
        If the disk is full, or a quota is used up; `fix` says what to do once there is room.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, GpupipeError) or not is_full(error):
            raise
        free = f"; {format_size(found)} are free there" if (found := free_bytes(folder)) is not None else ""
        raise LimitError(f"{DISK.what}{free}", where=str(folder), fix=fix) from error


def require_room(folder: Path, n_bytes: int, what: str) -> None:
    """Raise a LimitError if `n_bytes`, which `what` will take, are not free on the disk of `folder`."""
    free = free_bytes(folder)
    if free is not None and free < n_bytes:
        raise LimitError(
            f"{what} will take {format_size(n_bytes)}, and {format_size(free)} are free on the disk",
            where=str(folder),
            fix="make room, or name another --output",
        )


def free_bytes(folder: Path) -> int | None:
    """Return how many bytes may still be written to the disk of a folder that is there; None if that is not known."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
