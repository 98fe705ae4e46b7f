"""File-backed values: arrays and Arrow tables are written as they are in memory, and memory-mapped when loaded."""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import shutil
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from gpupipe.backends.cpu.memory import ALIGNMENT
from gpupipe.errors import LimitError
from gpupipe.units import GIB, KIB

KEPT_IN_MEMORY = 64 * KIB  # bytes that are no file's worth


class FileStore:
    """A folder of values that only this process writes and reads; see `FileBackedValue`.

    Parameters
    ----------
    folder : Path
        Of this store alone.

    Attributes
    ----------
    n_bytes, peak_bytes : int
        On the disk now, and at most.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.n_bytes = self.peak_bytes = self._n_files = 0

    def save(self, value: Any) -> FileBackedValue | None:
        """Return `value` written to a file, None if it is too small for one.

        The file is there as long as the result is referred to. What is read from it cannot be written to.

        Raises
        ------
        LimitError
            If the disk has no room for it.
        """
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        raw = [memoryview(head), *(buffer.raw() for buffer in buffers)]
        n_bytes = sum(part.nbytes for part in raw)
        if n_bytes < KEPT_IN_MEMORY:
            return None
        self._n_files += 1
        path = self.folder / f"{self._n_files}.kept"
        kept = FileBackedValue(path, self._write(path, raw))
        weakref.finalize(kept, self._forget, path, n_bytes)
        self.n_bytes += n_bytes
        self.peak_bytes = max(self.peak_bytes, self.n_bytes)
        return kept

    def _write(self, path: Path, raw: Sequence[memoryview]) -> tuple[tuple[int, int], ...]:
        """Write buffers one behind the other; return where each begins and ends."""
        spans = []
        try:
            with path.open("wb", buffering=0) as file:
                for part in raw:
                    start = -(-file.tell() // ALIGNMENT) * ALIGNMENT
                    file.seek(start)
                    _write_all(file.fileno(), part)
                    spans.append((start, start + part.nbytes))
        except OSError as error:
            path.unlink(missing_ok=True)
            raise self._told(error, sum(part.nbytes for part in raw)) from error
        return tuple(spans)

    def _told(self, error: OSError, n_bytes: int) -> Exception:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return error
        free = shutil.disk_usage(self.folder).free
        return LimitError(
            f"the disk is full: {n_bytes / GIB:.2f} GiB more, beside {self.n_bytes / GIB:.2f} GiB, are to be kept "
            f"there, and {free / GIB:.2f} GiB are free",
            where=str(self.folder),
            fix="make room, name an --output on a larger disk, or raise limits.memory: less is then kept on the disk",
        )

    def _forget(self, path: Path, n_bytes: int) -> None:
        path.unlink(missing_ok=True)
        self.n_bytes -= n_bytes


@dataclass(frozen=True, eq=False)
class FileBackedValue:
    """A value in a file.

    Attributes
    ----------
    path : Path
    spans : tuple of (int, int)
        The bytes of its pickled head, and of each of the buffers that the head refers to.
    """

    path: Path
    spans: tuple[tuple[int, int], ...]

    def load(self) -> Any:
        """Return the value; its arrays are read-only maps of the file, which stay valid when that is gone."""
        with self.path.open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        head, *buffers = [whole[start:stop] for start, stop in self.spans]
        return pickle.loads(head, buffers=buffers)


def _write_all(file: int, part: memoryview) -> None:
    """Write a buffer of any size: one call writes 2 GiB at most."""
    flat = part.cast("B")
    ends = [*range(0, flat.nbytes, GIB), flat.nbytes]
    for start, stop in pairwise(ends):
        while start < stop:
            start += os.write(file, flat[start:stop])
