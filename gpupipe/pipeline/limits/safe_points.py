"""Safe points of a run, at which it may stop early: between stages, and inside a stage where it can resume."""

from __future__ import annotations

from collections.abc import Callable


class StopSignal:
    """Request to stop a run, checked at every safe point.

    A safe point is the beginning of a stage (`gpupipe.pipeline.timeline.Timeline` checks there, except for stages whose
    predecessor has no checkpoint yet) and, inside a training, the end of an epoch or of a round of XGBoost
    (``Resources.safe_point``): whatever can be saved has been saved by then.
    """

    def __init__(self) -> None:
        self._asked: BaseException | None = None
        self._watchers: list[Callable[[str], None]] = []

    def request(self, error: BaseException) -> None:
        """Have the next safe point raise `error`; may be called by a signal handler. The first request wins."""
        self._asked = self._asked or error

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Call ``watcher(where)`` at every safe point from now on; it raises if the run has to stop."""
        self._watchers.append(watcher)

    def check(self, where: str) -> None:
        """Raise if the run has to stop; `where` names the safe point ("before train xgboost")."""
        if self._asked is not None:
            raise self._asked
        for watcher in self._watchers:
            watcher(where)
