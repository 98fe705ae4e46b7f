"""Errors of the operating system as errors of gpupipe: full disks, limits of the process, paths that cannot be used."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpupipe.errors import ConfigError, DataError, GpupipeError, LimitError


@dataclass(frozen=True)
class Shortage:
    """A resource that a process can run out of.

    Attributes
    ----------
    what, fix : str
        See `GpupipeError`.
    codes : tuple of int
        Its error numbers.
    texts : tuple of str
        What libraries say that give no number.
    kinds : tuple of exception classes
        That always mean it.
    """

    what: str
    fix: str
    codes: tuple[int, ...]
    texts: tuple[str, ...] = ()
    kinds: tuple[type[BaseException], ...] = ()

    def explains(self, error: BaseException) -> bool:
        """Return whether this error itself says so."""
        if isinstance(error, self.kinds):
            return True
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno in self.codes
        return any(text in str(error) for text in self.texts)  # messages of Python, glibc and Arrow


DISK = Shortage(
    "the disk is full, or a quota is used up",
    "make room, or name an output on another disk",
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    ("No space left on device", "Disk quota exceeded", "File too large"),
)
MEMORY = Shortage(
    "out of memory",
    "`gpupipe plan` says what a run needs: use fewer rows or columns, or a machine with more memory; "
    "`ulimit -v` shows whether this process has a limit",
    (errno.ENOMEM,),
    ("failed to map segment from shared object", "Cannot allocate memory", "std::bad_alloc"),
    (MemoryError,),
)
THREADS = Shortage(
    "no further thread or process can be started",
    "raise the limits of the user, the process or the container: `ulimit -u`, `ulimit -v`; or set GPUPIPE_THREADS=1",
    (errno.EAGAIN,),
    ("can't start new thread", "Failed to launch worker thread", "Resource temporarily unavailable"),
)
OPEN_FILES = Shortage("too many open files", "raise the limit, as in `ulimit -n 4096`", (errno.EMFILE, errno.ENFILE))
SHORTAGES = (DISK, MEMORY, THREADS, OPEN_FILES)

UNUSABLE = (
    errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP,
    errno.ENAMETOOLONG, errno.ENOTEMPTY, errno.EXDEV, errno.EBUSY, errno.ETXTBSY, errno.EMLINK,
)  # fmt: skip
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)  # of a rename: the folder exists, which another process made
FAILED = (errno.EIO, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.EREMOTEIO)


def is_full(error: BaseException) -> bool:
    """Return whether an error, or what caused it, says that a disk is full."""
    return any(DISK.explains(each) for each in _chain(error))


def shortage(error: BaseException, of: Sequence[Shortage] = SHORTAGES) -> LimitError | None:
    """Return the error for a resource that has run out, if that is what `error`, or what caused it, says."""
    for each in _chain(error):
        for resource in of:
            if resource.explains(each):
                reason = getattr(each, "strerror", None) or str(each)
                what = f"{resource.what}: {reason}" if reason and resource is not DISK else resource.what
                return LimitError(what, where=_place(each), fix=resource.fix)
    return None


def translate(error: BaseException) -> GpupipeError | None:
    """Return what an unexpected error means to a user; None if it is a bug.

    >>> print(translate(OSError(errno.EROFS, "Read-only file system", "/mnt/scores.csv")))
    a path cannot be used: Read-only file system
      where: /mnt/scores.csv
      to do: check the path and its permissions, or name another
    """
    if (found := shortage(error)) is not None:
        return found
    # A message of pathlib, which raises a plain RuntimeError.
    if isinstance(error, RuntimeError) and "determine home directory" in str(error):
        fix = "set HOME; or GPUPIPE_CACHE, NUMBA_CACHE_DIR and full paths in place of ~"
        return ConfigError("this user has no home directory", fix=fix)
    if not isinstance(error, OSError):
        return None
    if error.errno in UNUSABLE:
        what, fix = f"a path cannot be used: {error.strerror}", "check the path and its permissions, or name another"
        return ConfigError(what, where=_place(error), fix=fix)
    if error.errno in FAILED:
        what, fix = f"a disk or a network share failed: {error.strerror}", "check it, then run the same command again"
        return DataError(what, where=_place(error), fix=fix)
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _place(error: BaseException) -> str:
    names = (getattr(error, "filename", None), getattr(error, "filename2", None))
    return " and ".join(str(name) for name in names if name is not None)
