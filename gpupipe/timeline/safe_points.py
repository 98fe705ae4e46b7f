"""Safe points of a run, at which it may stop and resume later: between stages, and inside resumable stages."""

from __future__ import annotations

from collections.abc import Callable


class StopSignal:
    """Request to stop a run, checked at every safe point.

    Safe points are the start of a stage (`gpupipe.timeline.timeline.Timeline` checks it, except after stages without a
    checkpoint yet) and, during training, the end of an epoch or of an XGBoost round (``Resources.safe_point``). By
    then, all checkpoints have been written.
    """

    def __init__(self) -> None:
        self._asked: BaseException | None = None
        self._watchers: list[Callable[[str], None]] = []

    def request(self, error: BaseException) -> None:
        """Raise `error` at the next safe point; may be called from a signal handler. The first request wins."""
        self._asked = self._asked or error

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Call ``watcher(where)`` at every safe point from now on; it raises an exception to stop the run."""
        self._watchers.append(watcher)

    def check(self, where: str) -> None:
        """Raise an exception if the run must stop; `where` names the safe point ("before train xgboost")."""
        if self._asked is not None:
            raise self._asked
        for watcher in self._watchers:
            watcher(where)
