"""Rounds of boosting libraries with plain callbacks: progress and safe points."""

from __future__ import annotations

from collections.abc import Callable

from gpupipe.models.context import LEAST_ROUNDS, DeadlineReached
from gpupipe.models.progress import ProgressReport


class BoosterProgress:
    """Progress of one training, round by round.

    Parameters
    ----------
    safe_point : callable
        Called after each round; stops the training by raising. With early stopping, a deadline ends it after the round.
    """

    def __init__(self, n_rounds: int, may_end_early: bool, safe_point: Callable[[str], None]) -> None:
        self.n_rounds, self.may_end_early, self.safe_point = n_rounds, may_end_early, safe_point
        self.latest: ProgressReport | None = None

    def start(self) -> None:
        """Report that the first round has started."""
        self.latest = ProgressReport(0, self.n_rounds, "round", self.may_end_early)

    def advance(self, done: int, metric: str = "", value: float | None = None) -> bool:
        """Report the rounds that are complete, call the safe point, and return whether the training must end here."""
        name = f"validation {metric}" if metric else ""
        self.latest = ProgressReport(done, self.n_rounds, "round", self.may_end_early, name, value)
        try:
            self.safe_point(f"after round {done}")
        except DeadlineReached:
            if not self.may_end_early or done < LEAST_ROUNDS:
                raise
            return True
        return False

    def read(self) -> ProgressReport | None:
        """Return the progress; None before the end of the first round."""
        return self.latest
