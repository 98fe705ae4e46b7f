"""Training of an ensemble: a search over its portfolio, then the weights and models of its members."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from gpupipe.models import FittedModel
from gpupipe.models.best import Best
from gpupipe.models.composites.ensemble import EnsembleMember, FittedEnsemble
from gpupipe.models.composites.scaled_target import FittedScaledTarget
from gpupipe.random_streams import make_generator
from gpupipe.report.search_record import SearchRecord
from gpupipe.splits import Fold
from gpupipe.tasks import CLASSIFICATION
from gpupipe.training.ensemble.entry_training import EntryTraining, FoldModelStore, NoFoldModels
from gpupipe.training.ensemble.fold_training import EnsembleRows, FoldModel
from gpupipe.training.ensemble.portfolio import PortfolioEntry
from gpupipe.training.ensemble.scores import HeldOutScore, row_seconds
from gpupipe.training.ensemble.search import PortfolioSearch, TriedEntry
from gpupipe.training.ensemble.time_limit import TrainingTime
from gpupipe.training.ensemble.weights import SelectedWeights, select_weights
from gpupipe.typing import Array
from gpupipe.units import MIB, format_size

MOST_SCORED_ROWS = 200_000  # for the weights, which compute the metric up to a thousand times
LATENCY_SHARE = 0.4  # of evaluate.max_latency: the features take time too, and the limit is on the p99
LEAST_MEMORY = 512 * MIB


@dataclass
class EnsembleTraining:
    """Training of an ensemble.

    `portfolio` is in order. `max_latency` limits the seconds of one prediction.
    """

    model: Best
    rows: EnsembleRows
    portfolio: Sequence[PortfolioEntry]
    score: HeldOutScore
    time: TrainingTime
    store: FoldModelStore = field(default_factory=NoFoldModels)
    max_latency: float | None = None
    _search: PortfolioSearch = field(init=False)

    def __post_init__(self) -> None:
        training = EntryTraining(self.rows, self.time, self.store)
        self._search = PortfolioSearch(self.model, self.portfolio, self.score, training)

    def train(self) -> tuple[FittedModel, SearchRecord]:
        """Train the models of the portfolio, choose the members, and return the ensemble with its record.

        Raise the GpupipeError of the first model, if none could be trained.
        """
        context, search = self.rows.context, self._search
        with context.resources.show_progress(search.progress):
            search.run(self._reason_to_end)
            selected = self._select()
            members = self._members(selected)
        notes = search.describe_folds(), *search.describe_cut(), *search.notes
        total = math.fsum(member.weight for member in members)
        fitted: FittedModel = self._mean(members, notes)
        if len(members) > sum(weight > 0 for weight in selected.weights):  # one with a base is the sum of two
            names = tuple(context.feature_names)
            fitted = FittedScaledTarget((fitted,), context.task, names, notes=notes, units=((0.0, total),))
        n_models = {member.label: len(member.models) for member in members}
        weights = {member.label: member.weight for member in members}
        tried = [
            replace(each, weight=weights.get(label, 0.0), n_models=n_models.get(label, each.n_models))
            for label, each in search.records.items()
        ]
        score = self.score.sign * selected.score
        rows: Literal["out-of-fold", "later", "nested"] = "out-of-fold" if search.folds.later is None else "later"
        rows = "nested" if self.rows.rule.given else rows
        record = SearchRecord("ensemble", self.score.metric, tuple(tried), score, search.ended, rows=rows)
        return fitted, record

    @property
    def _least_memory(self) -> int:
        return max(LEAST_MEMORY, 2 * int(self.rows.X.nbytes))

    def _reason_to_end(self) -> str:
        """Return why the search must end, or an empty text: memory is short even without models of weight 0."""
        backend, search = self.rows.context.backend, self._search
        reason = f"less than {format_size(self._least_memory)} of memory are left"
        if backend.name != "cpu" or not search.complete or backend.memory().available >= self._least_memory:
            return ""
        weights = self._select().weights
        kept = [each for each, weight in zip(self._search.complete, weights, strict=True) if weight]
        if len(kept) == len(self._search.complete):
            return reason
        dropped = [each.entry.label for each in self._search.complete if each not in kept]
        self._search.notes.append(f"memory was short: released {', '.join(dropped)}, which would not be members")
        self._search.complete = kept
        return reason if backend.memory().available < self._least_memory else ""

    def of_folds(self) -> tuple[FittedModel, ...]:
        """Return an ensemble for each fold, of the models that were not trained on it, weighted on the other folds."""
        found = []
        for k, fold in enumerate(self._search.folds.folds):
            weights = self._select(~fold.test).weights
            weighted = [pair for pair in zip(self._search.complete, weights, strict=True) if pair[1]]
            found.append(self._mean([self._member(each, weight, (each.models[k],)) for each, weight in weighted]))
        return tuple(found)

    def _mean(self, members: Sequence[EnsembleMember], notes: tuple[str, ...] = ()) -> FittedEnsemble:
        """Return the ensemble of some members, whose weights are divided by their sum."""
        context, total = self.rows.context, math.fsum(member.weight for member in members)
        shares = tuple(replace(member, weight=member.weight / total) for member in members)
        classes = tuple(int(c) for c in np.unique(self.rows.y)) if context.task in CLASSIFICATION else ()
        return FittedEnsemble(shares, context.task, tuple(context.feature_names), context.n_classes, classes, notes)

    def _member(self, tried: TriedEntry, weight: float, models: tuple[FittedModel, ...]) -> EnsembleMember:
        return EnsembleMember(tried.entry.label, tried.entry.name, weight, self.rows.columns(tried.entry.view), models)

    def _select(self, rows: Array | None = None) -> SelectedWeights:
        """Return the weight of each complete model, by the rows that compare the models, or those of a mask."""
        mask, weights = self._search.folds.compared, self.rows.context.weights
        predictions = [each.predicted for each in self._search.complete]
        if rows is not None:
            predictions, mask = [predicted[rows[mask]] for predicted in predictions], mask & rows
        y = self.rows.y[mask]
        weights = None if weights is None else weights[mask]
        if len(y) > MOST_SCORED_ROWS:
            generator = make_generator(self.rows.context.seed, "weights of an ensemble")
            drawn = generator.choice(len(y), MOST_SCORED_ROWS, replace=False)
            y, predictions = y[drawn], [predicted[drawn] for predicted in predictions]
            weights = None if weights is None else weights[drawn]
            note = f"the weights were chosen on {MOST_SCORED_ROWS:,} of {int(self._search.folds.compared.sum()):,} rows"
            self._search.notes = list(dict.fromkeys([*self._search.notes, note]))

        def score(predicted: Array) -> float:
            return self.score.sign * self.score.value(y, predicted, weights)

        limit = self.time.limit
        return select_weights(
            predictions,
            score,
            n_members=self.model.members,
            costs=self._row_costs(),
            budget=math.inf if self.max_latency is None else self.max_latency * LATENCY_SHARE,
            is_over=lambda: limit is not None and self.time.elapsed > limit,
        )

    def _row_costs(self) -> list[float] | None:
        """Return the seconds of one prediction of each complete model; None without a limit on the latency."""
        if self.max_latency is None:
            return None
        backend, costs = self.rows.context.backend, []
        for each in self._search.complete:
            row = backend.to_host(self.rows.matrix(each.entry.view)[:1])
            seconds = row_seconds(each.models[0], row)
            folds = self._search.folds
            costs.append(seconds * (1 if each.entry.is_out_of_bag else folds.n_folds + len(folds.others)))
        return costs

    def _members(self, selected: SelectedWeights) -> list[EnsembleMember]:
        """Return the members, the largest weight first, with the models of further folds if some are postponed."""
        found = [(weight, each) for weight, each in zip(selected.weights, self._search.complete, strict=True) if weight]
        found.sort(key=lambda pair: -pair[0])
        models = [each.models for _, each in found]
        if self._search.folds.others:
            models = self._train_others([each for _, each in found])
        members: list[EnsembleMember] = []
        for (weight, each), trained in zip(found, models, strict=True):
            member = self._member(each, weight, trained)
            members += [member] if each.entry.base is None else _terms(member)
        return members

    def _train_others(self, members: Sequence[TriedEntry]) -> list[tuple[FittedModel, ...]]:
        """Return the models of members, with those of further folds as far as the time limit allows.

        Every member gets one more fold before any gets two.
        """
        models = {member.entry.label: list(member.models) for member in members}
        for k, fold in enumerate(self._search.folds.others):
            for entry in [member.entry for member in members if not member.entry.is_out_of_bag]:
                left = self._search.seconds_left
                if self.time.fold_seconds(entry) > left:
                    continue
                trained = self._search.try_within_limit(entry.label, partial(self._train_one, entry, fold, k))
                models[entry.label] += [each.model for each in trained or ()]
                self.rows.context.resources.safe_point(f"after another fold of {entry.label}")
        return [tuple(found) for found in models.values()]

    def _train_one(self, entry: PortfolioEntry, fold: Fold, k: int, end: float) -> list[FoldModel]:
        """Return the model of a further fold, which no score would tell from one that was ended early."""
        first = len(self._search.folds.trained) + k
        if entry.is_network:  # for as many epochs as the others, not for all that would fit
            end = min(end, self.time.elapsed + self.time.fold_seconds(entry))
        return self._search.training.train_on_folds(entry, [fold], first, lambda position: end, may_be_cut=False)


def _terms(member: EnsembleMember) -> list[EnsembleMember]:
    """Return the members that a member is the sum of, see `EnsembleRows.fit_entry`."""
    parts = [model.unscaled.estimator for model in member.models]
    return [
        replace(own[0], weight=member.weight, models=tuple(each.models[0] for each in own))
        for own in zip(*parts, strict=True)
    ]
