"""Importances of input columns and plots of the champion, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.threads import limit_threads
from gpupipe.metrics import (
    METRICS,
    ColumnImportance,
    Curves,
    CutoffNdcg,
    QuantileLoss,
    Residuals,
    confusion,
    curves,
    cutoff_ndcgs,
    permutation_importance,
    quantile_losses,
    residuals,
)
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Truth
from gpupipe.models import FittedModel, Prediction
from gpupipe.models.composites.ensemble import FittedEnsemble
from gpupipe.models.fitted.row_blocks import repeated_predictions
from gpupipe.models.matrix import gather_rows
from gpupipe.models.progress import ProgressReport
from gpupipe.pipeline.records.importance_work import LIMIT_SECONDS, ImportanceWork, choose_work
from gpupipe.random_streams import make_generator
from gpupipe.timeline.timeline import Stage
from gpupipe.training.fit import TrainedModel
from gpupipe.training.job import Job
from gpupipe.training.selection.leaderboard import HeldOutPredictions, LeaderboardResult
from gpupipe.typing import Array

BLOCK_COLUMNS = 256  # in float64 at once
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class ModelPlots:
    """Data of the plots of a model's predictions and targets, small enough for a page.

    `curves` and `confusion`, see `gpupipe.metrics.confusion`, are for classification only, `residuals` for regression,
    `quantiles` for quantile regression, `ndcg` for ranking, and `cluster_sizes`, test rows in each cluster, for
    clustering.
    """

    curves: Curves | None = None
    confusion: list[list[float]] | None = None
    residuals: Residuals | None = None
    quantiles: list[QuantileLoss] | None = None
    ndcg: list[CutoffNdcg] | None = None
    cluster_sizes: list[int] | None = None


def draw(job: Job, outcome: LeaderboardResult) -> list[ModelPlots]:
    """Return the data of the plots, for each target: the champion's predictions of rows that it was not trained on."""
    jobs = job.of_targets() or [job]
    return [_draw(own, held_out) for own, held_out in zip(jobs, outcome.held_out.each, strict=True)]


def _draw(job: Job, held_out: HeldOutPredictions) -> ModelPlots:
    task = job.goal.task
    n_classes = job.goal.n_classes
    threshold = held_out.decision.threshold

    def measure(backend: Backend, truth: Truth | None, rows: Prediction) -> ModelPlots:
        if rows.label is not None:
            return ModelPlots(cluster_sizes=backend.to_host(backend.xp.bincount(rows.label)).tolist())
        if truth is None:
            return ModelPlots()
        y, weights = truth.y, truth.weights
        if task == "regression":
            found = residuals(y, rows.output, seed=job.config.seed, sample_weight=weights, backend=backend)
            return ModelPlots(residuals=found)
        if truth.groups is not None:
            return ModelPlots(ndcg=cutoff_ndcgs(y, rows.output, truth.groups, backend=backend))
        if task == "quantile":
            levels = job.goal.quantiles
            losses = quantile_losses(y, rows.output, levels, sample_weight=weights, backend=backend)
            return ModelPlots(quantiles=losses)
        lines = curves(task, y, rows.output, n_classes, sample_weight=weights, backend=backend)
        counts = confusion(task, y, rows.output, threshold, n_classes, sample_weight=weights, backend=backend)
        return ModelPlots(lines, counts)

    return job.measure(measure, held_out.truth, held_out.predicted)


@dataclass(frozen=True)
class ExplainedRows:
    """Test rows of the explained model, at most ``evaluate.importance.rows`` of them.

    `rows`, int64, shape (n,), are rows of the run's table, ascending. `X`, shape (n, d), is their feature matrix, and
    `truth` has their targets and weights, all on the host.
    """

    rows: Array
    X: Array
    truth: Truth

    @staticmethod
    def of(job: Job, outcome: LeaderboardResult) -> ExplainedRows | None:
        """Return a sample drawn with the seed of the run; None without a target, or without importances."""
        settings, folds = job.config.evaluate.importance_settings, outcome.held_out.folds
        truth = outcome.explained_truth
        if settings is None or truth is None:
            return None
        rows = outcome.held_out.rows if folds is None else outcome.held_out.rows[folds == folds.max()]
        chosen = draw_rows(truth, settings.rows, make_generator(job.config.seed, "explained rows"))
        X = gather_rows(outcome.explained.matrices["test"], chosen, job.backend)
        return ExplainedRows(rows, X, truth) if chosen is None else ExplainedRows(rows[chosen], X, truth.take(chosen))

    def draw(self, n_rows: int, seed: int) -> ExplainedRows:
        """Return at most `n_rows` of the rows, drawn with the seed; of a ranking, whole groups."""
        chosen = draw_rows(self.truth, n_rows, make_generator(seed, "rows of importances"))
        return self if chosen is None else ExplainedRows(self.rows[chosen], self.X[chosen], self.truth.take(chosen))


def draw_rows(truth: Truth, n_rows: int, generator: np.random.Generator) -> Array | None:
    """Return `n_rows` positions in `truth`, ascending; None if it has no more rows. Of a ranking, whole groups."""
    if len(truth) <= n_rows:
        return None
    if truth.groups is not None:
        return draw_groups(truth.groups, n_rows, generator)
    chosen: Array = np.sort(generator.choice(len(truth), n_rows, replace=False))
    return chosen


