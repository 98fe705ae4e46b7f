"""Atomic exchange of directories, and synchronization to disk."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

from gpupipe.files.policy import PRIVATE, set_mode

AT_FDCWD = -100
EXCHANGE = 2  # RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS
UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)  # not supported by the system or file system


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two directories atomically.

    Return False if the system or the file system does not support it; nothing has changed then. Raise OSError if one of
    them does not exist, or may not be renamed.
    """
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            code = library.renamex_np(*names, ctypes.c_uint(EXCHANGE))
        else:
            code = library.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], ctypes.c_uint(EXCHANGE))
    except AttributeError:  # a C library without it
        return False
    if code == 0:
        return True
    number = ctypes.get_errno()
    if number in UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(other))


def sync_tree(folder: Path, mode: int = PRIVATE) -> None:
    """Set the mode of a tree, and flush it to disk: after a power failure, a renamed tree has its content."""
    for parent, _, files in os.walk(folder):
        for path in (*(Path(parent) / name for name in files), Path(parent)):
            set_mode(path, mode)
            sync(path)


def sync(path: Path) -> None:
    """Flush a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
