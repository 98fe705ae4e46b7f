"""Policy for outputs: permissions of what may hold personal data, and whether existing files are replaced."""

from __future__ import annotations

import errno
import logging
import os
import stat
from contextvars import ContextVar
from pathlib import Path

PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
NO_PERMISSIONS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # exFAT and some network mounts

# Context like a umask, so that a writer of outputs cannot forget to pass it on. The defaults are those of Python.
MODE: ContextVar[int] = ContextVar("permissions of private output files", default=PRIVATE)
CAN_REPLACE: ContextVar[bool] = ContextVar("whether an existing output file may be replaced", default=True)


def set_mode(file: int | Path, mode: int) -> None:
    """Set permissions of a file whatever the umask, those of a folder with x for each r.

    Log a warning if the file system has none.
    """
    found = os.stat(file).st_mode
    if stat.S_ISDIR(found):
        mode |= (mode & 0o444) >> 2 | found & stat.S_ISGID  # files in it keep inheriting its group
    try:
        os.chmod(file, mode)
    except OSError as error:
        if error.errno not in NO_PERMISSIONS:
            raise
        what = "the file system of an output has no permissions: other users may be able to read it"
        logging.getLogger("gpupipe").warning(what)