def draw_groups(groups: Array, n_rows: int, generator: np.random.Generator) -> Array:
    """Return the rows of whole groups, drawn until they have `n_rows` rows together; at least one group.

    A part of a group is easier to order than the whole: a single row is always in its place.
    """
    codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    order = generator.permutation(len(sizes))
    is_drawn = np.zeros(len(sizes), bool)
    is_drawn[order[: max(1, int(np.searchsorted(np.cumsum(sizes[order]), n_rows, side="right")))]] = True
    rows: Array = np.flatnonzero(is_drawn[codes])
    return rows


@dataclass(frozen=True)
class MeasuredImportances:
    """Importances of input columns, most important first, and the work that they were measured with."""

    columns: Sequence[ColumnImportance] = ()
    work: ImportanceWork | None = None  # None if they were not measured


def measure_importances(
    job: Job, outcome: LeaderboardResult, explained: ExplainedRows | None, stage: Stage
) -> MeasuredImportances:
    """Return permutation importances of input columns, measured on rows that the explained model was not trained on.

    At most ``evaluate.importance.columns`` columns are measured; if there are more, a note of `stage` says which. Of an
    ensemble, only the columns that a member reads are measured. Unless the configuration states an amount of work, it
    is limited by `choose_work`; a note of `stage` says if that reduces it.
    """
    settings = job.config.evaluate.importance_settings
    if settings is None or explained is None:
        return MeasuredImportances()
    trained, backend = outcome.explained.trained, job.backend
    decision = outcome.explained_decision
    groups = _columns_of_inputs(trained)
    model = trained.model
    whole = ImportanceWork(len(explained.rows), settings.repeats, min(len(groups), settings.columns), model.most_models)
    work = whole
    if not settings.model_fields_set:
        work = choose_work(whole, lambda n_models: model.of_first_models(n_models).row_seconds, LIMIT_SECONDS)
        model, explained = model.of_first_models(work.n_models), explained.draw(work.n_rows, job.config.seed)
        if reduced := work.describe(whole):
            stage.note(
                f"importances measured on {reduced}, to take little time; set evaluate.importance.rows, repeats or "
                "columns to measure more"
            )
    X, truth = explained.X, explained.truth
    if len(groups) > work.n_columns:
        groups = _heaviest(groups, work.n_columns, model, X, decision, backend, stage)
    n_copies = 0
    # Threads of OpenMP wait for each other after every tree, which takes long on a busy machine: batches do not.
    n_threads = backend.n_threads if backend.name == "cpu" and isinstance(model.unscaled, FittedEnsemble) else 1
    is_single = n_threads == 1
    n_expected = work.predicted_rows * len(model.models)  # models of one library share compiled loops
    name = job.metrics[0]
    measured, sign = replace(job, metrics=(name,)), 1.0 if METRICS.get(name).greater_is_better else -1.0

    def predict(stacked: Array) -> Prediction:
        nonlocal n_copies
        with repeated_predictions(n_expected), nullcontext() if is_single else limit_threads(openmp=1):
            found = model.predict(backend.to_device(stacked))
        n_copies += len(stacked) // len(X)
        return found

    def score(predicted: Prediction, part: slice) -> float:
        return sign * measured.score(truth, predicted.mapped(itemgetter(part)), decision)[name]

    def columns_done() -> ProgressReport:  # the first copy is not shuffled
        return ProgressReport(max(0, n_copies - 1) // work.repeats, len(groups), "column")

    with job.timeline.show_progress(columns_done), nullcontext() if is_single else limit_threads(blas=1):
        found = permutation_importance(
            predict, score, X, groups, repeats=work.repeats, seed=job.config.seed, n_threads=n_threads
        )
    return MeasuredImportances(found, replace(work, n_rows=len(X), n_columns=len(groups)))


def _columns_of_inputs(trained: TrainedModel) -> dict[str, list[int]]:
    """Return the matrix columns that are computed from each input column and that the model reads."""
    groups: dict[str, list[int]] = {}
    read = set(trained.model.columns_read() or range(len(trained.features.lineage)))
    for i, inputs in enumerate(trained.features.lineage.values()):
        for name in inputs if i in read else ():
            groups.setdefault(name, []).append(i)
    return groups


def _heaviest(
    groups: dict[str, list[int]],
    n_columns: int,
    model: FittedModel,
    X: Array,
    decision: Decision,
    backend: Backend,
    stage: Stage,
) -> dict[str, list[int]]:
    """Return the input columns with the largest weights in the model, or else with the highest correlations."""
    weights, measure = model.column_weights(X), "that the model relies on most"
    if weights is None:
        found = decision.apply(model.predict(backend.to_device(X)), backend)
        weights, measure = _correlations(X, found, backend), "that correlate most with the predictions"
    weight = {name: float(weights[columns].sum()) for name, columns in groups.items()}
    stage.note(
        f"importance measured for {n_columns:,} of {len(groups):,} columns, those {measure}; "
        "set evaluate.importance.columns to measure more"
    )
    return {name: groups[name] for name in sorted(groups, key=lambda name: -weight[name])[:n_columns]}


def _correlations(X: Array, predicted: Prediction, backend: Backend) -> Array:
    """Return the absolute correlation of each column with the predictions, summed over outputs: float64, shape (d,).

    Missing values of a column count as its mean.
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
