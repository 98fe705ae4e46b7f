"""Out-of-core workers: this process, with one partition in memory at a time and all results in files.

A run whose rows exceed memory uses them as a cluster of one worker: partitions, statistics and interpreters are those
of any other cluster, and results are equal to the bit.
"""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import shutil
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.backends.cpu.memory import ALIGNMENT
from gpupipe.errors import LimitError
from gpupipe.partitions.workers import Result, ResultHandle, Workers, WorkerUsage, pass_progress
from gpupipe.units import GIB, KIB

KEPT_IN_MEMORY = 64 * KIB  # bytes; smaller values stay in memory

PREFIX = ".partitions-"
NAME = "this process"


@dataclass(frozen=True, eq=False)
class _FileHandle(ResultHandle[Result]):
    """Result in a file, or in memory if it is small."""

    value: Any

    def load(self) -> Any:
        return self.value.load() if isinstance(self.value, FileBackedValue) else self.value


class OutOfCoreWorkers(Workers):
    """This process as a worker that runs one task at a time with all threads; see `out_of_core_workers`.

    `reason` says why rows are not kept in memory.
    """

    n_workers = n_threads = 1
    label = "one partition at a time, the others on disk"

    def __init__(self, backend: Backend, store: FileStore, reason: str = "") -> None:
        self.backend = backend
        self.store = store
        self.reason = reason
        self._tasks, self._seconds = 0, 0.0

    def map(
        self,
        function: Callable[..., Result],
        each: Iterable[Sequence[Any]],
        labels: Sequence[str],
    ) -> list[ResultHandle[Result]]:
        """See `Workers.map`: tasks run immediately, one after the other, and errors are raised here."""
        handles: list[ResultHandle[Result]] = []
        for arguments, label in zip(each, labels, strict=True):
            self._progress = pass_progress(label, len(handles), len(labels))
            handles.append(self._run(function, arguments))
        self._progress = None
        return handles

    def gather(self, handles: Iterable[ResultHandle[Result]]) -> list[Result]:
        """See `Workers.gather`; arrays are maps of the files."""
        return [handle.load() for handle in handles if isinstance(handle, _FileHandle)]

    def put(self, value: Any) -> ResultHandle[Any]:
        """See `Workers.put`; the value stays in memory."""
        return _FileHandle(value)

    def usage(self) -> list[WorkerUsage]:
        """See `Workers.usage`."""
        peak, spilled = self.backend.memory().peak, self.store.n_bytes
        return [WorkerUsage(NAME, self._tasks, self._seconds, 0, spilled, peak)]

    def homes(self, handles: Sequence[Any]) -> list[str]:
        """See `Workers.homes`."""
        return [NAME for _ in handles]

    def _run(self, function: Callable[..., Result], arguments: Sequence[Any]) -> _FileHandle[Result]:
        start = time.perf_counter()
        result = function(self.backend, *[a.load() if isinstance(a, _FileHandle) else a for a in arguments])
        saved = self.store.save(result)
        handle: _FileHandle[Result] = _FileHandle(result if saved is None else saved)
        del result
        pa.default_memory_pool().release_unused()  # Arrow would cache this memory while the next partition is read
        self._tasks, self._seconds = self._tasks + 1, self._seconds + time.perf_counter() - start
        return handle


@contextmanager
def out_of_core_workers(backend: Backend, reason: str, folder: Path) -> Iterator[OutOfCoreWorkers]:
    """Yield workers that keep results in a new folder in `folder`, which is removed on exit.

    `backend` is the host's; `reason` says why rows are not kept in memory.
    """
    with TemporaryDirectory(prefix=PREFIX, dir=folder) as name:
        yield OutOfCoreWorkers(backend, FileStore(Path(name)), reason)


class FileStore:
    """Folder of values that only this process writes and reads; see `FileBackedValue`.

    Only this store uses `folder`. `n_bytes` and `peak_bytes` are the current and peak use of the disk.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.n_bytes = self.peak_bytes = self._n_files = 0

    def save(self, value: Any) -> FileBackedValue | None:
        """Return `value` written to a file, or None if it is too small.

        The file exists as long as the result is referenced. Arrays loaded from it are read-only. Raise LimitError if
        the disk is full.
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
        """Write buffers in sequence; return the start and the end of each."""
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
            f"the disk is full: {n_bytes / GIB:.2f} GiB are needed in addition to {self.n_bytes / GIB:.2f} GiB in use; "
            f"{free / GIB:.2f} GiB are free",
            where=str(self.folder),
            fix="free space, set --output to a larger disk, or raise limits.memory to keep less on disk",
        )

    def _forget(self, path: Path, n_bytes: int) -> None:
        path.unlink(missing_ok=True)
        self.n_bytes -= n_bytes


@dataclass(frozen=True, eq=False)
class FileBackedValue:
    """Value in a file.

    `spans` are the byte ranges of its pickled header and of the buffers that the header refers to.
    """

    path: Path
    spans: tuple[tuple[int, int], ...]

    def load(self) -> Any:
        """Return the value; its arrays are read-only maps of the file, which stay valid after its deletion."""
        with self.path.open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        head, *buffers = [whole[start:stop] for start, stop in self.spans]
        return pickle.loads(head, buffers=buffers)


def _write_all(file: int, part: memoryview) -> None:
    """Write a buffer of any size in calls of at most 2 GiB."""
    flat = part.cast("B")
    ends = [*range(0, flat.nbytes, GIB), flat.nbytes]
    for start, stop in pairwise(ends):
        while start < stop:
            start += os.write(file, flat[start:stop])
