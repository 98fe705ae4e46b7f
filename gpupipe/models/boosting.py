"""Settings and rounds that the libraries of gradient boosting share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self

from gpupipe.models.base import ModelSettings, choose_for_task
from gpupipe.models.context import LEAST_ROUNDS, DeadlineReached
from gpupipe.models.progress import ProgressReport
from gpupipe.tasks import Task


class BoostingSettings(ModelSettings):
    """Settings of gradient-boosted trees, whose subclasses have the fields of a library.

    `losses` are the losses of each task, the first for ``"auto"``. The other class attributes are the library's names
    of the fields with the loss, the quantile that is predicted, and the number of rounds. `name` is that of the model.
    `cells_per_thread` is the least number of cells of the matrix for each of several threads.
    """

    view = "codes"
    accepts_missing = True
    name: ClassVar[str]
    losses: ClassVar[Mapping[Task, Sequence[str]]]
    loss_field: ClassVar[str] = "objective"
    quantile_field: ClassVar[str] = "quantile"
    rounds_field: ClassVar[str] = "n_estimators"
    # Threads wait for each other several times per tree. Measured with 1 and 2 threads on 1,000 to 100,000 rows of 6 to
    # 100 columns: below twice these cells 2 threads save no time; they need up to 3.5 times the CPU time, and on a busy
    # machine up to 10 times the wall time.
    cells_per_thread: ClassVar[int] = 1

    def training_threads(self, n_threads: int, n_cells: int) -> int:
        return max(1, min(n_threads, n_cells // self.cells_per_thread))

    def loss_for(self, task: Task) -> str:
        """Return the loss for a task; raise ConfigError if the stated one belongs to another task."""
        return choose_for_task(self.name, self.loss_field, getattr(self, self.loss_field), self.losses, task)

    def for_quantile(self, level: float) -> Self:
        return self.model_copy(update={self.loss_field: self.loss_for("quantile"), self.quantile_field: level})

    def stops_early(self, n_rows: int) -> bool:
        return getattr(self, "early_stopping_rounds", None) is not None

    def with_rounds(self, n_rounds: int | None) -> Self:
        rounds = n_rounds or getattr(self, self.rounds_field)
        return self.model_copy(update={self.rounds_field: rounds, "early_stopping_rounds": None})


class BoosterProgress:
    """Progress of one training, round by round.

    `safe_point` is called after each round; it stops the training by raising. With early stopping, a deadline ends the
    training after the round.
    """

    def __init__(self, n_rounds: int, may_end_early: bool, safe_point: Callable[[str], None]) -> None:
        self.n_rounds = n_rounds
        self.may_end_early = may_end_early
        self.safe_point = safe_point
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
