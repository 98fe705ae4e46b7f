"""Translation of operating system errors: full disks, process limits, unusable paths."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpupipe.errors import ConfigError, DataError, GpupipeError, LimitError


@dataclass(frozen=True)
class Shortage:
    """Resource that a process can run out of."""

    # what, fix: see `GpupipeError`.
    what: str
    fix: str
    codes: tuple[int, ...]  # error numbers that report the shortage
    texts: tuple[str, ...] = ()  # fragments of library messages that carry no error number
    kinds: tuple[type[BaseException], ...] = ()  # exceptions that always mean this shortage

    def explains(self, error: BaseException) -> bool:
        """Return whether `error` itself, not its causes, reports this shortage."""
        if isinstance(error, self.kinds):
            return True
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno in self.codes
        return any(text in str(error) for text in self.texts)  # messages of Python, glibc and Arrow


DISK = Shortage(
    "the disk is full, or its quota is exceeded",
    "free some space, or choose an output on another disk",
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    ("No space left on device", "Disk quota exceeded", "File too large"),
)
MEMORY = Shortage(
    "out of memory",
    "use fewer rows or columns, or a machine with more memory: `gpupipe plan` estimates the memory of a run, "
    "`ulimit -v` shows the limit of this process",
    (errno.ENOMEM,),
    ("failed to map segment from shared object", "Cannot allocate memory", "std::bad_alloc"),
    (MemoryError,),
)
THREADS = Shortage(
    "cannot start another thread or process",
    "raise the limits of the user, process or container (`ulimit -u`, `ulimit -v`), or set GPUPIPE_THREADS=1",
    (errno.EAGAIN,),
    ("can't start new thread", "Failed to launch worker thread", "Resource temporarily unavailable"),
)
OPEN_FILES = Shortage("too many open files", "raise the limit: `ulimit -n 4096`", (errno.EMFILE, errno.ENFILE))
SHORTAGES = (DISK, MEMORY, THREADS, OPEN_FILES)

UNUSABLE = (
    errno.ENOENT,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOTEMPTY,
    errno.EXDEV,
    errno.EBUSY,
    errno.ETXTBSY,
    errno.EMLINK,
)
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)  # a rename failed because another process created the folder
FAILED = (errno.EIO, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.EREMOTEIO)


def is_full(error: BaseException) -> bool:
    """Return whether an error or one of its causes reports a full disk."""
    return any(DISK.explains(each) for each in _chain(error))


def shortage(error: BaseException, of: Sequence[Shortage] = SHORTAGES) -> LimitError | None:
    """Return a LimitError if `error` or one of its causes reports an exhausted resource, else None."""
    for each in _chain(error):
        for resource in of:
            if resource.explains(each):
                reason = getattr(each, "strerror", None) or str(each)
                what = f"{resource.what}: {reason}" if reason and resource is not DISK else resource.what
                return LimitError(what, where=_place(each), fix=resource.fix)
    return None


def memory_shortage(error: BaseException) -> LimitError | None:
    """Return a LimitError if `error` reports a lack of memory and a limit of the process may be the cause, else None.

    Without a limit, the usual cause is a corrupt file that requests more memory than any machine has.
    """
    return shortage(error, (MEMORY,)) if _is_memory_limited() else None


def translate(error: BaseException) -> GpupipeError | None:
    """Return the gpupipe error for an unexpected exception; None if it is a bug.

    >>> print(translate(OSError(errno.EROFS, "Read-only file system", "/mnt/scores.csv")))
    cannot use this path: Read-only file system
      where: /mnt/scores.csv
      to do: check the path and its permissions, or choose another path
    """
    if (found := shortage(error)) is not None:
        return found
    # Native code that gets no memory often fails without an exception, which is a message of Python in a SystemError.
    if isinstance(error, SystemError) and "without" in str(error) and _is_memory_limited():
        return LimitError(f"{MEMORY.what}: {error}", fix=MEMORY.fix)
    # A message of pathlib, which raises a plain RuntimeError.
    if isinstance(error, RuntimeError) and "determine home directory" in str(error):
        fix = "set HOME, or set GPUPIPE_CACHE and NUMBA_CACHE_DIR and write absolute paths instead of ~"
        return ConfigError("this user has no home directory", fix=fix)
    # A message of zipfile, which model files and archives of arrays are written with.
    if isinstance(error, ValueError) and "ZIP does not support timestamps" in str(error):
        return ConfigError("the clock of this machine is before 1980", fix="set the clock, then run the command again")
    if not isinstance(error, OSError):
        return None
    if error.errno in UNUSABLE:
        what = f"cannot use this path: {error.strerror}"
        fix = "check the path and its permissions, or choose another path"
        return ConfigError(what, where=_place(error), fix=fix)
    if error.errno in FAILED:
        what, fix = f"a disk or network share failed: {error.strerror}", "check it, then rerun the same command"
        return DataError(what, where=_place(error), fix=fix)
    return None


def _is_memory_limited() -> bool:
    try:
        import resource
    except ImportError:  # Windows
        return False
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(each)[0] != resource.RLIM_INFINITY for each in limits)


def _chain(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _place(error: BaseException) -> str:
    names = (getattr(error, "filename", None), getattr(error, "filename2", None))
    return " and ".join(str(name) for name in names if name is not None)
