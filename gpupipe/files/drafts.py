"""Drafts: hidden directories in which a process prepares output before renaming it into place.

A marker file identifies drafts of gpupipe; a directory without it is never removed, whatever its name. A lock shows
whether the writing process still runs, because the system releases it with the process. A process id would not: ids
are reused, and are meaningless on other machines and in containers.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpupipe.units import DAY_SECONDS

MARKER = ".gpupipe-draft"
STALE_SECONDS = 7 * DAY_SECONDS  # age from which a path without a known owner counts as abandoned


def make_draft(prefix: Path) -> tuple[Path, int]:
    """Create and lock a draft named `prefix` plus 16 hexadecimal digits; return its path and lock descriptor.

    Raise OSError if it cannot be created.
    """
    while True:
        path = Path(f"{prefix}{secrets.token_hex(8)}")
        path.mkdir(0o700)
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
    """Lock a directory; return the descriptor of the lock, or None if another process was faster.

    On file systems without locks, the descriptor has no lock, and other processes rely on the directory's age.
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
    os.close(lock)  # another process swept the directory before it was locked here
    return None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a directory while the block runs, after waiting for other processes; file systems without locks have none.

    Raise OSError if the directory cannot be opened.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def is_draft(path: Path) -> bool:
    """Return whether a directory is marked as a draft."""
    return not path.is_symlink() and (path / MARKER).is_file()


def sweep(path: Path, how: Callable[[Path], None] | None = None) -> None:
    """Call `how` (default: `remove`) with a directory, unless a running process has locked it."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # already removed, or not accessible
        return
    try:
        if _is_free(lock):
            (how or remove)(path)
    finally:
        os.close(lock)


def is_stale(path: Path) -> bool:
    """Return whether a file or directory was last changed more than 7 days ago."""
    try:
        return path.stat().st_mtime < time.time() - STALE_SECONDS
    except OSError:
        return False


def remove(path: Path) -> None:
    """Remove a draft and its contents; ignore paths that are not drafts, or cannot be removed.

    The marker is removed last, so that a half-removed draft is still recognized.
    """
    with suppress(OSError):
        if is_draft(path):
            for name in os.listdir(path):
                if name != MARKER:
                    _remove_any(path / name)
            if os.listdir(path) == [MARKER]:
                (path / MARKER).unlink()
        path.rmdir()  # an empty draft has no marker if its process was killed before writing or after removing it


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
    except OSError:  # the file system has no locks
        return os.fstat(lock).st_mtime < time.time() - STALE_SECONDS
    return True
