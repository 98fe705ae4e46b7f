"""Context and resources of a model fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.models.progress import ShowProgress, show_nothing
from gpupipe.tasks import TargetSpec, Task, View

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.models.base import BestRound
    from gpupipe.models.continuation import StartingModel
    from gpupipe.models.fitted.seen_rows import SeenRows
    from gpupipe.typing import Array


class DeadlineReached(Exception):
    """Raised by a safe point once the time of one training is over.

    A training that stops early by held-out rows ends there, with the best of at least `LEAST_ROUNDS` rounds or of one
    epoch. Other trainings fail with this error.
    """


LEAST_ROUNDS = 10
"""Rounds of boosting without which a training that reaches its deadline has no result."""


def never_stop(where: str) -> None:
    """Default safe-point callback: do nothing."""


class TimedSafePoint:
    """Safe point of a training with a deadline, which it may plan its epochs by."""

    def __call__(self, where: str) -> None:
        """Raise DeadlineReached after the deadline, or the error that stops the run."""

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline; infinite without one."""
        return math.inf


def ignore_trial(trial: object, metric: str) -> None:
    """Default callback of a search: do nothing."""


def ignore_rounds(found: BestRound) -> None:
    """Default callback of early stopping: do nothing."""


@dataclass(frozen=True)
class Resources:
    """Resources of a training run."""

    n_processes: int = 1
    # Checkpoint file; its name identifies everything the training depends on. None: no checkpoints.
    checkpoint: Path | None = None
    resume: bool = False
    # Called where a training can stop, with a text such as "after epoch 3"; stops it by raising. After
    # `DeadlineReached`, early stopping keeps the best round so far.
    safe_point: Callable[[str], None] = never_stop
    # Takes a function that returns a `ProgressReport`, and displays it during the ``with`` block.
    show_progress: ShowProgress = show_nothing
    # Called with each finished trial of a search, a `TriedModel`, and the name of its metric.
    report_trial: Callable[[object, str], None] = ignore_trial


ONE_PROCESS = Resources()
"""The default resources: one process, no checkpoint."""


@dataclass(frozen=True)
class ValidationRows:
    """Rows that a model is not trained on; early stopping chooses the round or epoch by them."""

    # float32, shape (n, d), column-major: on the device of the backend; for a matrix in partitions, another one on the
    # same workers.
    X: Any
    y: Any  # shape (n,) or (n, n_targets): class codes or numbers, as the training rows have them; on the host
    weights: Array | None = None  # float, shape (n,)
    groups: Array | None = None  # shape (n,): of a ranking: the group of each row, on the host


@dataclass(frozen=True)
class FitContext:
    """Context of a model fit: everything except the model settings and the matrix."""

    backend: Backend
    task: Task
    seed: int
    n_classes: int = 0
    # Position of a categorical column to its number of codes; empty in the dense view.
    categorical: Mapping[int, int] = field(default_factory=dict)
    feature_names: Sequence[str] = ()
    # Label of each class code, for ``class_weight``; empty if the labels are the codes.
    class_labels: Sequence[str] = ()
    resources: Resources = ONE_PROCESS
    # Rows for early stopping. None: a model that stops early holds out some of its rows, and is then trained again on
    # all of them for the number of rounds or epochs that it found.
    validation: ValidationRows | None = None
    # groups, times: shape (n,): values of the columns ``split.group`` and ``split.time`` of the training rows,
    # on the host: rows that are held out of them have other groups, or later times. The rows of a group are ranked.
    groups: Array | None = None
    times: Array | None = None
    # float64, shape (n,): weight of each training row (``source.weight``), on the host; None if all rows weigh 1. Class
    # weights are not among them.
    weights: Array | None = None
    metric: str = ""  # name of the metric that ranks candidates; empty outside of a run
    quantiles: Sequence[float] = ()  # levels of the task quantile, ascending
    targets: Sequence[TargetSpec] = ()  # the targets of the task multioutput; `y` has a column for each
    # Of a matrix in the combined view: the columns of each view.
    views: Mapping[View, tuple[int, ...]] = field(default_factory=dict)
    # The model whose training continues; None: it starts from zero.
    start: StartingModel | None = None
    # Called with the best round on `validation` once a training has found it.
    report_rounds: Callable[[BestRound], None] = ignore_rounds
    # Called with the prediction of each row by the trees of a forest that were not grown on it, shape (n,), or (n, k)
    # for the classes that occur. None: not computed. Forests with ``bootstrap`` on the CPU only.
    report_out_of_bag: Callable[[Array], None] | None = None

    @property
    def seen_rows(self) -> SeenRows | None:
        """Sums of the rows that a linear model, whose training continues, was trained on."""
        return None if self.start is None else self.start.model.seen_rows

    @property
    def device_backend(self) -> Backend | None:
        """Backend of the device where the predictions are; None on the host."""
        return None if self.backend.name == "cpu" else self.backend

    def of_rows(self, rows: Array) -> FitContext:
        """Return the context of some of the training rows, given as a mask or as row numbers."""
        columns = (self.groups, self.times, self.weights)
        groups, times, weights = (None if column is None else column[rows] for column in columns)
        return replace(self, groups=groups, times=times, weights=weights)
