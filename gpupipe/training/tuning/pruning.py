"""Pruning: a trial ends early if it is worse than the median of the finished trials at the same point.

The points are the folds, by the mean metric so far, and steps of the training on the first fold, by the loss of its
held-out rows. Boosting steps are counted in rounds × learning rate, because a trial with half the learning rate needs
about twice the rounds (Friedman, 2001): by rounds alone, the median would end slow learners, which often do best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import optuna

from gpupipe.models import ModelSettings
from gpupipe.models.context import Resources
from gpupipe.models.progress import ProgressReport, ReadProgress, show_nothing

LEAST_EPOCHS = 5
LOSSES = ("loss", "logloss", "mlogloss", "rmse")  # metrics of progress reports that are comparable between trials


class CurvePruner:
    """Observer of one training, which prunes its trial by the losses of the held-out rows.

    `trial` receives the losses. `safe_point` is called at each safe point of the training, before the comparison.
    `curve` has the steps and losses so far.
    """

    def __init__(self, trial: optuna.Trial, settings: ModelSettings, safe_point: Callable[[str], None]) -> None:
        self.trial = trial
        self.settings = settings
        self.safe_point = safe_point
        self.curve: list[tuple[int, float]] = []
        self._read: ReadProgress = lambda: None

    def resources(self, resources: Resources) -> Resources:
        """Return the resources of a training that this pruner observes."""
        return replace(resources, safe_point=self._check, show_progress=self._observe)

    def _observe(self, read: ReadProgress) -> AbstractContextManager[None]:
        self._read = read
        return show_nothing(read)

    def _check(self, where: str) -> None:
        self.safe_point(where)
        report = self._read()
        step = None if report is None else step_of(report, self.settings)
        if report is None or step is None or report.metric is None:
            return
        if self.curve and step <= self.curve[-1][0]:
            return
        self.curve.append((step, report.metric))
        self.trial.report(report.metric, step)
        if self.trial.should_prune():
            raise optuna.TrialPruned


def step_of(report: ProgressReport, settings: ModelSettings) -> int | None:
    """Return the step of a training in the scale of all trials, or None before the first one.

    Rounds: each doubling of rounds × learning rate, from 1. Epochs: their number, from 5.
    """
    if report.metric_name.rpartition(" ")[2] not in LOSSES:
        return None
    if report.unit == "epoch":
        return report.done if report.done >= LEAST_EPOCHS else None
    learned = report.done * float(getattr(settings, "learning_rate", 1.0))
    return int(math.log2(learned)) if learned >= 1.0 else None
