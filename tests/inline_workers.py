"""Workers in this process, for tests that need no cluster."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle

from gpupipe.backends.base import Backend
from gpupipe.partitions.workers import Result, ResultHandle, Workers


@dataclass(frozen=True, eq=False)
class InlineHandle(ResultHandle[Result]):
    """A result in this process."""

    result: Result


class InlineWorkers(Workers):
    """Workers of this process, which run every task at once and raise its errors.

    Parameters
    ----------
    backend : Backend
    n_workers : int
        The number that they claim to be.
    copies : bool
        Whether functions, arguments and results are pickled, as for workers in other processes.
    """

    def __init__(self, backend: Backend, n_workers: int = 1, *, copies: bool = False) -> None:
        self.backend, self.n_workers, self.n_threads, self.copies = backend, n_workers, n_workers, copies

    def map(
        self, function: Callable[..., Result], each: Iterable[Sequence[Any]], labels: Sequence[str]
    ) -> list[ResultHandle[Result]]:
        """See `Workers.map`."""
        return [self._run(function, arguments) for arguments, _ in zip(each, labels, strict=True)]

    def gather(self, handles: Iterable[ResultHandle[Result]]) -> list[Result]:
        """See `Workers.gather`."""
        return [handle.result for handle in handles if isinstance(handle, InlineHandle)]

    def partitions(self, collection: Any) -> list[ResultHandle[Any]]:
        """See `Workers.partitions`; Dask computes them in this thread."""
        return [self.put(part.compute(scheduler="sync")) for part in collection.to_delayed()]

    def put(self, value: Any) -> ResultHandle[Any]:
        """See `Workers.put`."""
        return InlineHandle(self._sent(value))

    def _run(self, function: Callable[..., Result], arguments: Sequence[Any]) -> ResultHandle[Result]:
        given = [a.result if isinstance(a, InlineHandle) else self._sent(a) for a in arguments]
        return self.put(self._sent(function)(self.backend, *given))

    def _sent(self, value: Any) -> Any:
        return pickle.loads(cloudpickle.dumps(value)) if self.copies else value
