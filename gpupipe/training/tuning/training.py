"""Training of one trial on one fold, and its predictions for the held-out rows; early stopping."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from gpupipe.models import FitContext, FittedModel, ModelSettings, Prediction
from gpupipe.models.base import BestRound
from gpupipe.models.context import Resources, ValidationRows
from gpupipe.models.device.training import refusal
from gpupipe.models.lightgbm.settings import LightGBM
from gpupipe.models.matrix import predict_matrix
from gpupipe.models.target_scale import TargetScale
from gpupipe.models.training import explain_errors, fit, keyword_arguments, prepare_rows
from gpupipe.models.weights import row_weights
from gpupipe.models.xgboost.settings import XGBoost, native_parameters
from gpupipe.splits import Fold
from gpupipe.tasks import CLASSIFICATION, REGRESSION
from gpupipe.training.side_by_side import run_together
from gpupipe.training.tuning.memory import keeps_slices
from gpupipe.typing import Array

MOST_BINNINGS = 2  # of different max_bin or class weights that are kept


@dataclass(frozen=True)
class FoldPrediction:
    """Predictions of the held-out rows of a fold, and the number of rounds that its early stopping found."""

    prediction: Prediction
    rounds: int | None


class FoldTraining:
    """Training on the folds of one matrix, shared by all trials of a search.

    `X`, float32, shape (n_rows, d), column-major, has the training rows, on the device of the backend. `y`, shape
    (n_rows,), is on the host. `context` is that of the model on all rows.
    """

    def __init__(self, X: Array, y: Array, folds: Sequence[Fold], context: FitContext) -> None:
        self.X = X
        self.y = y
        self.folds = folds
        self.context = context
        self._keeps_slices = keeps_slices(X.nbytes, len(folds), context.backend.memory().available)
        self._slices: dict[tuple[int, bool], Array] = {}
        self._binnings: OrderedDict[tuple[Any, ...], _BinnedFold] = OrderedDict()
        self._binning = Lock()

    def n_at_once(self, settings: ModelSettings) -> int:
        """Return the number of folds to train at the same time.

        One thread for each of two folds takes 0.7 to 0.8 of the time of two for each. Histogram boosting of
        scikit-learn, which holds the interpreter lock, takes longer, and models of CatBoost depend on the threads.
        """
        is_able = isinstance(settings, XGBoost | LightGBM) and self.context.backend.name == "cpu"
        return self.context.backend.n_threads if is_able and self._keeps_slices else 1

    def train_together(
        self, settings: ModelSettings, folds: Sequence[int], resources: Resources
    ) -> list[FoldPrediction]:
        """Return the predictions of some folds, which are trained at the same time."""
        found: dict[int, FoldPrediction] = {}
        n_threads = max(1, self.context.backend.n_threads // len(folds))

        def train(fold: int) -> None:
            found[fold] = self.train(settings, fold, resources, n_threads)

        run_together([partial(train, fold) for fold in folds], len(folds), n_threads)
        return [found[fold] for fold in folds]

    def train(
        self, settings: ModelSettings, fold: int, resources: Resources, n_threads: int | None = None
    ) -> FoldPrediction:
        """Train on the training rows of a fold, and predict its held-out rows."""
        n_threads = n_threads or self.context.backend.n_threads
        context = replace(self._context_of(fold), resources=resources)
        is_one = self.context.task in CLASSIFICATION | REGRESSION  # not several quantiles or targets
        is_plain = TargetScale.of(settings, self.y[self.folds[fold].train], context) is None
        if isinstance(settings, XGBoost) and is_one and is_plain and self._can_bin(settings):
            return self._train_on_bins(settings, fold, context, n_threads)
        X_held = self._slice(fold, held_out=True)
        rows, count = self.folds[fold], RoundCount()
        groups = None if self.context.groups is None else self.context.groups[rows.test]
        validation = ValidationRows(X_held, self.y[rows.test], self._held_out_weights(settings, fold), groups)
        context = replace(context, validation=validation, report_rounds=count)
        model = fit(settings, self._slice(fold, held_out=False), self.y[rows.train], context, n_threads=n_threads)
        return FoldPrediction(predict_matrix(X_held, model, context.backend), count.of(model))

    def _context_of(self, fold: int) -> FitContext:
        return self.context.of_rows(self.folds[fold].train)

    def _slice(self, fold: int, *, held_out: bool) -> Array:
        found = self._slices.get((fold, held_out))
        if found is None:
            mask = self.folds[fold].test if held_out else self.folds[fold].train
            found = self.context.backend.take_rows(self.X, np.flatnonzero(mask))
            if self._keeps_slices:
                self._slices[fold, held_out] = found
        return found

    def _held_out_weights(self, settings: ModelSettings, fold: int) -> Array | None:
        """Return the weight of each held-out row, times that of its class in the training rows; None if all weigh 1."""
        rows, own = self.folds[fold], self.context.weights
        found = class_weights_of(settings, self.y[rows.train], self.y[rows.test], self._context_of(fold))
        if own is None:
            return found
        held: Array = own[rows.test] if found is None else found * own[rows.test]
        return held

    def _can_bin(self, settings: XGBoost) -> bool:
        """Return whether XGBoost can train from bins that were computed before: not with ``approx``."""
        if settings.tree_method != "hist":
            return False
        params = keyword_arguments(settings, self.X, self.context, 1)
        return self.context.backend.name == "cpu" or refusal(settings, self.X, params, self.context) is None

    def _train_on_bins(self, settings: XGBoost, fold: int, context: FitContext, n_threads: int) -> FoldPrediction:
        """Train XGBoost on the bins of a fold, computed in its first trial."""
        import xgboost

        from gpupipe.models.xgboost.fitted import FittedXGBoost
        from gpupipe.models.xgboost.rounds import BoostingRounds

        params = keyword_arguments(settings, self.X, context, n_threads)
        with self._binning:
            binned = self._bins(settings, fold, params)
        stops_early, resources = settings.early_stopping_rounds is not None, context.resources
        rounds = BoostingRounds(settings.n_estimators, stops_early, resources.safe_point)
        native = native_parameters(settings.build(context, params), len(binned.classes))
        with explain_errors(settings, self.X, context), resources.show_progress(rounds.read):
            booster = xgboost.train(
                native,
                binned.training,
                settings.n_estimators,
                evals=[(binned.held_out, "validation")],
                early_stopping_rounds=settings.early_stopping_rounds,
                verbose_eval=False,
                callbacks=[rounds],
            )
        model = FittedXGBoost(booster, context.task, (), context.n_classes, binned.classes)
        best = booster.best_iteration + 1 if stops_early else None
        scores = booster.predict(binned.held_out, iteration_range=(0, best or 0))
        return FoldPrediction(model.prediction(scores), best)

    def _bins(self, settings: XGBoost, fold: int, params: dict[str, Any]) -> _BinnedFold:
        key = fold, settings.max_bin, str(settings.class_weight)
        if key not in self._binnings:
            while len(self._binnings) >= MOST_BINNINGS * len(self.folds):
                self._binnings.popitem(last=False)
            self._binnings[key] = self._bin(settings, fold, params)
        self._binnings.move_to_end(key)
        return self._binnings[key]

    def _bin(self, settings: XGBoost, fold: int, params: dict[str, Any]) -> _BinnedFold:
        import xgboost

        rows, context = self.folds[fold], self._context_of(fold)
        shared = {
            "max_bin": settings.max_bin,
            "enable_categorical": params["enable_categorical"],
            "feature_types": params.get("feature_types"),
            "nthread": context.backend.n_threads,
        }
        X = context.backend.take_rows(self.X, np.flatnonzero(rows.train))
        _, y, weights, classes = prepare_rows(settings, X, self.y[rows.train], context)
        training = xgboost.QuantileDMatrix(X, y, weight=weights, **shared)
        del X  # XGBoost keeps the bins, a byte per cell
        y_held, held_weights = self.y[rows.test], self._held_out_weights(settings, fold)
        if context.task in CLASSIFICATION:
            is_known = np.isin(y_held, classes)
            y_held = np.where(is_known, np.searchsorted(classes, y_held), 0)
            if not is_known.all():
                held_weights = is_known * (np.ones(len(y_held)) if held_weights is None else held_weights)
        X = context.backend.take_rows(self.X, np.flatnonzero(rows.test))
        held_out = xgboost.QuantileDMatrix(X, y_held, weight=held_weights, ref=training, **shared)
        return _BinnedFold(training, held_out, classes)


@dataclass(frozen=True)
class _BinnedFold:
    """XGBoost matrices of a fold, and the class codes of its training rows."""

    training: Any
    held_out: Any
    classes: tuple[int, ...]


def class_weights_of(settings: ModelSettings, y_train: Array, y: Array, context: FitContext) -> Array | None:
    """Return the weights of rows with the classes `y` by the ``class_weight`` of the training rows, or None.

    `context` is that of the training rows.
    """
    class_weight = getattr(settings, "class_weight", None)
    if class_weight is None or context.task not in CLASSIFICATION:
        return None
    codes = y_train.astype(np.int64)
    weights = row_weights(codes, class_weight, context.class_labels, context.n_classes, context.weights)
    if weights is None:
        return None
    by_class = np.zeros(context.n_classes)
    by_class[codes] = weights if context.weights is None else weights / context.weights
    found: Array = by_class[y.astype(np.int64)]
    return found


class RoundCount:
    """Number of rounds or epochs that the early stopping of one training finds; a callback of the training."""

    def __init__(self) -> None:
        self.best: int | None = None

    def __call__(self, found: BestRound) -> None:
        """Keep the best round."""
        self.best = found.best

    def of(self, fitted: FittedModel) -> int | None:
        """Return the best number of rounds, or of epochs by their losses; None without early stopping."""
        if self.best is None and fitted.history:
            losses = [epoch["validation"] for epoch in fitted.history]
            return losses.index(min(losses)) + 1
        return self.best


def with_mean_rounds(settings: ModelSettings, rounds: Sequence[int], n_rows: int) -> ModelSettings:
    """Return the settings of a training on all rows for the mean number of rounds of the folds.

    Settings that do not stop early are returned unchanged, as are those whose parameters cannot state the number of
    rounds: their training holds out rows once more.
    """
    if not rounds or not settings.can_state_rounds or not settings.stops_early(n_rows):
        return settings
    return settings.with_rounds(max(1, round(sum(rounds) / len(rounds))))
