"""What a report shows of the best model: how much each input column matters to it, and how right it is, drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.metrics import ColumnImportance, Curves, Residuals, confusion, curves, permutation_importance, residuals
from gpupipe.models import CLASSIFICATION, Prediction
from gpupipe.models.progress import ProgressReport
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.leaderboard import Outcome
from gpupipe.pipeline.spread import matrix_rows

Array = Any


@dataclass(frozen=True)
class Drawing:
    """What is drawn of a prediction beside its target: small enough to put into a page.

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


def draw(job: Job, outcome: Outcome) -> Drawing:
    """Return what is drawn of the rows that the best model had not seen, measured where its predictions are."""
    task, n_classes, threshold = job.goal.task, job.goal.n_classes, outcome.judged.threshold

    def measure(backend: Backend, y: Array, rows: Prediction) -> Drawing:
        if task == "regression":
            return Drawing(residuals=residuals(y, rows, seed=job.config.seed, backend=backend))
        if task not in CLASSIFICATION:
            return Drawing()
        lines = curves(task, y, rows, n_classes, backend=backend)
        return Drawing(lines, confusion(task, y, rows, threshold, n_classes, backend=backend))

    return job.measured(measure, outcome.judged.y, outcome.judged.predicted)


def measure_importances(job: Job, outcome: Outcome) -> list[ColumnImportance]:
    """Return the permutation importance of each input column, measured on rows that the judged model has not seen."""
    settings = job.config.evaluate.importance_settings
    if settings is None or outcome.explained_y is None:
        return []
    trained, decision, backend = outcome.explained.trained, outcome.explained_decision, job.backend
    groups: dict[str, list[int]] = {}
    for i, inputs in enumerate(trained.features.lineage.values()):
        for name in inputs:
            groups.setdefault(name, []).append(i)
    X, y = _sample(outcome.explained.matrices["test"], outcome.explained_y, settings.rows, job.config.seed, backend)
    n_predictions = 0

    def predict(shuffled: Array) -> Prediction:
        nonlocal n_predictions
        n_predictions += 1
        return decision.apply(trained.model.predict(backend.to_device(shuffled)), backend)

    def columns_done() -> ProgressReport:  # one prediction before any column is shuffled
        return ProgressReport(max(0, n_predictions - 2) // settings.repeats, len(groups), "column")

    with job.timeline.show_progress(columns_done):
        return permutation_importance(
            predict,
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


def _sample(X: Array, y: Array, n_rows: int, seed: int, backend: Backend) -> tuple[Array, Array]:
    """Return at most so many rows of a matrix, on the host, and their targets."""
    if len(y) <= n_rows:
        return matrix_rows(X, None, backend), y
    chosen = np.sort(np.random.default_rng(seed).choice(len(y), n_rows, replace=False))
    return matrix_rows(X, chosen, backend), y[chosen]
