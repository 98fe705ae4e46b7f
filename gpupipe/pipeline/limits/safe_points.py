"""Where a run that should end early ends: between stages, and inside a stage where it can go on later."""

from __future__ import annotations

from collections.abc import Callable


class Stopping:
    """Asked at every safe point of a run whether it should go on.

    A safe point is the beginning of a stage (`gpupipe.pipeline.timeline.Timeline` asks there, but for stages whose
    predecessor is not kept yet) and, inside a training, the end of an epoch or of a round of XGBoost
    (``Resources.safe_point``): whatever can be kept has been kept by then.
    """

    def __init__(self) -> None:
        self._asked: BaseException | None = None
        self._watchers: list[Callable[[str], None]] = []

    @property
    def asked(self) -> bool:
        """Whether the run has been asked to stop."""
        return self._asked is not None

    def ask(self, error: BaseException) -> None:
        """Have the next safe point raise `error`; may be called by a signal handler. The first one asked for stays."""
        self._asked = self._asked or error

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Call ``watcher(where)`` at every safe point from now on; it raises if the run has to stop."""
        self._watchers.append(watcher)

    def check(self, where: str) -> None:
        """Be at a safe point, which `where` names ("before train xgboost"): raise what stops the run, if anything."""
        if self._asked is not None:
            raise self._asked
        for watcher in self._watchers:
            watcher(where)
