"""Detection of files that change while they are read, which would silently mix old and new rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from gpupipe.errors import DataError
from gpupipe.io.files import SourceFile, mask, remote_identity
from gpupipe.io.table_folder import TableFolder

FIX = "run again when no process writes to the file; to replace a file safely, write a new file and rename it"


@contextmanager
def require_unchanged(file: SourceFile, descriptor: int | None = None) -> Iterator[None]:
    """Check that a file has the identity from its listing, before and after the body of the context reads it.

    Costs one stat for a local file (two if it is not open) and one request for a remote file. If the file changed, an
    error in the body is reported as the change. `descriptor` is that of the open local file. Raise DataError if the
    size, modification time or entity tag of the file has changed, it was replaced or removed, or leads elsewhere here.
    """
    if file.folder and os.path.islink(file.path):  # on a worker, a path may lead elsewhere
        TableFolder(file.folder).require(file.path)
    before = None if file.remote is not None else _require_same(file, descriptor=descriptor)
    try:
        yield
    except Exception:
        _require_same(file, before)
        raise
    _require_same(file, before)


def are_unchanged(files: Iterable[SourceFile]) -> bool:
    """Return True if files have the identity from their listing on this host.

    Remote files are not checked again: `require_unchanged` did so when they were read.
    """
    return all(file.shows_changes and (file.remote is not None or _has_identity(file)) for file in files)


def removed(file: SourceFile) -> DataError:
    """Return the error for a file that no longer exists."""
    return DataError("the file was removed while it was being read", where=mask(file.path), fix=FIX)


def _has_identity(file: SourceFile) -> bool:
    if not file.mtime_ns:  # a generated or in-memory table
        return True
    try:
        status = os.stat(file.path)
    except OSError:
        return False
    return SourceFile.local(file.path, status, file.format).identity == replace(file, copy=None).identity


def _require_same(file: SourceFile, inode: int | None = None, descriptor: int | None = None) -> int | None:
    """Return the inode of a file; raise DataError if its identity changed. Inodes are compared during one open only.

    Hosts and FUSE may assign different inodes to the same file, so workers do not compare them.
    """
    if not file.mtime_ns and not file.version:  # generated, or not provided by the file system
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
        raise DataError("the file was changed while it was being read", where=mask(file.path), fix=FIX)
    return number
