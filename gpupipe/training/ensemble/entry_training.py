"""Training of the models of an entry of the portfolio: one for each fold, or one forest; or from checkpoints."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Protocol

import numpy as np

from gpupipe.models.context import DeadlineReached, TimedSafePoint
from gpupipe.splits import Fold
from gpupipe.training.ensemble.fold_training import EnsembleRows, FoldModel
from gpupipe.training.ensemble.portfolio import FORESTS, PortfolioEntry
from gpupipe.training.ensemble.time_limit import TrainingTime
from gpupipe.training.side_by_side import run_together

SHARE_OF_TREES = 10  # one of ten trees, to predict the cost of a forest
MEASURED_ROWS = 10_000  # below that many, the cost is not predicted but measured


class FoldModelStore(Protocol):
    """Checkpoints of the models of folds."""

    def load(self, entry: PortfolioEntry, fold: Fold, seed: int) -> FoldModel | None:
        """Return the model that an interrupted run has saved, or None."""

    def save(self, entry: PortfolioEntry, fold: Fold, seed: int, trained: FoldModel) -> None:
        """Save a model for a run that resumes this one."""


class NoFoldModels:
    """Store without checkpoints."""

    def load(self, entry: PortfolioEntry, fold: Fold, seed: int) -> FoldModel | None:
        """Return None."""
        return None

    def save(self, entry: PortfolioEntry, fold: Fold, seed: int, trained: FoldModel) -> None:
        """Do nothing."""


@dataclass
class Deadline(TimedSafePoint):
    """Safe point of one training: ends it at a time, and all of them if the run stops.

    `end` is in seconds since the start of the search.
    """

    training: EntryTraining
    end: float
    is_reached: bool = False

    def __call__(self, where: str) -> None:
        """Raise the error that stops the run, or DeadlineReached."""
        self.training.check_stop(where)
        if self.training.time.elapsed > self.end:
            self.is_reached = True
            raise DeadlineReached

    @property
    def seconds_left(self) -> float:
        """Seconds until the training must end."""
        return self.end - self.training.time.elapsed


@dataclass
class EntryTraining:
    """Training of the models of entries.

    `time` gets the measured seconds. `cut` has the labels of models whose rounds or epochs the time limit has ended, in
    order. `n_trained` is the number of models that were trained or loaded. `is_stopped` is true if an error has stopped
    the run.
    """

    rows: EnsembleRows
    time: TrainingTime
    store: FoldModelStore
    cut: dict[str, None] = field(init=False, default_factory=dict)
    n_trained: int = field(init=False, default=0)
    is_stopped: bool = field(init=False, default=False)
    _saving: Lock = field(init=False, default_factory=Lock)

    def train_on_folds(
        self,
        entry: PortfolioEntry,
        folds: Sequence[Fold],
        first: int,
        start: Callable[[int], float],
        *,
        may_be_cut: bool = True,
    ) -> list[FoldModel]:
        """Return the models of some folds: as many as possible are trained at the same time, or loaded.

        `first` is the number of the first fold, for the seeds. `start` is called with the position of a fold before its
        training; it returns the time at which the training must end. If `may_be_cut`, the best round before that time
        is a result. Raise DeadlineReached if a training has no result at its time.
        """
        seeds = [self.rows.context.seed + first + i for i in range(len(folds))]
        found = [self.store.load(entry, fold, seed) for fold, seed in zip(folds, seeds, strict=True)]
        missing = [i for i, each in enumerate(found) if each is None]
        n_at_once = self.rows.n_at_once(entry.settings)
        if loaded := [each.seconds for each in found if each is not None]:
            self.time.add_resumed(max(max(loaded), sum(loaded) / min(n_at_once, len(folds))))
            self.time.add_measured(entry, max(loaded))
            self.n_trained += len(loaded)
        n_threads = max(1, self.rows.context.backend.n_threads // max(1, min(n_at_once, len(missing))))

        def train_fold(i: int) -> None:
            deadline = Deadline(self, start(i))
            begun = self.time.elapsed
            try:
                found[i] = each = self.rows.fit_entry(entry, folds[i], seeds[i], n_threads, deadline)
            except DeadlineReached:
                self.time.add_measured(entry, self.time.elapsed - begun)  # at least
                raise
            self.time.add_measured(entry, self.time.elapsed - begun)
            if deadline.is_reached:  # not saved: a resumed run may have another limit
                if not may_be_cut:
                    raise DeadlineReached
                self.cut[entry.label] = None
            else:
                with self._saving:
                    self.store.save(entry, folds[i], seeds[i], each)
            self.n_trained += 1
            self.check_stop(f"after {first + sum(each is not None for each in found)} folds of {entry.label}")

        run_together([partial(train_fold, i) for i in missing], n_at_once, n_threads)
        return [each for each in found if each is not None]

    def train_forest(self, entry: PortfolioEntry) -> FoldModel:
        """Return a forest of all rows, or load it."""
        every, seed = np.ones(len(self.rows.y), bool), self.rows.context.seed
        found = self.store.load(entry, Fold(every, every), seed)
        if found is None:
            found = self.rows.fit_forest(entry.settings, seed)
            self.store.save(entry, Fold(every, every), seed, found)
        else:
            self.time.add_resumed(found.seconds)
        self.time.add_measured(entry, found.seconds)
        self.n_trained += 1
        self.check_stop(f"after {entry.label}")
        return found

    def measure_few_trees(self, entry: PortfolioEntry, fold: Fold) -> None:
        """Predict the cost of a forest by training a tenth of its trees on all rows, used for nothing else.

        The cost of a forest relative to the other models grows with the rows, and its training cannot be interrupted.
        Fewer rows would take more than their share: the cost of a tree is not proportional to its rows.
        """
        n_rows = len(self.rows.y) if entry.is_out_of_bag else int(fold.train.sum())
        if self.time.limit is None or self.time.is_measured_for(entry) or n_rows < MEASURED_ROWS:
            return
        if entry.name not in FORESTS:
            return
        start, seed = self.time.elapsed, self.rows.context.seed
        settings: Any = entry.settings
        few = settings.model_copy(update={"n_estimators": max(1, settings.n_estimators // SHARE_OF_TREES)})
        with warnings.catch_warnings(action="ignore"):  # rows that all of the few trees were grown on
            if entry.is_out_of_bag:
                self.rows.fit_forest(few, seed)
            else:
                n_threads = max(1, self.rows.context.backend.n_threads // self.rows.n_at_once(few))
                self.rows.fit_fold(few, fold, seed, n_threads, self.check_stop)
        self.time.add_measured(entry, SHARE_OF_TREES * (self.time.elapsed - start))

    def check_stop(self, where: str) -> None:
        """Raise the error that stops the run, if there is one."""
        try:
            self.rows.context.resources.safe_point(where)
        except BaseException:
            self.is_stopped = True  # not an error of one model
            raise
