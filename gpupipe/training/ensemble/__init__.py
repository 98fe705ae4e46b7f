"""Training of the ensemble ``best``: portfolio, bagging, selection of weights, time limit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpupipe.errors import ConfigError

if TYPE_CHECKING:
    from gpupipe.config import ModelEntry
    from gpupipe.metrics import Evaluate
    from gpupipe.models import FitContext, FittedModel
    from gpupipe.models.best import Best
    from gpupipe.partitions.workers import Workers
    from gpupipe.report.search_record import SearchRecord
    from gpupipe.training.ensemble.entry_training import FoldModelStore
    from gpupipe.training.ensemble.folds import FoldRule
    from gpupipe.typing import Array


class TrainedEnsemble(NamedTuple):
    """Ensemble with the record of the models that were tried.

    `of_folds` has an ensemble for each given fold, of the models that were not trained on it.
    """

    model: FittedModel
    record: SearchRecord
    of_folds: tuple[FittedModel, ...] = ()


def fit_ensemble(
    X: Array,
    model: Best,
    y: Array | None,
    context: FitContext,
    evaluate: Evaluate,
    n_rounds: int = 1,
    store: FoldModelStore | None = None,
    rule: FoldRule | None = None,
) -> TrainedEnsemble:
    """Train an ensemble and return it, with the record of the models that were tried.

    Every model of the portfolio is trained once for each fold of the rows, and predicts the rows of the fold. A forest
    is trained once, if its trees can predict the rows that they were not grown on. The weights are selected on these
    predictions by ``context.metric``; with times, on those of the latest rows by models of earlier ones. The features,
    with their cross-fitted target encodings, are fitted once on all rows, not once per fold.

    - `X` (array of float32, shape (n, d), column-major): the combined view, on the device of the backend
    - `y` (array, shape (n,)): class codes or numbers, on the host
    - `evaluate`: threshold and costs, for metrics of decisions; the latency limit
    - `n_rounds`: number of training rounds among which the time limit is divided, less the time for what follows them
    - `rule`: the rule that divides the rows into folds; default: at random, or by groups

    Raises
    ------
    ConfigError
        If a model that is named is not installed.
    GpupipeError
        The error of the first model, if none could be trained.
    """
    import numpy as np

    from gpupipe.models.weights import row_weights
    from gpupipe.tasks import CLASSIFICATION
    from gpupipe.training.ensemble.entry_training import NoFoldModels
    from gpupipe.training.ensemble.fold_training import EnsembleRows
    from gpupipe.training.ensemble.folds import FoldRule
    from gpupipe.training.ensemble.portfolio import make_portfolio
    from gpupipe.training.ensemble.scores import HeldOutScore
    from gpupipe.training.ensemble.time_limit import TrainingTime, round_seconds
    from gpupipe.training.ensemble.training import EnsembleTraining

    assert y is not None
    weights = context.weights
    if context.task in CLASSIFICATION:
        codes = np.asarray(y).astype(np.int64)
        weights = row_weights(codes, model.class_weight, context.class_labels, context.n_classes, weights)
    elif model.class_weight is not None:
        raise ConfigError(
            f"class_weight is for classification; the task is {context.task}",
            where="models: best.class_weight",
            fix="remove class_weight",
        )
    portfolio = make_portfolio(
        context.task,
        context.backend,
        model.models,
        has_weights=weights is not None,
        # A forest of all rows has no models that were not trained on a fold.
        has_groups=context.groups is not None or bool(rule and rule.given),
        has_times=context.times is not None,
        n_classes=context.n_classes,
    )
    threshold: Any = evaluate.threshold
    score = HeldOutScore(
        context.metric,
        context.task,
        context.n_classes,
        context.backend.host,
        0.5 if isinstance(threshold, str) else threshold,
        evaluate.cost,
    )
    limit = None if model.time_limit is None else round_seconds(model.time_limit, n_rounds)
    training = EnsembleTraining(
        model,
        EnsembleRows(X, y, weights, context, rule=rule or FoldRule()),
        portfolio,
        score,
        TrainingTime(limit, time.perf_counter),
        store or NoFoldModels(),
        evaluate.max_latency,
    )
    fitted, record = training.train()
    return TrainedEnsemble(fitted, record, training.of_folds() if rule and rule.given else ())


def require_one_process(entries: Sequence[ModelEntry], workers: Workers | None) -> None:
    """Raise ConfigError if an ensemble would be trained on rows that are partitioned across workers."""
    from gpupipe.models.best import Best

    for entry in entries:
        if workers is not None and isinstance(entry.params, Best):
            raise ConfigError(
                "an ensemble needs the training rows in the memory of one process, and this run partitions them",
                where=f"models: {entry.label}",
                fix="list the models to compare, such as models: [xgboost, logistic_regression], or run on one machine "
                "with enough memory",
            )
