"""Training of one model of an ensemble on one fold."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from gpupipe.models import FitContext, FittedModel, ModelSettings, Resources
from gpupipe.models.composites.ensemble import EnsembleMember, FittedEnsemble
from gpupipe.models.composites.scaled_target import FittedScaledTarget
from gpupipe.models.context import ValidationRows, never_stop
from gpupipe.models.matrix import predict_matrix
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.training import fit
from gpupipe.splits import Fold
from gpupipe.tasks import CLASSIFICATION, View
from gpupipe.training.ensemble.folds import FoldRule, predicted_rows
from gpupipe.training.ensemble.portfolio import BASE, PortfolioEntry
from gpupipe.typing import Array

MOST_CELLS = 50_000_000  # of a matrix of which several folds are copied at the same time


@dataclass(frozen=True)
class FoldModel:
    """Model trained on one fold.

    `predicted`, float64, shape (m,) or (m, k), has the predictions of the held-out rows, on the host. `seconds` is the
    wall time of training and predicting.
    """

    model: FittedModel
    predicted: Array
    seconds: float


@dataclass
class EnsembleRows:
    """Training rows of an ensemble, and the matrices that its members read.

    `X`, float32, shape (n, d), column-major, is the combined view, on the device of the backend. `y`, shape (n,), has
    class codes or numbers, on the host, and `weights` has shape (n,). `context` is that of the ensemble. `rule` divides
    the rows into folds.
    """

    X: Array
    y: Array
    weights: Array | None
    context: FitContext
    _matrices: dict[View, Array] = field(default_factory=dict)
    rule: FoldRule = field(default_factory=FoldRule, kw_only=True)

    def columns(self, view: View) -> tuple[int, ...]:
        """Return the columns of a view in the combined matrix."""
        views = self.context.views
        return tuple(views[view]) if view in views else tuple(range(self.X.shape[1]))

    def matrix(self, view: View) -> Array:
        """Return the columns of a view, column-major; no copy if they are adjacent."""
        if view not in self._matrices:
            columns = self.columns(view)
            first, last = columns[0], columns[-1] + 1
            is_slice = columns == tuple(range(first, last))
            self._matrices[view] = self.X[:, first:last] if is_slice else self.X.T[list(columns)].T
        return self._matrices[view]

    def fit_fold(
        self, settings: ModelSettings, fold: Fold, seed: int, n_threads: int, safe_point: Callable[[str], None]
    ) -> FoldModel:
        """Train a model on the rows of a fold, stopping early by its test rows, and predict those that it predicts."""
        start = time.perf_counter()
        X = self.matrix(settings.view)
        context = self.context
        train, test = np.flatnonzero(fold.train), np.flatnonzero(fold.test)
        held_out, y = self._take(X, test), self.y[train]
        # A class that the training rows lack has no probability, and its loss would be infinite.
        known = np.isin(self.y[test], y) if context.task in CLASSIFICATION else np.ones(len(test), bool)
        is_whole = bool(known.all())
        validation = ValidationRows(
            held_out if is_whole else self._take(X, test[known]),
            self.y[test[known]],
            None if self.weights is None else self.weights[test[known]],
        )
        model = self._fit(settings, self._take(X, train), train, seed, n_threads, safe_point, validation)
        rows = predicted_rows(fold)
        predicted = self._predict(held_out if rows is fold.test else self._take(X, np.flatnonzero(rows)), model)
        return FoldModel(model, predicted, time.perf_counter() - start)

    def fit_entry(
        self, entry: PortfolioEntry, fold: Fold, seed: int, n_threads: int, safe_point: Callable[[str], None]
    ) -> FoldModel:
        """Train the model of an entry as `fit_fold` does; one with a base learns the residuals of the base.

        That model is the sum of both: two times their mean, over the combined view.
        """
        if entry.base is None:
            return self.fit_fold(entry.settings, fold, seed, n_threads, safe_point)
        start, names = time.perf_counter(), tuple(self.context.feature_names)
        base = self.fit_fold(entry.base, fold, seed, n_threads, safe_point).model
        offset = self._predict(self.matrix(entry.base.view), base)
        residual = replace(self, y=self.y - offset).fit_fold(entry.settings, fold, seed, n_threads, safe_point)
        members = [
            EnsembleMember(label, name, 0.5, self.columns(settings.view), (model,))
            for label, name, settings, model in (
                (f"base of {entry.label}", BASE, entry.base, base),
                (entry.label, entry.name, entry.settings, residual.model),
            )
        ]
        mean = FittedEnsemble(tuple(members), self.context.task, names)
        total = FittedScaledTarget((mean,), self.context.task, names, units=((0.0, 2.0),))
        predicted = residual.predicted + offset[predicted_rows(fold)]
        return FoldModel(total, predicted, time.perf_counter() - start)

    def _predict(self, X: Array, model: FittedModel) -> Array:
        backend = self.context.backend
        found: Array = backend.to_host(predict_matrix(X, model, backend).output)
        return found

    def fit_forest(self, settings: ModelSettings, seed: int) -> FoldModel:
        """Train a forest on all rows; the trees that were not grown on a row predict it (out of bag)."""
        start, context = time.perf_counter(), self.context
        X, rows = self.matrix(settings.view), np.arange(len(self.y))
        found: list[Array] = []
        model = self._fit(
            settings, X, rows, seed, context.backend.n_threads, never_stop, None, report_out_of_bag=found.append
        )
        predicted = found[0]
        if context.task == "binary":
            predicted = predicted[:, 1]
        elif context.task == "multiclass":
            predicted = np.zeros((len(rows), context.n_classes))
            predicted[:, list(model.classes)] = found[0]
        return FoldModel(model, predicted.astype(np.float64), time.perf_counter() - start)

    def _fit(
        self,
        settings: ModelSettings,
        X: Array,
        rows: Array,
        seed: int,
        n_threads: int,
        safe_point: Callable[[str], None],
        validation: ValidationRows | None,
        report_out_of_bag: Callable[[Array], None] | None = None,
    ) -> FittedModel:
        outer, columns = self.context, self.columns(settings.view)
        context = replace(
            outer,
            seed=seed,
            categorical={j: outer.categorical[c] for j, c in enumerate(columns) if c in outer.categorical},
            feature_names=[outer.feature_names[c] for c in columns] if outer.feature_names else (),
            resources=Resources(outer.resources.n_processes, safe_point=safe_point),
            validation=validation,
            report_out_of_bag=report_out_of_bag,
            groups=None,
            times=None,
            weights=None,
            views={},
        )
        weights = None if self.weights is None else self.weights[rows]
        return fit(settings, X, self.y[rows], context, weights, n_threads)

    def _take(self, X: Array, rows: Array) -> Array:
        return self.context.backend.take_rows(X, rows)

    def can_end_early(self, settings: ModelSettings) -> bool:
        """Return whether a training can end after any round or epoch, with the best one so far."""
        return isinstance(settings, NeuralSettings) or settings.stops_early(len(self.y))

    def n_at_once(self, settings: ModelSettings) -> int:
        """Return the number of folds to train at the same time, each on its share of the threads.

        Several small trainings on one thread each take less time than one after the other on all threads, because
        threads wait for each other in every round. On a device, and for networks, whose library has one global state,
        it is 1.
        """
        backend = self.context.backend
        is_alone = backend.name != "cpu" or isinstance(settings, NeuralSettings) or self.X.size > MOST_CELLS
        return 1 if is_alone else backend.n_threads
