"""Importances of input columns and plots of the champion, for the report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.metrics import ColumnImportance, Curves, Residuals, confusion, curves, permutation_importance, residuals
from gpupipe.models import Prediction
from gpupipe.models.matrix import gather_rows
from gpupipe.models.progress import ProgressReport
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.leaderboard import LeaderboardResult
from gpupipe.pipeline.timeline import Stage
from gpupipe.typing import Array, Matrix

BLOCK_COLUMNS = 256  # in float64 at once
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class ModelPlots:
    """Data of the plots of a model's predictions and targets, small enough for a page.

    Attributes
    ----------
    curves : Curves, optional
        Of a classifier.
    confusion : list of list of int, optional
        Of a classifier; see `gpupipe.metrics.confusion`.
    residuals : Residuals, optional
        Of a regressor.
    """

    curves: Curves | None = None
    confusion: list[list[int]] | None = None
    residuals: Residuals | None = None


def draw(job: Job, outcome: LeaderboardResult) -> ModelPlots:
    """Return what is drawn of the rows that the best model had not seen, measured where its predictions are."""
    task, n_classes, threshold = job.goal.task, job.goal.n_classes, outcome.held_out.threshold

    def measure(backend: Backend, y: Array | None, rows: Prediction) -> ModelPlots:
        if y is None:
            return ModelPlots()
        if task == "regression":
            return ModelPlots(residuals=residuals(y, rows.output, seed=job.config.seed, backend=backend))
        lines = curves(task, y, rows.output, n_classes, backend=backend)
        return ModelPlots(lines, confusion(task, y, rows.output, threshold, n_classes, backend=backend))

    return job.measure(measure, outcome.held_out.y, outcome.held_out.predicted)


def measure_importances(job: Job, outcome: LeaderboardResult, stage: Stage) -> list[ColumnImportance]:
    """Return permutation importances of input columns, measured on rows that the explained model has not seen.

    They are those of all columns up to ``evaluate.importance.columns``; of more, `stage` notes which were measured.
    """
    settings = job.config.evaluate.importance_settings
    if settings is None or outcome.explained_y is None:
        return []
    trained, decision, backend = outcome.explained.trained, outcome.explained_decision, job.backend
    groups: dict[str, list[int]] = {}
    for i, inputs in enumerate(trained.features.lineage.values()):
        for name in inputs:
            groups.setdefault(name, []).append(i)
    X, y = _sample(outcome.explained.matrices["test"], outcome.explained_y, settings.rows, job.config.seed, backend)
    n_columns, n_predictions = len(groups), 0

    def predict(shuffled: Array) -> Prediction:
        nonlocal n_predictions
        n_predictions += 1
        return decision.apply(trained.model.predict(backend.to_device(shuffled)), backend)

    if n_columns > settings.columns:
        weights, measure = trained.model.column_weights(X), "that the model relies on most"
        if weights is None:
            weights, measure = _correlations(X, predict(X), backend), "that correlate most with the predictions"
        weight = {name: float(weights[columns].sum()) for name, columns in groups.items()}
        groups = {name: groups[name] for name in sorted(groups, key=lambda name: -weight[name])[: settings.columns]}
        stage.note(
            f"importance of {len(groups):,} of {n_columns:,} columns is measured, those {measure}; "
            "evaluate.importance.columns sets how many"
        )
    n_predictions = 0

    def columns_done() -> ProgressReport:  # one prediction before any column is shuffled
        return ProgressReport(max(0, n_predictions - 2) // settings.repeats, len(groups), "column")

    with job.timeline.show_progress(columns_done):
        return permutation_importance(
            lambda shuffled: predict(shuffled).output,
            X,
            y,
            groups,
            task=job.goal.task,
            metric=job.metrics[0],
            threshold=decision.threshold,
            n_classes=job.goal.n_classes,
            repeats=settings.repeats,
            rows=settings.rows,
            seed=job.config.seed,
            costs=job.config.evaluate.cost,
            backend=backend,
        )


def _correlations(X: Array, predicted: Prediction, backend: Backend) -> Array:
    """Return how strongly each column correlates with the predictions: float64, shape (d,), 0 to the outputs' number.

    A column's missing values count as its mean.
    """
    outputs = np.column_stack([backend.to_host(array).astype(np.float64) for array in predicted.arrays.values()])
    outputs = outputs - outputs.mean(axis=0)
    outputs /= np.linalg.norm(outputs, axis=0) + TINY
    found = np.empty(X.shape[1])
    for start in range(0, X.shape[1], BLOCK_COLUMNS):
        block = np.ma.masked_invalid(X[:, start : start + BLOCK_COLUMNS].astype(np.float64))
        centred = (block - block.mean(axis=0)).filled(0.0)
        centred /= np.linalg.norm(centred, axis=0) + TINY
        found[start : start + BLOCK_COLUMNS] = np.abs(centred.T @ outputs).sum(axis=1)
    return found


def _sample(X: Matrix, y: Array, n_rows: int, seed: int, backend: Backend) -> tuple[Array, Array]:
    """Return at most so many rows of a matrix, on the host, and their targets."""
    if len(y) <= n_rows:
        return gather_rows(X, None, backend), y
    chosen = np.sort(np.random.default_rng(seed).choice(len(y), n_rows, replace=False))
    return gather_rows(X, chosen, backend), y[chosen]
