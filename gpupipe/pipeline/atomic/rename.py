"""A directory put under the name of another, in one step where the system has such a step, and safe in a power cut."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

AT_FDCWD = -100
EXCHANGE = 2  # RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS are the same number
UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)  # to this system, or this file system


def exchange(one: Path, other: Path) -> bool:
    """Have two directories change names, so that neither name is ever without a directory.

    Returns
    -------
    bool
        False where the system or the file system cannot do that; nothing has happened then.

    Raises
    ------
    OSError
        If one of them does not exist, or may not be renamed.
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


def sync_tree(folder: Path) -> None:
    """Bring all files and directories below to the disk, so that no rename outlives its content in a power cut."""
    for parent, _, files in os.walk(folder):
        for name in files:
            sync(Path(parent) / name)
        sync(Path(parent))


def sync(path: Path) -> None:
    """Bring a file, or the entries of a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
