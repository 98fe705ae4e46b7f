"""Policy for outputs: permissions of what may hold personal data, and whether existing files are replaced."""

from __future__ import annotations

import errno
import logging
import os
import stat
from contextvars import ContextVar
from functools import cache
from pathlib import Path

PRIVATE = 0o600
NO_PERMISSIONS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # exFAT and some network mounts

# Context like a umask, so that a writer of outputs cannot forget to pass it on. The defaults are those of Python.
MODE: ContextVar[int] = ContextVar("permissions of private output files", default=PRIVATE)
CAN_REPLACE: ContextVar[bool] = ContextVar("whether an existing output file may be replaced", default=True)


def set_mode(file: int | Path, mode: int) -> None:
    """Set permissions whatever the umask, of a folder with x for each r; log a warning if a file system has none."""
    found = os.stat(file).st_mode
    if stat.S_ISDIR(found):
        mode |= (mode & 0o444) >> 2 | found & stat.S_ISGID  # files in it keep inheriting its group
    try:
        os.chmod(file, mode)
    except OSError as error:
        if error.errno not in NO_PERMISSIONS:
            raise
        _warn()


@cache
def _warn() -> None:
    logging.getLogger("gpupipe").warning("the file system has no permissions: others may be able to read the output")
