"""Search of an ensemble: the models of its portfolio, trained on folds within a time limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal, TypeVar

import numpy as np

from gpupipe.models import FittedModel
from gpupipe.models.best import Best
from gpupipe.models.context import DeadlineReached
from gpupipe.models.progress import ProgressReport
from gpupipe.models.scikit_learn.settings.forest import RandomForest
from gpupipe.models.training import load_library
from gpupipe.names import count_noun
from gpupipe.report.search_record import TriedModel
from gpupipe.splits import Fold
from gpupipe.tasks import CLASSIFICATION
from gpupipe.training.ensemble.entry_training import EntryTraining
from gpupipe.training.ensemble.fold_training import EnsembleRows, FoldModel
from gpupipe.training.ensemble.folds import BaggingFolds, fold_choices, make_folds, make_later_fold
from gpupipe.training.ensemble.portfolio import PortfolioEntry
from gpupipe.training.ensemble.scores import HeldOutScore
from gpupipe.training.ensemble.time_limit import TrainingTime
from gpupipe.typing import Array
from gpupipe.units import format_duration

Trained = TypeVar("Trained")
LEAST_MODELS = 6  # that a time limit should have room for; fewer folds otherwise
OTHER_FOLDS_SHARE = 0.2  # of the time limit, kept if the members are trained on further folds
PROBE_SHARE = 0.35  # of the time limit, for the first folds of the first model, of which no cost is known
FOREST_SHARE = 0.7  # of the seconds left, for a forest: nothing ends its training, and its cost is extrapolated
LEAST_TREES = 50  # each training row is out of the bag of one of them
MOST_CUT = 2.0  # predicted seconds over available ones, up to which a training that can end early is begun
MOST_SHORTENED = 8.0  # the same for a network, whose epochs and schedules fit the time that it gets
LONG_SHARE = 0.5  # of the seconds left: models that are predicted to take longer are tried last


@dataclass
class TriedEntry:
    """A model of the portfolio that was trained on all folds."""

    entry: PortfolioEntry
    # One for each fold, or one forest; released if memory is short and the entry is not a member
    models: tuple[FittedModel, ...]
    # float64, shape (m,) or (m, k): predictions of the rows that the folds hold out, in the order of the table
    predicted: Array
    score: float  # value of the metric


@dataclass
class PortfolioSearch:
    """Training of the models of a portfolio, in order, as far as the time limit allows."""

    model: Best
    portfolio: Sequence[PortfolioEntry]
    score: HeldOutScore
    training: EntryTraining
    folds: BaggingFolds = field(init=False)
    complete: list[TriedEntry] = field(init=False, default_factory=list)  # the models that were trained on all folds
    records: dict[str, TriedModel] = field(init=False, default_factory=dict)  # all models, by label
    notes: list[str] = field(init=False, default_factory=list)
    ended: str = field(init=False, default="the portfolio is complete")  # why the search ended
    # True once the members are chosen: the time that is left is theirs
    is_over: bool = field(init=False, default=False)
    _first_error: Exception | None = field(init=False, default=None)
    _choices: list[int] = field(init=False, default_factory=list)
    _has_probed: bool = field(init=False, default=False)

    @property
    def rows(self) -> EnsembleRows:
        """Training rows."""
        return self.training.rows

    @property
    def time(self) -> TrainingTime:
        """Elapsed and remaining time."""
        return self.training.time

    def run(self, reason_to_end: Callable[[], str]) -> None:
        """Try all models; `reason_to_end` is called after each, and ends the search unless it is empty.

        Raises
        ------
        GpupipeError
            The error of the first model, if none could be trained.
        """
        given = self.rows.rule.given
        self._choices = [len(given)] if given else self._fold_choices()
        self.folds = BaggingFolds(given) if given else self._make_folds(self._choices[0])
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
        return fold_choices(len(self.rows.y), self.model.folds, n_groups)

    def _make_folds(self, n_folds: int) -> BaggingFolds:
        context, rows = self.rows.context, self.rows
        classes = rows.y.astype(np.int64) if context.task in CLASSIFICATION else None
        folds = make_folds(n_folds, len(rows.y), classes, context.groups, context.seed)
        if context.times is None:
            return folds
        given = classes, context.groups, context.times, context.seed
        return replace(folds, later=make_later_fold(rows.rule.split, *given))

    def _n_waves(self, entry: PortfolioEntry, n_folds: int) -> int:
        """Return how many folds are trained one after the other; a forest is one, and one for later rows."""
        if entry.is_out_of_bag:
            return 1 + len(self.folds.compares)
        return -(-n_folds // max(1, min(n_folds, self.rows.n_at_once(entry.settings))))

    def _fit_to_limit(self, entry: PortfolioEntry, trained: list[FoldModel]) -> list[FoldModel]:
        """Reduce the folds if the limit has no room for enough models like the first, of which some folds are trained.

        If there is no room for fewer folds of all rows either, all except the trained ones are postponed. Returns the
        models that can be kept.
        """
        first, more = self._choices[0], len(self.folds.compares)
        seconds, left = self.time.fold_seconds(entry), self.time.remaining
        fitting = [n for n in self._choices if self._n_waves(entry, n + more) * seconds * LEAST_MODELS <= left]
        if first in fitting or self.has_stated_folds:
            return trained
        if fitting:
            self.folds = self._make_folds(fitting[0])
            return []
        self.folds = self.folds.first(len(trained) - more)
        return trained

    @property
    def has_stated_folds(self) -> bool:
        """True if a time limit must not reduce the number of folds."""
        return self.model.folds is not None or bool(self.rows.rule.given)

    @property
    def seconds_left(self) -> float:
        """Seconds left for the models of the portfolio, or for the further folds of members."""
        limit, remaining = self.time.limit, self.time.remaining
        if limit is None or self.is_over:
            return remaining
        return remaining - limit * OTHER_FOLDS_SHARE * bool(self.folds.others)

    def _try(self, entry: PortfolioEntry) -> None:
        """Train a model on all folds, unless the time limit has no room for it."""
        if self._is_too_long(entry):
            self._skip(entry, 0.0)
            return
        start, is_first = self.time.elapsed, not self._has_probed and not entry.is_out_of_bag
        try:
            # Before the few trees are measured: their time is multiplied, and that of an import does not grow.
            load_library(entry.settings, self.rows.context.task, self.rows.context.backend)
            self.training.measure_few_trees(entry, self.folds.folds[0])
            trained = None if self._is_too_long(entry) else self._train(entry)
        except DeadlineReached:
            trained = None
            if is_first and not self.has_stated_folds:
                self.folds = self.folds.first(1)
        except Exception as error:
            if self.training.is_stopped:
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
        seconds = self.time.fold_seconds(entry) * self._n_waves(entry, len(self.folds.trained) - n_trained)
        can_be_cut = self.rows.can_end_early(entry.settings)
        share = MOST_CUT if can_be_cut else FOREST_SHARE if entry.is_out_of_bag else 1.0
        share = MOST_SHORTENED if entry.is_network else share
        return seconds > self.seconds_left * share

    def _is_long(self, entry: PortfolioEntry) -> bool:
        """Return whether a model is predicted to take most of what is left, so that shorter ones are tried first.

        Networks are not: they are trained for as many epochs as fit.
        """
        n_waves = self._n_waves(entry, len(self.folds.trained))
        return not entry.is_network and self.time.fold_seconds(entry) * n_waves > LONG_SHARE * self.seconds_left

    def _add(self, entry: PortfolioEntry, trained: Sequence[FoldModel], seconds: float) -> None:
        mask = self.folds.compared
        if self.folds.later is not None:
            trained, predicted = trained[1:], trained[0].predicted
        else:
            every = np.zeros((len(mask), *trained[0].predicted.shape[1:]))
            for rows, found in zip(self._predicted_rows(entry), trained, strict=True):
                every[rows] = found.predicted
            predicted = every[mask]
        weights = self.rows.context.weights
        score = self.score.value(self.rows.y[mask], predicted, None if weights is None else weights[mask])
        self.complete.append(TriedEntry(entry, tuple(found.model for found in trained), predicted, score))
        self._record(entry, "complete", seconds, len(trained), score)

    def _predicted_rows(self, entry: PortfolioEntry) -> list[Array]:
        """Return a mask of the rows that each model of an entry predicts."""
        if entry.is_out_of_bag:
            return [np.ones(len(self.rows.y), bool)]
        return [fold.test for fold in self.folds.folds]

    def _train(self, entry: PortfolioEntry) -> list[FoldModel] | None:
        self.rows.matrix(entry.settings.view)
        if entry.base is not None:
            self.rows.matrix(entry.base.view)
        if not entry.is_out_of_bag:
            return self._train_folds(entry)
        return [*self._train_some(entry, self.folds.compares, 0), self.training.train_forest(entry)]

    def _train_folds(self, entry: PortfolioEntry) -> list[FoldModel] | None:
        """Return a model for each fold, or None if the folds of the first model are predicted to take too long.

        Raise DeadlineReached if a fold would end too late for the others, and has nothing to keep.
        """
        trained: list[FoldModel] = []
        if self.time.limit is not None and not self._has_probed:
            self._has_probed = True
            n_probed = max(self.rows.n_at_once(entry.settings), 1 + len(self.folds.compares))
            trained = self._train_some(entry, self.folds.trained[:n_probed], 0)
            trained = self._fit_to_limit(entry, trained)
            if len(trained) < len(self.folds.trained) and self._is_too_long(entry, len(trained)):
                return None
        return trained + self._train_some(entry, self.folds.trained[len(trained) :], len(trained))

    def _train_some(self, entry: PortfolioEntry, folds: Sequence[Fold], first: int) -> list[FoldModel]:
        n_folds = len(self.folds.trained)

        def start(position: int) -> float:
            """Return the time at which a fold must end, so that those after it fit into the limit too."""
            if position and self._is_too_long(entry, first + position):
                raise DeadlineReached
            return self.time.elapsed + self._seconds_of_fold(entry, n_folds - first - position)

        return self.training.train_on_folds(entry, folds, first, start)

    def _seconds_of_fold(self, entry: PortfolioEntry, n_left: int) -> float:
        """Return the seconds after which a fold must end, the first of those that are left.

        A model that takes longer than predicted leaves time for others.
        """
        n_waves, left = self._n_waves(entry, n_left), self.seconds_left
        if not self.time.is_measured:
            return left * PROBE_SHARE
        is_short = self.time.fold_seconds(entry) * n_waves <= LONG_SHARE * left
        return left * (LONG_SHARE if is_short or entry.is_network else 1.0) / n_waves

    def _train_cheapest(self) -> None:
        """Train the cheapest model on one set of held-out rows, whatever the limit, since no model was complete."""
        if self._first_error is not None and not any(r.state == "skipped" for r in self.records.values()):
            raise self._first_error
        entry = min((e for e in self.portfolio if self.records[e.label].state == "skipped"), key=lambda e: e.cost)
        self.folds = self.folds.first(1) if self.folds.n_folds > 1 and not self.rows.rule.given else self.folds
        assert self.time.limit is not None
        cheapest, entry = entry, self._with_fewer_trees(entry)
        trees = "" if entry is cheapest else f" with {entry.params['n_estimators']} trees"
        self.notes.append(
            f"the time limit of {format_duration(self.time.limit)} is too short for any model; {entry.label}, "
            f"the cheapest one, was trained anyway{trees}"
        )
        start = self.time.elapsed
        folds = self.folds.compares if entry.is_out_of_bag else self.folds.trained
        trained = self.training.train_on_folds(entry, folds, 0, lambda position: math.inf)
        trained += [self.training.train_forest(entry)] if entry.is_out_of_bag else []
        self._add(entry, trained, self.time.elapsed - start)

    def _with_fewer_trees(self, entry: PortfolioEntry) -> PortfolioEntry:
        """Return a forest that is predicted to end within the limit, of at least `LEAST_TREES`; others: themselves."""
        seconds = self.time.fold_seconds(entry)
        if not entry.is_out_of_bag or seconds <= self.time.remaining:
            return entry
        assert isinstance(entry.settings, RandomForest)
        n_trees = entry.settings.n_estimators
        fewer = {"n_estimators": min(n_trees, max(LEAST_TREES, int(n_trees * self.time.remaining / seconds)))}
        return replace(entry, params={**entry.params, **fewer}, settings=entry.settings.model_copy(update=fewer))

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
            if self.training.is_stopped:
                raise
            self.notes.append(f"a further training of {label} failed: {str(error).splitlines()[0]}")
            return None

    def describe_folds(self) -> str:
        """Return the number of folds, and the rows on which models are compared."""
        n, later = self.folds.n_folds, self.folds.later
        is_forest = any(each.entry.is_out_of_bag for each in self.complete)
        forests = "; a forest is one model, which predicts the training rows out of bag" * is_forest
        rows = ""
        if later is not None:
            n_later = int(later.later.sum())
            rows = f"; compared on the {n_later:,} latest rows, by models of earlier rows that are not kept"
        if self.folds.others:
            share = "" if later is not None else f" ({self.folds.compared.mean():.0%} of the training rows)"
            members = f"members for as many as possible{forests}{rows}"
            return f"within the time limit every model was trained for {count_noun(n, 'fold')}{share}, and {members}"
        averaged = f"the predictions of the {n} models of a member are averaged"
        return f"{n} folds of the training rows; {averaged}{forests}{rows}"

    def describe_cut(self) -> tuple[str, ...]:
        """Return the note about models that the time limit has ended, if there are any."""
        return (
            (f"the time limit ended {', '.join(self.training.cut)} before the best round",) if self.training.cut else ()
        )

    def progress(self) -> ProgressReport:
        """Return the number of trained models, and the best score so far."""
        scores = [self.score.sign * each.score for each in self.complete]
        best = self.score.sign * max(scores) if scores else None
        n_trained, n_forest = len(self.folds.trained), 1 + len(self.folds.compares)
        total = sum(n_forest if entry.is_out_of_bag else n_trained for entry in self.portfolio)
        may_end_early = self.time.limit is not None
        name = self.score.metric if scores else ""
        return ProgressReport(min(self.training.n_trained, total), total, "model", may_end_early, name, best)
