"""Drafts: hidden directories in which a process prepares what it then renames into place.

A file in a draft marks it as ours: without it a directory is never removed, whatever its name. A lock tells whether the
process still runs: it falls with the process, whatever ends it. A process number would not do: numbers are given again,
and those of another machine or container mean nothing here.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gpupipe.units import DAY_SECONDS

MARKER = ".gpupipe-draft"
STALE_SECONDS = 7 * DAY_SECONDS  # what is older and has no owner that can be asked for is a leftover


def make_draft(prefix: Path) -> tuple[Path, int]:
    """Make a draft ``PREFIXxxxxxxxxxxxxxxxx`` and lock it; return it, and the descriptor that holds the lock.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    while True:
        path = Path(f"{prefix}{secrets.token_hex(8)}")
        path.mkdir()
        if (lock := hold(path)) is not None:
            break
    try:
        (path / MARKER).touch()
    except BaseException:
        with suppress(OSError):
            path.rmdir()
        os.close(lock)
        raise
    return path, lock


def hold(path: Path) -> int | None:
    """Lock a directory; return the descriptor that holds the lock, or None if another was faster.

    Where the file system has no locks the descriptor holds none, and others go by the age of the directory.
    """
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:
        return lock
    if path.exists() and os.path.samestat(path.stat(), os.fstat(lock)):
        return lock
    os.close(lock)  # whoever swept it had the lock between its making and ours
    return None


def is_draft(path: Path) -> bool:
    """Return whether a directory is marked as a draft."""
    return not path.is_symlink() and (path / MARKER).is_file()


def sweep(path: Path, how: Callable[[Path], None] | None = None) -> None:
    """Call `how` (default: `remove`) with a directory, if no living process holds it."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # gone meanwhile, or not ours to look at
        return
    try:
        if _is_free(lock):
            (how or remove)(path)
    finally:
        os.close(lock)


def is_stale(path: Path) -> bool:
    """Return whether a file or directory was changed so long ago that nobody will come back for it."""
    try:
        return path.stat().st_mtime < time.time() - STALE_SECONDS
    except OSError:
        return False


def remove(path: Path) -> None:
    """Remove a draft and all in it; what is not a draft, or cannot be removed, stays.

    The marker goes last, so that a draft whose removal was interrupted is still known as one.
    """
    with suppress(OSError):
        if is_draft(path):
            for name in os.listdir(path):
                if name != MARKER:
                    _remove_any(path / name)
            if os.listdir(path) == [MARKER]:
                (path / MARKER).unlink()
        path.rmdir()  # ours if it is empty: its process was killed before it wrote the marker, or after it removed it


def _remove_any(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks here
        return os.fstat(lock).st_mtime < time.time() - STALE_SECONDS
    return True
