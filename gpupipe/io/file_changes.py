"""Detection of files that change while they are read: a mix of old and new rows would look like any other table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gpupipe.errors import DataError
from gpupipe.io.files import SourceFile, mask, remote_identity

FIX = "run again once nothing writes to it; a writer that writes beside it and renames disturbs nobody"


@contextmanager
def require_unchanged(file: SourceFile, descriptor: int | None = None) -> Iterator[None]:
    """Require that a file is what it was when it was listed, before and after the block reads it.

    Costs one stat of a local file (two unless it is open), one request for a remote one. An error in the block of a
    file that changed is reported as the change.

    Parameters
    ----------
    file : SourceFile
    descriptor : int, optional
        Of the open local file.

    Raises
    ------
    DataError
        If the file has another size, time of change or entity tag than it had, or is another, or gone.
    """
    before = None if file.remote is not None else _require_same(file, descriptor=descriptor)
    try:
        yield
    except Exception:
        _require_same(file, before)
        raise
    _require_same(file, before)


def are_unchanged(files: Iterable[SourceFile]) -> bool:
    """Return whether files have the identity that they had when they were listed on this host.

    Remote files are not asked for again: `require_unchanged` did so when they were read.
    """
    return all(file.shows_changes and (file.remote is not None or _has_identity(file)) for file in files)


def removed(file: SourceFile) -> DataError:
    """Return the error of a file that is not there any more."""
    return DataError("the file was removed while it was read", where=mask(file.path), fix=FIX)


def _has_identity(file: SourceFile) -> bool:
    if not file.mtime_ns:  # a generated table, or one in memory
        return True
    try:
        status = os.stat(file.path)
    except OSError:
        return False
    return SourceFile.local(file.path, status, file.format).identity == file.identity


def _require_same(file: SourceFile, inode: int | None = None, descriptor: int | None = None) -> int | None:
    """Return the inode of a file whose identity is what it was; it is compared within one opening alone.

    Hosts and FUSE number the same file differently, so an inode is no part of the identity that travels.
    """
    if not file.mtime_ns and not file.version:  # made here, or the file system does not say
        return None
    try:
        if file.remote is not None:
            file.remote.invalidate_cache(file.path)
            same, number = (
                remote_identity(file.remote.info(file.path)) == (file.size, file.mtime_ns, file.version),
                None,
            )
        else:
            status = os.stat(file.path if descriptor is None else descriptor)
            number = status.st_ino
            same = (status.st_size, status.st_mtime_ns) == (file.size, file.mtime_ns) and inode in (None, number)
    except FileNotFoundError:
        raise removed(file) from None
    if not same:
        raise DataError("the file was changed while it was read", where=mask(file.path), fix=FIX)
    return number
