"""XGBoost callback: progress and a safe point after each round."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import xgboost.collective
from xgboost.callback import TrainingCallback

from gpupipe.models.boosting import BoosterProgress
from gpupipe.models.context import never_stop
from gpupipe.models.progress import ProgressReport


class BoostingRounds(TrainingCallback):  # type: ignore[misc]
    """Progress of one XGBoost training, round by round.

    `safe_point` is as in `BoosterProgress`. `send` is called with each report, in a distributed training on rank 0.
    """

    def __init__(
        self,
        n_rounds: int,
        may_end_early: bool,
        safe_point: Callable[[str], None] = never_stop,
        send: Callable[[ProgressReport], None] | None = None,
    ) -> None:
        super().__init__()
        self.progress, self.send = BoosterProgress(n_rounds, may_end_early, safe_point), send

    def before_training(self, model: Any) -> Any:
        """Report that the first round has started; binning is complete."""
        self.progress.start()
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Report the round, call the safe point, and return whether the training must end here."""
        # The last metric decides early stopping; on workers its values are NumPy arrays.
        last = list(chain.from_iterable(history.items() for history in evals_log.values()))[-1:]
        found = [(metric, float(values[-1])) for metric, values in last]
        is_over = self.progress.advance(epoch + 1, *(found[0] if found else ()))
        if self.send is not None and (report := self.read()) is not None and xgboost.collective.get_rank() == 0:
            self.send(report)
        return is_over

    def read(self) -> ProgressReport | None:
        """Return the progress; None before the first round."""
        return self.progress.read()
