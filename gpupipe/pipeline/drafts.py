"""Hidden directories that a living process has: their lock says so, and falls with the process, whatever ends it.

A process number would not do: numbers are given again, and those of another machine or container say nothing here.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path

STALE_SECONDS = 7 * 86_400  # what is older and has no owner that can be asked for is a leftover


def make_draft(prefix: Path) -> tuple[Path, int]:
    """Make a directory ``PREFIXxxxxxxxxxxxxxxxx`` that is locked; return it, and the descriptor that holds the lock.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    while True:
        path = Path(f"{prefix}{secrets.token_hex(8)}")
        path.mkdir()
        if (lock := hold(path)) is not None:
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


def sweep(path: Path, how: Callable[[Path], None] | None = None) -> None:
    """Remove a directory, or do `how` with it, if no living process holds it."""
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
    """Remove a directory and all in it; what cannot be removed stays."""
    shutil.rmtree(path, ignore_errors=True)


def _is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks here
        return os.fstat(lock).st_mtime < time.time() - STALE_SECONDS
    return True
