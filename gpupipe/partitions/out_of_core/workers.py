"""Workers of this very process that keep what they make in files: how a run is made whose rows do not fit into memory.

It is a cluster of one: the partitions, the statistics and the interpreters are those of any other, and so are the bits
that come out. One partition is in memory at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Concatenate

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.models.progress import ProgressReport
from gpupipe.partitions.out_of_core.file_backed import Kept, Shelf
from gpupipe.partitions.workers import Handle, Result, Workers, WorkerUse, pass_progress

PREFIX = ".partitions-"
NAME = "this process"


@dataclass(frozen=True, eq=False)
class _OnShelf(Handle[Result]):
    """A result in a file, or a small one in memory."""

    value: Any

    def load(self) -> Any:
        return self.value.load() if isinstance(self.value, Kept) else self.value


class OnDisk(Workers):
    """This process, one task after the other with all its threads; results lie in files. See `on_disk`.

    Parameters
    ----------
    backend : Backend
    shelf : Shelf
    reason : str
        Why the rows are not kept in memory, in words.
    """

    n_workers = n_threads = 1
    label = "one partition at a time, the others on the disk"

    def __init__(self, backend: Backend, shelf: Shelf, reason: str = "") -> None:
        self.backend, self.shelf, self.reason = backend, shelf, reason
        self._tasks, self._seconds = 0, 0.0
        self._progress: ProgressReport | None = None

    def submit(
        self,
        function: Callable[Concatenate[Backend, ...], Result],
        *arguments: Any,
        worker: int | None = None,
        label: str = "",
    ) -> Handle[Result]:
        """See `Workers.submit`: it is run at once, and an error comes out of here."""
        start = time.perf_counter()
        result = function(self.backend, *[a.load() if isinstance(a, _OnShelf) else a for a in arguments])
        handle: _OnShelf[Result] = self._kept(result)
        del result
        pa.default_memory_pool().release_unused()  # what was read would else stay with Arrow beside the next partition
        self._tasks, self._seconds = self._tasks + 1, self._seconds + time.perf_counter() - start
        return handle

    def map(
        self,
        function: Callable[Concatenate[Backend, ...], Result],
        each: Iterable[Sequence[Any]],
        labels: Sequence[str],
    ) -> list[Handle[Result]]:
        """See `Workers.map`: one after the other."""
        handles: list[Handle[Result]] = []
        for arguments, label in zip(each, labels, strict=True):
            self._progress = pass_progress(label, len(handles), len(labels))
            handles.append(self.submit(function, *arguments, label=label))
        self._progress = None
        return handles

    def progress(self) -> ProgressReport | None:
        """See `Workers.progress`."""
        return self._progress

    def gather(self, handles: Iterable[Handle[Result]]) -> list[Result]:
        """See `Workers.gather`; arrays are maps of the files."""
        return [handle.load() for handle in handles if isinstance(handle, _OnShelf)]

    def put(self, value: Any) -> Handle[Any]:
        """See `Workers.put`; it stays in memory, where it is anyway."""
        return _OnShelf(value)

    def usage(self) -> list[WorkerUse]:
        """See `Workers.usage`."""
        peak, spilled = self.backend.memory().peak, self.shelf.n_bytes
        return [WorkerUse(NAME, self._tasks, self._seconds, 0, spilled, peak)]

    def homes(self, handles: Any) -> list[str]:
        """See `Workers.homes`."""
        return [NAME for _ in handles]

    def _kept(self, result: Any) -> _OnShelf[Any]:
        kept = self.shelf.keep(result)
        return _OnShelf(result if kept is None else kept)


@contextmanager
def on_disk(backend: Backend, reason: str, folder: Path) -> Iterator[OnDisk]:
    """Yield workers that keep their results in a new folder, which is gone afterwards.

    Parameters
    ----------
    backend : Backend
        The host's.
    reason : str
        Why the rows are not kept in memory.
    folder : Path
        Where the new folder is made.
    """
    with TemporaryDirectory(prefix=PREFIX, dir=folder) as name:
        yield OnDisk(backend, Shelf(Path(name)), reason)
