"""Contributions of input columns to predictions of the champion, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from gpupipe.errors import DataError
from gpupipe.features.program.fitted import write_matrix
from gpupipe.inference.explanation.column_shares import ColumnShares
from gpupipe.inference.explanation.compute import ModelExplainer, margin_classes
from gpupipe.inference.explanation.outputs import UNEXPLAINED, middle_quantile
from gpupipe.model_parts.goal import Goal
from gpupipe.models import FittedModel, Prediction
from gpupipe.models.matrix import gather_rows
from gpupipe.pipeline.records.importances_and_plots import ExplainedRows
from gpupipe.pipeline.records.trial_rows import decoded_values, recorded_rows
from gpupipe.random_streams import make_generator
from gpupipe.report.contributions import ExplainedColumn, TargetContributions
from gpupipe.report.example_rows import ExampleRow
from gpupipe.table.schema import RAW_KINDS
from gpupipe.training.fit import TrainedModel
from gpupipe.training.job import Job
from gpupipe.training.selection.leaderboard import LeaderboardResult
from gpupipe.typing import Array, HostArray

MOST_ROWS = 500
MOST_MODELS = 24  # of an ensemble; the trees of each are read and arranged before the first row is explained
LIMIT_SECONDS = 1.0  # of one processor core, by the sizes of the models: the same rows on any machine
ROW_SECONDS = 1e-5  # nominal, of a row that is explained in closed form


def explain_champion(
    job: Job, outcome: LeaderboardResult, explained: ExplainedRows | None
) -> list[TargetContributions]:
    """Return the contributions to predictions of the exported model, for each target; none without predictions.

    At most `MOST_ROWS` of the explained rows are used, as many as are predicted to take `LIMIT_SECONDS`, at least one,
    and the models of an ensemble that `models_to_explain` returns. A custom model may fail for rows that are mixed from
    two others.
    """
    if explained is None or job.goal.task in UNEXPLAINED:
        return []
    return _ChampionRows(job, outcome, explained).contributions()


class _ChampionRows:
    """Explained rows of the exported model, in the order in which they were drawn."""

    def __init__(self, job: Job, outcome: LeaderboardResult, explained: ExplainedRows) -> None:
        self._job = job
        self._outcome = outcome
        self._explained = explained
        self._model = outcome.champion.model.portable()
        generator = make_generator(job.config.seed, "rows with contributions")
        self._drawn = generator.permutation(len(explained.rows))[:MOST_ROWS]
        recorded = recorded_rows(job)
        rows = np.union1d(explained.rows[self._drawn], recorded)
        X = champion_matrix(job, outcome.champion, rows)
        self._X = X[np.searchsorted(rows, explained.rows[self._drawn])]
        self._background = X[np.searchsorted(rows, recorded)]

    def contributions(self) -> list[TargetContributions]:
        """Return the contributions for each target."""
        job, goal = self._job, self._job.goal
        shares = ColumnShares.of(self._outcome.champion.features, by_table=False)
        model, n_models = models_to_explain(self._model)
        explainer = ModelExplainer(goal, shares, model, self._usable_background)
        found = explainer.explain(self._X[: max(1, int(LIMIT_SECONDS / (ROW_SECONDS + explainer.row_seconds)))])
        values = found.values if found.values.ndim > 2 else found.values[:, :, None]
        if not np.isfinite(values).all():
            raise DataError("they are not finite")
        chosen = self._drawn[: len(found)]
        columns = [explained_column(job, name, self._explained.rows[chosen]) for name in found.columns]
        predicted = self._outcome.decision.apply(self._model.predict(self._X[: len(found)]))
        parts = predicted.parts if goal.targets else (predicted,)
        truth = self._explained.truth.take(chosen)
        truths = [truth.of_target(i).y for i in range(len(goal.targets))] or [truth.y]
        assert job.row_ids is not None
        row_ids = job.row_ids[self._explained.rows[chosen]]
        folds = self._outcome.held_out.folds
        n_candidates = len(self._outcome.held_out.rows) if folds is None else int((folds == folds.max()).sum())
        reports, start = [], 0
        for own, part, y, classes in zip(goal.each, parts, truths, margin_classes(goal, self._model), strict=True):
            width = len(classes) or 1
            margins = slice(start, start + width)
            start += width
            if goal.quantiles:
                middle = middle_quantile(goal)
                margins = slice(middle, middle + 1)
            reports.append(
                TargetContributions(
                    target=own.target,
                    scale=found.scale,
                    method=found.method,
                    columns=columns,
                    values=np.ascontiguousarray(values[:, :, margins]),
                    base=np.atleast_1d(found.base)[margins],
                    labels=margin_labels(own, classes),
                    order=margin_order(part, classes),
                    has_classes=own.n_classes > 0,
                    examples=example_rows(own, part, y, classes, row_ids),
                    n_candidates=n_candidates,
                    is_in_sample=folds is not None,
                    is_calibrated=self._outcome.decision.calibrates,
                    divided=found.divided,
                    n_models=n_models,
                    n_all_models=self._model.most_models,
                )
            )
        return reports

    def _usable_background(self) -> HostArray:
        """Return the recorded rows that the model records predictions of, by which the exported model is explained."""
        X, champion = self._background, self._outcome.champion
        usable = (
            np.ones(len(X), bool) if champion.entry.params.accepts_missing else ~np.asarray(np.isnan(X).any(axis=1))
        )
        usable[usable] = ~champion.model.unstable_rows(X[usable])
        return np.ascontiguousarray(X[usable])


def models_to_explain(model: FittedModel) -> tuple[FittedModel, int]:
    """Return an ensemble with as many models of each member as `MOST_MODELS` allows, at least one, and their number."""
    n = model.most_models
    while n > 1 and len(model.of_first_models(n).models) > MOST_MODELS:
        n -= 1
    return model.of_first_models(n), n


def champion_matrix(job: Job, champion: TrainedModel, rows: HostArray) -> HostArray:
    """Return the matrix of some rows of the table, int64, ascending, for the champion: float32, shape (n, d)."""
    mask = np.zeros(job.table.n_rows, bool)
    mask[rows] = True
    matrix = write_matrix(job.table.take(mask, job.backend), champion.features, job.backend)
    X: HostArray = np.asarray(gather_rows(matrix, None, job.backend))
    return X


def explained_column(job: Job, name: str, rows: Array) -> ExplainedColumn:
    """Return an input column with its values in some rows, int64, as they were read."""
    schema = job.table.schema
    if name not in schema or schema[name].kind in RAW_KINDS or schema[name].hash_of is not None:
        return ExplainedColumn(name=name)
    column = schema[name]
    values = decoded_values(job, name, rows)
    if column.levels is not None:
        return ExplainedColumn(name=name, kind="categorical", values=[_level_text(value) for value in values])
    kind: Literal["datetime", "numeric"] = "datetime" if column.kind == "datetime" else "numeric"
    return ExplainedColumn(name=name, kind=kind, values=_floats(values))


def _floats(values: Sequence[Any]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]


def _level_text(value: Any) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def margin_labels(goal: Goal, classes: Sequence[int]) -> tuple[str, ...]:
    """Return the label of each margin of one target: classes, the positive class, a quantile, or none for a value."""
    if classes:
        return tuple(goal.label_texts[code] for code in classes)
    if goal.task == "binary":
        return (goal.label_texts[1],)
    return (f"{goal.quantiles[middle_quantile(goal)]:g} quantile",) if goal.quantiles else ("",)


def margin_order(prediction: Prediction, classes: Sequence[int]) -> tuple[int, ...]:
    """Return the positions of the margins, those of the most frequent predicted classes first."""
    if not classes:
        return (0,)
    predicted = np.asarray(prediction.probability).argmax(axis=1)
    counts = np.bincount(predicted, minlength=max(classes) + 1)[list(classes)]
    return tuple(int(i) for i in np.argsort(-counts, kind="stable"))


def example_rows(
    goal: Goal, prediction: Prediction, y: Array, classes: Sequence[int], row_ids: Array
) -> list[ExampleRow]:
    """Return the rows with the highest, the middle and the lowest prediction; of several classes, by certainty."""
    output = np.asarray(prediction.output, np.float64)
    codes = output.argmax(axis=1) if classes else None
    if goal.quantiles:
        output = output[:, middle_quantile(goal)]
    scores = output if codes is None else output.max(axis=1)
    order = np.argsort(scores, kind="stable")
    names = ("Most certain", "Middle", "Least certain") if classes else ("Highest", "Middle", "Lowest")
    found = []
    for name, i in zip(names, dict.fromkeys((order[-1], order[len(order) // 2], order[0])), strict=False):
        code = 1 if codes is None else int(codes[i])
        mean = scores.mean() if codes is None else output[:, code].mean()
        found.append(
            ExampleRow(
                title=f"{name} prediction",
                row=int(row_ids[i]),
                position=int(i),
                margin=0 if codes is None else list(classes).index(code),
                predicted=float(scores[i]),
                mean=float(mean),
                label=goal.label_texts[code] if goal.n_classes else "",
                actual=goal.label_texts[int(y[i])] if goal.n_classes else float(y[i]),
            )
        )
    return found
