"""Out-of-core workers: this process, with one partition in memory at a time and all results in files.

A run whose rows exceed memory uses them as a cluster of one worker: partitions, statistics and interpreters are those
of any other cluster, and results are equal to the bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.partitions.out_of_core.file_backed import FileBackedValue, FileStore
from gpupipe.partitions.workers import Result, ResultHandle, Workers, WorkerUsage, pass_progress

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
