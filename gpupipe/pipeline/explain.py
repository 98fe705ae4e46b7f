"""How much each input column matters to the best model."""

from __future__ import annotations

from gpupipe.metrics import ColumnImportance, permutation_importance
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.leaderboard import Outcome


def measure_importances(job: Job, outcome: Outcome) -> list[ColumnImportance]:
    """Return the permutation importance of each input column, measured on rows that the judged model has not seen."""
    settings = job.config.evaluate.importance_settings
    if settings is None or outcome.judged_y is None:
        return []
    trained = outcome.judged.trained
    groups: dict[str, list[int]] = {}
    for i, feature in enumerate(trained.features.features):
        for name in feature.inputs:
            groups.setdefault(name, []).append(i)
    return permutation_importance(
        lambda X: outcome.decision.apply(trained.model.predict(X)),
        outcome.judged.matrices["test"],
        outcome.judged_y,
        groups,
        task=job.goal.task,
        metric=job.metrics[0],
        threshold=outcome.decision.threshold,
        n_classes=job.goal.n_classes,
        repeats=settings.repeats,
        rows=settings.rows,
        seed=job.config.seed,
    )
