"""How much each input column matters to the best model."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.metrics import ColumnImportance, permutation_importance
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.leaderboard import Outcome
from gpupipe.pipeline.spread import matrix_rows

Array = Any


def measure_importances(job: Job, outcome: Outcome) -> list[ColumnImportance]:
    """Return the permutation importance of each input column, measured on rows that the judged model has not seen."""
    settings = job.config.evaluate.importance_settings
    if settings is None or outcome.judged_y is None:
        return []
    trained, backend = outcome.judged.trained, job.backend
    groups: dict[str, list[int]] = {}
    for i, feature in enumerate(trained.features.features):
        for name in feature.inputs:
            groups.setdefault(name, []).append(i)
    X, y = _sample(outcome.judged.matrices["test"], outcome.judged_y, settings.rows, job.config.seed, backend)
    return permutation_importance(
        lambda shuffled: outcome.decision.apply(trained.model.predict(backend.to_device(shuffled))),
        X,
        y,
        groups,
        task=job.goal.task,
        metric=job.metrics[0],
        threshold=outcome.decision.threshold,
        n_classes=job.goal.n_classes,
        repeats=settings.repeats,
        rows=settings.rows,
        seed=job.config.seed,
    )


def _sample(X: Array, y: Array, n_rows: int, seed: int, backend: Backend) -> tuple[Array, Array]:
    """Return at most so many rows of a matrix, on the host, and their targets."""
    if len(y) <= n_rows:
        return matrix_rows(X, None, backend), y
    chosen = np.sort(np.random.default_rng(seed).choice(len(y), n_rows, replace=False))
    return matrix_rows(X, chosen, backend), y[chosen]
