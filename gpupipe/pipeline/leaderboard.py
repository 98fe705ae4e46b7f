"""Who is best: every model on the same rows, by validation or by folds; the best is trained again on all it may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpupipe.config import ModelEntry
from gpupipe.metrics import METRICS
from gpupipe.models import Prediction
from gpupipe.models.fitted_device import joined
from gpupipe.pipeline.decision import Decision, decide, needs_held_out_rows
from gpupipe.pipeline.job import Contest, Job, compete
from gpupipe.pipeline.timeline import Stage
from gpupipe.pipeline.training import Trained
from gpupipe.report.data import LeaderboardRow
from gpupipe.splits import Fold, hold_out

Array = Any


@dataclass
class Entrant:
    """One model of the leaderboard, and what it reached.

    Attributes
    ----------
    label : str
    metrics : dict of str to float
        On the test rows; under cross-validation the mean over the folds, and METRIC_std.
    validation : dict of str to float
        On the rows held out of the training rows, where there are any.
    seconds : float
        Wall time of training.
    """

    label: str
    metrics: dict[str, float] = field(default_factory=dict)
    validation: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """How a leaderboard ended.

    Attributes
    ----------
    entrants : list of Entrant
        The best first.
    best : Trained
        Trained on all training rows (under cross-validation, on all rows): the one that is exported.
    decision : Decision
    judged : Contest
        The model whose test rows explain the importances; under cross-validation that of the last fold.
    judged_y : array, optional
    rows : array of int64
        The rows of the run's table that were predicted without having been seen.
    y : array, optional
        Their targets.
    predicted : Prediction
        What the best model said of them, calibrated; where it is.
    folds : array of int8, optional
        Under cross-validation, the fold that each predicted row was tested in.
    """

    entrants: list[Entrant]
    best: Trained
    decision: Decision
    judged: Contest
    judged_y: Array
    rows: Array
    y: Array
    predicted: Prediction
    folds: Array = None


def run_holdout(job: Job, entries: Sequence[ModelEntry], fold: Fold) -> Outcome:
    """Train on ``fold.train``, choose on a part held out of it, test on ``fold.test``.

    With one model and nothing to choose there is no validation part, and the model is trained once.
    """
    settings = job.config.evaluate
    if job.y is None or (len(entries) == 1 and not needs_held_out_rows(settings)):
        entrants, contest, decision = _without_choice(job, entries, fold)
    else:
        entrants, contest, decision = _with_choice(job, entries, fold)
    y, predicted = job.target(fold.test), decision.apply(contest.predictions["test"], job.backend)
    return Outcome(entrants, contest.trained, decision, contest, y, np.flatnonzero(fold.test), y, predicted)


def _without_choice(job: Job, entries: Sequence[ModelEntry], fold: Fold) -> tuple[list[Entrant], Contest, Decision]:
    contests = compete(job, entries, fold.train, {"test": fold.test})
    decision = _fixed(job)
    entrants = {}
    with job.stage_of_metrics():
        y = job.truth(fold.test)
        for contest in contests:
            metrics = job.score(y, contest.predictions["test"], decision, contest.matrices["test"])
            label = contest.trained.entry.label
            entrants[label] = Entrant(label, metrics, seconds=contest.trained.seconds)
    ranked = _ranked(list(entrants.values()), job, lambda e: e.metrics)
    best = next(c for c in contests if c.trained.entry.label == ranked[0].label)
    return ranked, best, decision


def _with_choice(job: Job, entries: Sequence[ModelEntry], fold: Fold) -> tuple[list[Entrant], Contest, Decision]:
    settings = job.config.evaluate
    masks = hold_out(fold.train, settings.validation, job.classes, job.groups, job.times, job.config.seed)
    fit_mask, validation = masks
    contests = compete(job, entries, fit_mask, {"validation": validation, "test": fold.test})
    with job.stage_of_metrics() as stage:
        y, y_test, fixed = job.truth(validation), job.truth(fold.test), _fixed(job)
        entrants = [
            Entrant(
                c.trained.entry.label,
                job.score(y_test, c.predictions["test"], fixed),
                job.score(y, c.predictions["validation"], fixed),
                c.trained.seconds,
            )
            for c in contests
        ]
        ranked = _ranked(entrants, job, lambda e: e.validation)
        best = next(c for c in contests if c.trained.entry.label == ranked[0].label)
        decision = _decided(job, y, best.predictions["validation"])
        _note_calibration(job, stage)
        stage.note(f"best on validation: {ranked[0].label}; trained again on all training rows")
    refit = compete(job, [best.trained.entry], fold.train, {"test": fold.test}, "refit: ")[0]
    with job.stage_of_metrics("refit: evaluate"):
        ranked[0].metrics = job.score(y_test, refit.predictions["test"], decision)
    ranked[0].seconds += refit.trained.seconds
    return ranked, refit, decision


def run_folds(job: Job, entries: Sequence[ModelEntry], folds: Sequence[Fold]) -> Outcome:
    """Train and test every model on each fold; the best by the mean is trained again on all rows."""
    by_fold = []
    for i, fold in enumerate(folds, start=1):
        by_fold.append(compete(job, entries, fold.train, {"test": fold.test}, f"fold {i} of {len(folds)}: "))
    with job.stage_of_metrics() as stage:
        _note_calibration(job, stage)
        truths = [job.truth(fold.test) for fold in folds]
        entrants = [_over_folds(job, truths, [contests[k] for contests in by_fold]) for k in range(len(entries))]
        ranked = _ranked(entrants, job, lambda e: e.metrics)
        k = [entry.label for entry in entries].index(ranked[0].label)
        mine = [contests[k] for contests in by_fold]
        decision = _decide_on(job, truths, mine)
        rows, y, predicted, tested_in = _pooled(job, folds, mine, decision)
    everything = np.ones(job.table.n_rows, bool)
    final = compete(job, [entries[k]], everything, {}, "refit: ")[0].trained
    last = job.target(folds[-1].test)
    return Outcome(ranked, final, decision, mine[-1], last, rows, y, predicted, tested_in)


def _over_folds(job: Job, truths: Sequence[Array], contests: Sequence[Contest]) -> Entrant:
    """Score one model on each fold; what must be chosen for a fold is chosen on the others."""
    scores = []
    for i, (y, contest) in enumerate(zip(truths, contests, strict=True)):
        others = [j for j in range(len(truths)) if j != i]
        decision = _decide_on(job, [truths[j] for j in others], [contests[j] for j in others])
        scores.append(job.score(y, contest.predictions["test"], decision, contest.matrices["test"]))
    metrics = {}
    for name in scores[0]:
        values = [score[name] for score in scores]
        metrics[name], metrics[f"{name}_std"] = float(np.mean(values)), float(np.std(values))
    return Entrant(contests[0].trained.entry.label, metrics, seconds=sum(c.trained.seconds for c in contests))


def _pooled(
    job: Job, folds: Sequence[Fold], contests: Sequence[Contest], decision: Decision
) -> tuple[Array, Array, Prediction, Array]:
    """Return rows, targets, predictions and folds of all test rows, in the order of the rows."""
    rows = np.concatenate([np.flatnonzero(fold.test) for fold in folds])
    tested_in = np.repeat(np.arange(1, len(folds) + 1, dtype=np.int8), [int(fold.test.sum()) for fold in folds])
    order = np.argsort(rows, kind="stable")
    parts = [decision.apply(contest.predictions["test"], job.backend) for contest in contests]
    there = job.backend.to_device(order)
    predicted = joined(parts, job.backend.xp).mapped(lambda array: array[there])
    y = None if job.y is None else job.y[rows[order]]
    return rows[order], y, predicted, tested_in[order]


def _decide_on(job: Job, truths: Sequence[Array], contests: Sequence[Contest]) -> Decision:
    if job.y is None or not needs_held_out_rows(job.config.evaluate):
        return _fixed(job)
    predictions = [contest.predictions["test"] for contest in contests]
    return _decided(job, job.backend.xp.concatenate(truths), joined(predictions, job.backend.xp))


def _decided(job: Job, y: Array, prediction: Prediction) -> Decision:
    settings, task = job.config.evaluate, job.goal.task
    return job.measured(lambda backend, y, rows: decide(settings, task, y, rows, backend), y, prediction)


def _note_calibration(job: Job, stage: Stage) -> None:
    if job.backend.name == "gpu" and job.goal.task == "binary" and job.config.evaluate.calibrate != "none":
        stage.note("the calibration is fitted on the host, by scikit-learn")


def _fixed(job: Job) -> Decision:
    threshold = job.config.evaluate.threshold
    return Decision(0.5 if isinstance(threshold, str) else threshold)


def _ranked(entrants: list[Entrant], job: Job, values: Any) -> list[Entrant]:
    """Return the entrants, best first by the metric that the leaderboard is ordered by; NaN comes last."""
    name = job.metrics[0]
    sign = -1.0 if METRICS.get(name).greater_is_better else 1.0

    def key(entrant: Entrant) -> float:
        value = values(entrant).get(name, float("nan"))
        return float("inf") if np.isnan(value) else sign * value

    return sorted(entrants, key=key)


def leaderboard_rows(entrants: Sequence[Entrant]) -> list[LeaderboardRow]:
    """Return the leaderboard as rows, the best first."""
    return [
        LeaderboardRow(
            model=entrant.label,
            metrics=entrant.metrics,
            validation=entrant.validation,
            best=i == 0,
            seconds=entrant.seconds,
        )
        for i, entrant in enumerate(entrants)
    ]
