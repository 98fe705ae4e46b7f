"""Fitting of features and models to one set of training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.config import Config, ModelEntry
from gpupipe.config.event_ops import entity_columns
from gpupipe.features.history.derivation import Derivation, derived_ops, key_columns
from gpupipe.features.ops.bag_ids import without_bags
from gpupipe.features.ops.base import FeatureOp
from gpupipe.features.program.fit import fit_features
from gpupipe.features.program.fitted import FittedFeatures, write_matrix
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.training import Statistics, make_statistics
from gpupipe.features.statistics.training_summary import summarize
from gpupipe.model_parts.goal import Goal
from gpupipe.models import ONE_PROCESS, FitContext, FittedModel, Resources
from gpupipe.models.best import Best
from gpupipe.models.continuation import StartingModel
from gpupipe.models.matrix import fit_matrix
from gpupipe.report.search_record import SearchRecord
from gpupipe.splits import Fold
from gpupipe.table.blocks import EncodedTable
from gpupipe.tasks import View
from gpupipe.typing import Array, Matrix

if TYPE_CHECKING:
    from gpupipe.training.ensemble.entry_training import FoldModelStore


@dataclass(frozen=True)
class TrainedModel:
    """Trained model with the features that it was trained on.

    `seconds` is the wall time of the training alone. `search` has the models that an ensemble or the tuning of a
    candidate has tried. `of_folds` has an ensemble for each fold of the rows that is not trained on the fold, with the
    matrix of its rows.
    """

    entry: ModelEntry
    features: FittedFeatures
    model: FittedModel
    seconds: float = 0.0
    search: SearchRecord | None = None
    of_folds: tuple[tuple[FittedModel, Array], ...] = ()

    def drop_unread_features(self) -> TrainedModel:
        """Return the model with only those features that it reads: members of an ensemble may read no dense columns."""
        columns, features = self.model.columns_read(), without_bags(self.features)
        if len(columns) in (0, len(features.features)):
            return replace(self, features=features)
        return replace(self, features=features.of_columns(columns), model=self.model.of_columns(columns))


@dataclass(frozen=True)
class TrainingStart:
    """Features that are not learned again, and the model whose training continues on them."""

    features: FittedFeatures
    model: StartingModel

    def with_rows(self, statistics: Statistics) -> FittedFeatures:
        """Return the features with the nulls and ranges of the rows of `statistics` added to those of earlier rows."""
        known = self.features.training
        added = summarize(statistics, self.features.input_schema)
        return replace(self.features, training=added if known is None else known.merge(added))


@dataclass
class TrainingSet:
    """Training rows, and the features fitted to them for each view."""

    n_rows: int
    y: Array | None  # float64, shape (n_rows,), or (n_rows, k) for several targets
    statistics: Statistics | None  # statistics of the encoded rows; None once they are released
    derivation: Derivation | None = None  # derivation of the columns that are not columns of the input
    withheld: Mapping[str, str] = field(default_factory=dict)  # columns that no op may select, with the reason
    # `groups`, `times`: array, shape (n_rows,): values of the columns of ``split.group`` and ``split.time``
    groups: Array | None = None
    times: Array | None = None
    # float64, shape (n_rows,): the weight of each row (``source.weight``); None if all rows weigh 1
    weights: Array | None = None
    start: TrainingStart | None = None  # where a continued training starts
    folds: Sequence[Fold] = ()  # folds that evaluate an ensemble, which is trained on them
    features: dict[View, FittedFeatures] = field(default_factory=dict)
    matrices: dict[View, Matrix] = field(default_factory=dict)

    def release(self) -> None:
        """Release the encoded rows, once the matrices of all views have been computed."""
        self.statistics = None


def select_rows(
    table: EncodedTable,
    y: Array | None,
    mask: Array,
    goal: Goal,
    config: Config,
    backend: Backend,
    derivation: Derivation | None = None,
    groups: Array | None = None,
    times: Array | None = None,
    weights: Array | None = None,
) -> TrainingSet:
    """Return the rows where `mask` is true as a training set."""
    withheld = withheld_columns(goal.names, config)
    rows = table.select(table.schema.without(withheld)).take(mask, backend)
    values = None if y is None else y[mask]
    groups, times, weights = (None if column is None else column[mask] for column in (groups, times, weights))
    target = None if values is None else feature_target(values, goal, groups, times)
    statistics = make_statistics(rows, backend, target, config.seed, weights)
    return TrainingSet(rows.n_rows, values, statistics, derivation, withheld, groups, times, weights)


def feature_target(y: Array, goal: Goal, groups: Array | None = None, times: Array | None = None) -> Target:
    """Return the target of training rows as feature ops take it."""
    if not goal.targets:
        return Target(y, goal.n_classes, groups, times)
    first, *others = [
        Target(np.ascontiguousarray(column), own.n_classes, groups, times, own.target or "")
        for column, own in zip(y.T, goal.targets, strict=True)
    ]
    return replace(first, others=tuple(others))


def withheld_columns(targets: Sequence[str], config: Config) -> dict[str, str]:
    """Return the columns excluded from features, with the reason; they may include columns not in the table."""
    split, names = config.split, {name: "source.drop drops it" for name in config.source.drop if name[:1] != "@"}
    keys, made = key_columns(config.features), key_columns(config.features, entity_columns(config))
    for op in derived_ops(config.features):
        names |= {key: f"it is the key of {op.title()}" for key in op.key_columns() if key in keys}
    names |= dict.fromkeys([name for name in made if name not in names], "it identifies a row built from events")
    named = [(split.column and split.column.name, "it is split.column"), (split.group, "it is split.group")]
    named += [(config.source.weight, "it is the weight of the rows (source.weight)")]
    names |= {name: reason for name, reason in named if name}
    names |= dict.fromkeys(config.source.id, "it is an identifier (source.id)")
    return names | dict.fromkeys(targets, "it is the target" if len(targets) == 1 else "it is a target")


def fit_view(rows: TrainingSet, view: View, ops: Sequence[FeatureOp], backend: Backend) -> tuple[FittedFeatures, Any]:
    """Return the features of one view and the matrix of the training rows, computed once."""
    return learn_features(rows, view, ops), training_matrix(rows, view, backend)


def learn_features(rows: TrainingSet, view: View, ops: Sequence[FeatureOp]) -> FittedFeatures:
    """Return the features of one view fitted to `rows`, computed once; a continued training has its own."""
    if view not in rows.features:
        assert rows.statistics is not None
        if rows.start is not None:
            rows.features[view] = rows.start.with_rows(rows.statistics)
            return rows.features[view]
        rows.features[view] = fit_features(ops, rows.statistics, view, rows.derivation, rows.withheld)
    return rows.features[view]


def training_matrix(rows: TrainingSet, view: View, backend: Backend) -> Any:
    """Return the matrix of `rows` for features that have been fitted to them, computed once."""
    if view not in rows.matrices:
        assert rows.statistics is not None
        is_fit = rows.start is None
        rows.matrices[view] = write_matrix(rows.statistics.table, rows.features[view], backend, is_fit)
    return rows.matrices[view]


def train(
    entry: ModelEntry,
    rows: TrainingSet,
    goal: Goal,
    config: Config,
    backend: Backend,
    resources: Resources = ONE_PROCESS,
    metric: str = "",
    n_rounds: int = 1,
    fold_models: FoldModelStore | None = None,
) -> TrainedModel:
    """Train one candidate on `rows`, and return the model with its features.

    `metric` ranks candidates. An ensemble divides its time limit by the number of training rounds of the run, and saves
    the models of folds in `fold_models`. The parameters of an entry with ``tune`` are searched first, on folds of
    `rows`.
    """
    import time

    features, X = fit_view(rows, entry.params.view, config.features, backend)
    context = FitContext(
        backend,
        goal.task,
        config.seed,
        goal.n_classes,
        features.categorical,
        features.names,
        list(goal.label_texts),
        resources,
        groups=rows.groups,
        times=rows.times,
        weights=rows.weights,
        metric=metric,
        quantiles=goal.quantiles,
        targets=goal.specs,
        views=features.views,
        start=None if rows.start is None else rows.start.model,
    )
    start = time.perf_counter()
    if isinstance(entry.params, Best):
        from gpupipe.training.ensemble import fit_ensemble
        from gpupipe.training.ensemble.folds import FoldRule

        rule, evaluate = FoldRule(config.split, tuple(rows.folds)), config.evaluate
        found = fit_ensemble(X, entry.params, rows.y, context, evaluate, n_rounds, fold_models, rule)
        of_folds = [
            (model, backend.take_rows(X, np.flatnonzero(fold.test)))
            for model, fold in zip(found.of_folds, rows.folds, strict=True)
        ]
        seconds = time.perf_counter() - start
        return TrainedModel(entry, features, found.model, seconds, found.record, tuple(of_folds))
    search: SearchRecord | None = None
    notes: tuple[str, ...] = ()
    if entry.tune is not None:
        from gpupipe.training.tuning.search import tune_entry  # here: it imports Optuna

        entry, search, notes = tune_entry(entry, X, rows.y, goal, config, context)
        context = replace(context, resources=replace(resources, checkpoint=None))  # that of the search
    model = fit_matrix(X, entry.params, rows.y, context)
    if notes:
        model = replace(model, notes=(*notes, *model.notes))
    return TrainedModel(entry, features, model, time.perf_counter() - start, search)


def require_joint(
    entries: Sequence[ModelEntry], goal: Goal, features: Mapping[View, FittedFeatures] | None = None
) -> None:
    """Raise ConfigError if a model that learns several targets together cannot learn these, from its features."""
    for entry in entries if goal.targets else ():
        if entry.params.learns_jointly:
            own = (features or {}).get(entry.params.view)
            entry.params.require_targets(goal.specs, own is not None and bool(own.categorical))
