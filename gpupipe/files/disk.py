"""Free disk space: checks before large writes, and errors for full disks."""

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
    """Raise LimitError with the advice `fix` if the disk of `folder` or a quota is full while the block runs."""
    try:
        yield
    except Exception as error:
        if isinstance(error, GpupipeError) or not is_full(error):
            raise
        free = f"; {format_size(found)} are free" if (found := free_bytes(folder)) is not None else ""
        raise LimitError(f"{DISK.what}{free}", where=str(folder), fix=fix) from error


def require_room(folder: Path, n_bytes: int, what: str) -> None:
    """Raise LimitError if the disk of `folder` has less free space than the `n_bytes` that `what` will take."""
    free = free_bytes(folder)
    if free is not None and free < n_bytes:
        raise LimitError(
            f"{what} will take {format_size(n_bytes)} of disk space; {format_size(free)} are free",
            where=str(folder),
            fix="free disk space, or name another --output",
        )


def free_bytes(folder: Path) -> int | None:
    """Return the free space in bytes on the disk of an existing folder; None if unknown."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
