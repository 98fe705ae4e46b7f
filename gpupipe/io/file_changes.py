"""Detection of files that change while they are read: a mix of old and new rows would look like any other table."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gpupipe.errors import DataError
from gpupipe.io.files import SourceFile, mask, remote_identity

FIX = "run again once nothing writes to it; a writer that writes beside it and renames disturbs nobody"


@contextmanager
def require_unchanged(file: SourceFile) -> Iterator[None]:
    """Require that a file does not change while the block reads it.

    Costs two stats of a local file, one request for a remote one. An error in the block of a file that changed is
    reported as the change.

    Raises
    ------
    DataError
        If the file has another size, time of change or entity tag than it had, or is another, or gone.
    """
    before = None if file.remote is not None else _require_same(file)
    try:
        yield
    except Exception:
        _require_same(file, before)
        raise
    _require_same(file, before)


def _require_same(file: SourceFile, inode: int | None = None) -> int | None:
    """Return the inode of a file whose identity is what it was; it is compared within one opening alone.

    Hosts and FUSE number the same file differently, so an inode is no part of the identity that travels.
    """
    if not file.mtime_ns and not file.version:  # made here, or the file system does not say
        return None
    try:
        if file.remote is not None:
            file.remote.invalidate_cache(file.path)
            same, number = remote_identity(file.remote.info(file.path)) == _identity(file), None
        else:
            status = os.stat(file.path)
            number = status.st_ino
            same = (status.st_size, status.st_mtime_ns) == (file.size, file.mtime_ns) and inode in (None, number)
    except FileNotFoundError:
        raise DataError("the file was removed while it was read", where=mask(file.path), fix=FIX) from None
    if not same:
        raise DataError("the file was changed while it was read", where=mask(file.path), fix=FIX)
    return number


def _identity(file: SourceFile) -> tuple[int, int, str]:
    return file.size, file.mtime_ns, file.version
