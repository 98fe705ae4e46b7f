"""Search of an ensemble: the models of its portfolio, trained on folds within a time limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from threading import Lock
from typing import Literal, Protocol, TypeVar

import numpy as np

from gpupipe.models import FittedModel
from gpupipe.models.best import Best
from gpupipe.models.context import DeadlineReached
from gpupipe.models.progress import ProgressReport
from gpupipe.models.training import load_library
from gpupipe.pipeline.ensemble.fold_training import EnsembleRows, FoldModel, run_together
from gpupipe.pipeline.ensemble.folds import BaggingFolds, fold_choices, make_folds
from gpupipe.pipeline.ensemble.portfolio import FORESTS, PortfolioEntry
from gpupipe.pipeline.ensemble.scores import HeldOutScore
from gpupipe.pipeline.ensemble.time_limit import TrainingTime
from gpupipe.report.search_record import TriedModel
from gpupipe.splits import Fold
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import Array
from gpupipe.units import format_duration

Trained = TypeVar("Trained")
LEAST_MODELS = 6  # that a time limit should have room for; fewer folds otherwise
REFIT_SHARE = 0.4  # of the time limit, kept if the members are trained again on all rows
OTHER_FOLDS_SHARE = 0.2  # of the time limit, kept if the members are trained on further folds
PROBE_SHARE = 0.35  # of the time limit, for the first folds of the first model, of which no cost is known
MOST_CUT = 2.0  # predicted seconds over available ones, up to which a training that can end early is begun
LONG_SHARE = 0.5  # of the seconds left: models that are predicted to take longer are tried last
SAMPLE = 10  # one of ten rows, to predict the cost of a model
SAMPLED_ROWS = 10_000  # below that many, the cost is not predicted but measured


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
class TriedEntry:
    """A model of the portfolio that was trained on all folds.

    Attributes
    ----------
    entry : PortfolioEntry
    models : tuple of FittedModel
        One for each fold; released if memory is short and the entry is not a member.
    predicted : array of float64, shape (m,) or (m, k)
        Predictions of the rows that the folds hold out, in the order of the table.
    score : float
        Value of the metric.
    n_rounds : int, optional
        Number of rounds that early stopping found on the first fold.
    """

    entry: PortfolioEntry
    models: tuple[FittedModel, ...]
    predicted: Array
    score: float
    n_rounds: int | None = None


@dataclass
class Deadline:
    """Safe point of one training: ends it at a time, and all of them if the run stops.

    Attributes
    ----------
    search : PortfolioSearch
    end : float
        In seconds since the start of the search.
    is_reached : bool
    """

    search: PortfolioSearch
    end: float
    is_reached: bool = False

    def __call__(self, where: str) -> None:
        """Raise the error that stops the run, or DeadlineReached."""
        self.search.check_stop(where)
        if self.search.time.elapsed > self.end:
            self.is_reached = True
            raise DeadlineReached


@dataclass
class PortfolioSearch:
    """Training of the models of a portfolio, in order, as far as the time limit allows.

    Attributes
    ----------
    model : Best
    rows : EnsembleRows
    portfolio : sequence of PortfolioEntry
    score : HeldOutScore
    time : TrainingTime
    store : FoldModelStore
    folds : BaggingFolds
    complete : list of TriedEntry
        The models that were trained on all folds.
    records : dict of str to TriedModel
        All models, by label.
    notes : list of str
    cut : dict of str to None
        Labels of models whose rounds or epochs the time limit has ended, in order.
    ended : str
        Why the search ended.
    is_over : bool
        True once the members are chosen: the time that is left is theirs.
    """

    model: Best
    rows: EnsembleRows
    portfolio: Sequence[PortfolioEntry]
    score: HeldOutScore
    time: TrainingTime
    store: FoldModelStore
    folds: BaggingFolds = field(init=False)
    complete: list[TriedEntry] = field(init=False, default_factory=list)
    records: dict[str, TriedModel] = field(init=False, default_factory=dict)
    notes: list[str] = field(init=False, default_factory=list)
    cut: dict[str, None] = field(init=False, default_factory=dict)
    ended: str = field(init=False, default="the portfolio is complete")
    is_over: bool = field(init=False, default=False)
    _first_error: Exception | None = field(init=False, default=None)
    _is_stopped: bool = field(init=False, default=False)
    _n_trained: int = field(init=False, default=0)
    _choices: list[int] = field(init=False, default_factory=list)
    _saving: Lock = field(init=False, default_factory=Lock)

    def run(self, reason_to_end: Callable[[], str]) -> None:
        """Try all models; `reason_to_end` is called after each, and ends the search unless it is empty.

        Raises
        ------
        GpupipeError
            The error of the first model, if none could be trained.
        """
        self._choices = self._fold_choices()
        self.folds = self._make_folds(self._choices[0])
        postponed: list[PortfolioEntry] = []
        for entry in chain(self.portfolio, postponed):
            if self._is_long(entry) and entry not in postponed:
                postponed.append(entry)  # chain reads it last
                continue
            self._try(entry)
            if reason := reason_to_end():
                self.ended = reason
                break
        if not self.complete:
            self._train_cheapest()
        self.is_over = True

    def _fold_choices(self) -> list[int]:
        context = self.rows.context
        n_groups = None if context.groups is None else len(np.unique(context.groups))
        has_times = context.times is not None and context.groups is None
        choices = fold_choices(len(self.rows.y), self.model.folds, has_times, n_groups)
        return choices

    def _make_folds(self, n_folds: int) -> BaggingFolds:
        context, rows = self.rows.context, self.rows
        classes = rows.y.astype(np.int64) if context.task in CLASSIFICATION else None
        return make_folds(n_folds, len(rows.y), classes, context.groups, context.times, context.seed)

    def _n_waves(self, entry: PortfolioEntry, n_folds: int) -> int:
        return -(-n_folds // min(n_folds, self.rows.n_at_once(entry.settings)))

    def _fit_to_limit(self, entry: PortfolioEntry, trained: list[FoldModel]) -> list[FoldModel]:
        """Reduce the folds if the limit has no room for enough models like the first, of which some folds are trained.

        If there is no room for fewer folds of all rows either, all except the trained ones are postponed. Returns the
        models that can be kept.
        """
        seconds, first = self.time.fold_seconds(entry), self._choices[0]
        fitting = [n for n in self._choices if self._n_waves(entry, n) * seconds * LEAST_MODELS <= self.time.remaining]
        if first in fitting or self.model.folds is not None:
            return trained
        if fitting:
            self.folds = self._make_folds(fitting[0])
            return []
        self.folds = self.folds.first(len(trained))
        return trained

    @property
    def seconds_left(self) -> float:
        """Seconds left for the models of the portfolio, or for the members that are trained again."""
        limit, remaining = self.time.limit, self.time.remaining
        if limit is None or self.is_over:
            return remaining
        kept = REFIT_SHARE if self.folds.is_refit else OTHER_FOLDS_SHARE if self.folds.others else 0.0
        return remaining - limit * kept

    def _try(self, entry: PortfolioEntry) -> None:
        """Train a model on all folds, unless the time limit has no room for it."""
        if self._is_too_long(entry):
            self._skip(entry, 0.0)
            return
        start, is_first = self.time.elapsed, not self.time.is_measured
        try:
            self._measure_on_sample(entry)
            trained = None if self._is_too_long(entry) else self._train_folds(entry)
        except DeadlineReached:
            trained = None
            if is_first and self.model.folds is None:
                self.folds = self.folds.first(1)
        except Exception as error:
            if self._is_stopped:
                raise
            self._first_error = self._first_error or error
            self.notes.append(f"{entry.label} failed and is not a member: {str(error).splitlines()[0]}")
            self._record(entry, "failed", self.time.elapsed - start, 0)
            return
        if trained is None:
            self._skip(entry, self.time.elapsed - start)
        else:
            self._add(entry, trained, self.time.elapsed - start)

    def _is_too_long(self, entry: PortfolioEntry, n_trained: int = 0) -> bool:
        """Return whether the remaining folds of a model do not fit into the time limit.

        Boosting rounds and epochs can end before the best one: most of what they gain comes first.
        """
        seconds = self.time.fold_seconds(entry) * self._n_waves(entry, self.folds.n_folds - n_trained)
        can_be_cut = entry.settings.stops_early(len(self.rows.y))
        return seconds > self.seconds_left * (MOST_CUT if can_be_cut else 1.0)

    def _is_long(self, entry: PortfolioEntry) -> bool:
        """Return whether a model is predicted to take most of what is left, so that shorter ones are tried first."""
        return self.time.fold_seconds(entry) * self._n_waves(entry, self.folds.n_folds) > LONG_SHARE * self.seconds_left

    def _measure_on_sample(self, entry: PortfolioEntry) -> None:
        """Predict the cost of a forest by training one on a tenth of the rows of a fold, used for nothing else.

        The cost of a forest relative to the other models grows with the rows, and its training cannot be interrupted.
        """
        if self.time.limit is None or self.time.is_measured_for(entry) or entry.name not in FORESTS:
            return
        fold, start = self.folds.folds[0], self.time.elapsed
        rows = np.flatnonzero(fold.train)
        if len(rows) < SAMPLED_ROWS:
            return
        generator = np.random.default_rng(self.rows.context.seed)
        train, test = np.zeros_like(fold.train), np.zeros_like(fold.test)
        train[generator.choice(rows, len(rows) // SAMPLE, replace=False)] = True
        test[np.flatnonzero(fold.test)[::SAMPLE]] = True
        n_threads = max(1, self.rows.context.backend.n_threads // self.rows.n_at_once(entry.settings))
        self.rows.fit_fold(entry.settings, Fold(train, test), self.rows.context.seed, n_threads, self.check_stop)
        self.time.add_measured(entry, SAMPLE * (self.time.elapsed - start))

    def _add(self, entry: PortfolioEntry, trained: Sequence[FoldModel], seconds: float) -> None:
        mask = self.folds.predicted
        every = np.zeros((len(mask), *trained[0].predicted.shape[1:]))
        for fold, found in zip(self.folds.folds, trained, strict=True):
            every[fold.test] = found.predicted
        predicted = every[mask]
        score = self.score.value(self.rows.y[mask], predicted)
        models, n_rounds = tuple(found.model for found in trained), trained[0].n_rounds
        self.complete.append(TriedEntry(entry, models, predicted, score, n_rounds))
        self._record(entry, "complete", seconds, len(trained), score)

    def _train_folds(self, entry: PortfolioEntry) -> list[FoldModel] | None:
        """Return a model for each fold, or None if the folds of the first model are predicted to take too long.

        Raises
        ------
        DeadlineReached
            If a fold would end too late for the others, and has nothing to keep.
        """
        trained: list[FoldModel] = []
        load_library(entry.settings, self.rows.context.task, self.rows.context.backend)  # not part of the measured time
        self.rows.matrix(entry.settings.view)
        if self.time.limit is not None and not self.time.is_measured:
            n_at_once = self.rows.n_at_once(entry.settings)
            trained = self._train_some(entry, self.folds.folds[:n_at_once], 0)
            trained = self._fit_to_limit(entry, trained)
            if len(trained) < self.folds.n_folds and self._is_too_long(entry, len(trained)):
                return None
        return trained + self._train_some(entry, self.folds.folds[len(trained) :], len(trained))

    def _train_some(self, entry: PortfolioEntry, folds: Sequence[Fold], first: int) -> list[FoldModel]:
        n_folds = self.folds.n_folds

        def start(position: int) -> float:
            """Return the time at which a fold must end, so that those after it fit into the limit too."""
            if position and self._is_too_long(entry, first + position):
                raise DeadlineReached
            return self.time.elapsed + self._seconds_of_fold(entry, n_folds - first - position)

        return self.train(entry, folds, first, start)

    def _seconds_of_fold(self, entry: PortfolioEntry, n_left: int) -> float:
        """Return the seconds after which a fold must end, the first of those that are left.

        A model that takes longer than predicted leaves time for others.
        """
        n_waves, left = self._n_waves(entry, n_left), self.seconds_left
        if not self.time.is_measured:
            return left * PROBE_SHARE
        is_short = self.time.fold_seconds(entry) * n_waves <= LONG_SHARE * left
        return left * (LONG_SHARE if is_short else 1.0) / n_waves

    def train(
        self, entry: PortfolioEntry, folds: Sequence[Fold], first: int, start: Callable[[int], float]
    ) -> list[FoldModel]:
        """Return the models of some folds: as many as possible are trained at the same time, or loaded.

        Parameters
        ----------
        entry : PortfolioEntry
        folds : sequence of Fold
        first : int
            Number of the first one, for the seeds.
        start : callable
            Called with the position of a fold before its training; returns the time at which it must end.
        """
        seeds = [self.rows.context.seed + first + i for i in range(len(folds))]
        found = [self.store.load(entry, fold, seed) for fold, seed in zip(folds, seeds, strict=True)]
        missing = [i for i, each in enumerate(found) if each is None]
        n_at_once = self.rows.n_at_once(entry.settings)
        if loaded := [each.seconds for each in found if each is not None]:
            self.time.add_resumed(sum(loaded) / n_at_once)
            self.time.add_measured(entry, max(loaded))
            self._n_trained += len(loaded)
        n_threads = max(1, self.rows.context.backend.n_threads // max(1, min(n_at_once, len(missing))))

        def train_fold(i: int) -> None:
            deadline = Deadline(self, start(i))
            begun = self.time.elapsed
            try:
                found[i] = each = self.rows.fit_fold(entry.settings, folds[i], seeds[i], n_threads, deadline)
            except DeadlineReached:
                self.time.add_measured(entry, self.time.elapsed - begun)  # at least
                raise
            self.time.add_measured(entry, self.time.elapsed - begun)
            with self._saving:
                self.store.save(entry, folds[i], seeds[i], each)
            if deadline.is_reached:
                self.cut[entry.label] = None
            self._n_trained += 1
            self.check_stop(f"after {first + sum(each is not None for each in found)} folds of {entry.label}")

        run_together([partial(train_fold, i) for i in missing], n_at_once, n_threads)
        return [each for each in found if each is not None]

    def _train_cheapest(self) -> None:
        """Train the cheapest model on one set of held-out rows, whatever the limit, since no model was complete."""
        if self._first_error is not None and not any(r.state == "skipped" for r in self.records.values()):
            raise self._first_error
        entry = min((e for e in self.portfolio if self.records[e.label].state == "skipped"), key=lambda e: e.cost)
        self.folds = self.folds.first(1) if self.folds.n_folds > 1 else self.folds
        assert self.time.limit is not None
        self.notes.append(
            f"the time limit of {format_duration(self.time.limit)} is too short for any model; {entry.label}, "
            "the cheapest one, was trained anyway"
        )
        start = self.time.elapsed
        if self.folds.is_refit:
            self.time.ignore()  # the model of the fold, which lacks the latest rows, gives the score only
        trained = self.train(entry, self.folds.folds, 0, lambda position: math.inf)
        self._add(entry, trained, self.time.elapsed - start)

    def check_stop(self, where: str) -> None:
        """Raise the error that stops the run, if there is one."""
        try:
            self.rows.context.resources.safe_point(where)
        except BaseException:
            self._is_stopped = True  # not an error of one model
            raise

    def _skip(self, entry: PortfolioEntry, seconds: float) -> None:
        assert self.time.limit is not None
        self.ended = f"time limit of {format_duration(self.time.limit)}"
        self._record(entry, "skipped", seconds, 0)

    def _record(
        self,
        entry: PortfolioEntry,
        state: Literal["complete", "failed", "skipped"],
        seconds: float,
        n_models: int,
        score: float | None = None,
    ) -> None:
        params = dict(entry.params)
        self.records[entry.label] = TriedModel(entry.label, entry.name, params, score, seconds, state, 0.0, n_models)

    def try_within_limit(self, label: str, train: Callable[[float], Trained]) -> Trained | None:
        """Return the result of a further training of a member, which gets the time at which it must end.

        None if the time limit ends it, or it fails.
        """
        try:
            return train(self.time.elapsed + self.seconds_left)
        except DeadlineReached:
            return None
        except Exception as error:
            if self._is_stopped:
                raise
            self.notes.append(f"a further training of {label} failed: {str(error).splitlines()[0]}")
            return None

    def describe_folds(self) -> str:
        n, share = self.folds.n_folds, f"{self.folds.predicted.mean():.0%}"
        if self.folds.is_refit:
            return f"{n} forward fold{'s' * (n > 1)}"
        if self.folds.others:
            folds = f"{n} fold{'s' * (n > 1)} ({share} of the training rows)"
            return f"within the time limit every model was trained for {folds}, and members for as many as possible"
        return f"{n} folds of the training rows; the predictions of the {n} models of a member are averaged"

    def describe_cut(self) -> tuple[str, ...]:
        """Return the note about models that the time limit has ended, if there are any."""
        return (f"the time limit ended {', '.join(self.cut)} before the best round",) if self.cut else ()

    def progress(self) -> ProgressReport:
        """Return the number of trained models, and the best score so far."""
        scores = [self.score.sign * each.score for each in self.complete]
        best = self.score.sign * max(scores) if scores else None
        total = len(self.portfolio) * self.folds.n_folds
        may_end_early = self.time.limit is not None
        name = self.score.metric if scores else ""
        return ProgressReport(min(self._n_trained, total), total, "model", may_end_early, name, best)
