"""Callback of XGBoost's trainings: progress and a safe point after each round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import xgboost.collective
from xgboost.callback import TrainingCallback

from gpupipe.models.context import never_stop
from gpupipe.models.progress import ProgressReport


class BoostingRounds(TrainingCallback):  # type: ignore[misc]
    """Count the rounds of one training.

    Parameters
    ----------
    n_rounds : int
        Rounds that the training has at most.
    may_end_early : bool
        Whether it stops early.
    safe_point : callable
        Called after each round; what it raises ends the training.
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
        """Report the first round as begun: the matrix is binned by now."""
        self.latest = self._report(0, {})
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Report the round, then raise what `safe_point` raises."""
        self.latest = self._report(epoch + 1, evals_log)
        if self.send is not None and xgboost.collective.get_rank() == 0:
            self.send(self.latest)
        self.safe_point(f"after round {epoch + 1}")
        return False

    def read(self) -> ProgressReport | None:
        """Return the progress; None before the first round begins."""
        return self.latest

    def _report(self, done: int, history: Mapping[str, Mapping[str, list[float]]]) -> ProgressReport:
        name, value = "", None
        for metrics in history.values():
            for metric, values in metrics.items():
                # The last one decides when XGBoost stops early; on workers it is an array of NumPy.
                name, value = f"validation {metric}", float(values[-1])
        return ProgressReport(done, self.n_rounds, "round", self.may_end_early, name, value)
