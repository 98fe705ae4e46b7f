"""XGBoost callback: progress and a safe point after each round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import xgboost.collective
from xgboost.callback import TrainingCallback

from gpupipe.models.context import never_stop
from gpupipe.models.progress import ProgressReport


class BoostingRounds(TrainingCallback):  # type: ignore[misc]
    """Progress of one XGBoost training, round by round.

    Parameters
    ----------
    n_rounds : int
        Maximum number of rounds.
    may_end_early : bool
        Whether early stopping is on.
    safe_point : callable
        Called after each round; stops the training by raising.
    send : callable, optional
        Called with each report, on rank 0 of a distributed training only.
    """

    def __init__(
        self,
        n_rounds: int,
        may_end_early: bool,
        safe_point: Callable[[str], None] = never_stop,
        send: Callable[[ProgressReport], None] | None = None,
    ) -> None:
        super().__init__()
        self.n_rounds, self.may_end_early, self.safe_point, self.send = n_rounds, may_end_early, safe_point, send
        self.latest: ProgressReport | None = None

    def before_training(self, model: Any) -> Any:
        """Report that the first round has started; binning is complete."""
        self.latest = self._report(0, {})
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Report the round, then call the safe point."""
        self.latest = self._report(epoch + 1, evals_log)
        if self.send is not None and xgboost.collective.get_rank() == 0:
            self.send(self.latest)
        self.safe_point(f"after round {epoch + 1}")
        return False

    def read(self) -> ProgressReport | None:
        """Return the progress; None before the first round."""
        return self.latest

    def _report(self, done: int, history: Mapping[str, Mapping[str, list[float]]]) -> ProgressReport:
        name, value = "", None
        for metrics in history.values():
            for metric, values in metrics.items():
                # The last metric decides early stopping; on workers its values are NumPy arrays.
                name, value = f"validation {metric}", float(values[-1])
        return ProgressReport(done, self.n_rounds, "round", self.may_end_early, name, value)
