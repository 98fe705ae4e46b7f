"""The leaderboard: every model on the same rows, by validation or by folds; the best is trained again on all rows.

What is chosen on data (calibration, threshold, the model itself) is judged on rows that had no part in the choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpupipe.config import ModelEntry
from gpupipe.metrics import METRICS
from gpupipe.metrics.predictions import Threshold
from gpupipe.models import Prediction
from gpupipe.models.fitted.device import join_predictions
from gpupipe.pipeline.decision import Decision, decide, is_learned
from gpupipe.pipeline.job import Candidate, Job, train_candidates
from gpupipe.pipeline.timeline import Stage
from gpupipe.pipeline.training import TrainedModel
from gpupipe.report.data import LeaderboardRow
from gpupipe.splits import Fold, hold_out
from gpupipe.typing import Array

DECISION_PARTS = 5  # of the validation rows


@dataclass
class LeaderboardEntry:
    """One model of the leaderboard, with its metrics.

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
class LeaderboardResult:
    """The result of a leaderboard.

    Attributes
    ----------
    leaderboard : list of LeaderboardEntry
        The best first.
    champion : TrainedModel
        Trained on all training rows (under cross-validation, on all rows): the one that is exported.
    decision : Decision
        Exported with it.
    judged : HeldOutPredictions
        The test rows, as they were predicted without having been seen.
    explained : Candidate
        The model whose test rows explain the importances; under cross-validation that of the last fold.
    explained_y : array, optional
    explained_decision : Decision
        Of that model: learned without those rows.
    selection : mapping of str to float
        Under cross-validation with several candidates: metrics of the whole procedure, the choice of the model
        included; see `_selection`.
    """

    leaderboard: list[LeaderboardEntry]
    champion: TrainedModel
    decision: Decision
    held_out: HeldOutPredictions
    explained: Candidate
    explained_y: Array | None
    explained_decision: Decision
    selection: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class HeldOutPredictions:
    """Predictions of test rows by models and decisions that were not learned from them.

    Attributes
    ----------
    rows : array of int64, shape (n,)
        Of the run's table, ascending.
    y : array, shape (n,), optional
        Their targets, on the host.
    predicted : Prediction
        Calibrated; where the backend computes.
    threshold : float, or array of float64, shape (n,)
        From which each row was called positive.
    folds : array of int8, shape (n,), optional
        Under cross-validation, the fold that each row was tested in, from 1.
    """

    rows: Array
    y: Array | None
    predicted: Prediction
    threshold: Threshold
    folds: Array | None = None


def run_holdout(job: Job, entries: Sequence[ModelEntry], fold: Fold) -> LeaderboardResult:
    """Train on ``fold.train``, choose on a part held out of it, test on ``fold.test``.

    With one model and nothing to choose there is no validation part, and the model is trained once.
    """
    settings = job.config.evaluate
    if job.y is None or (len(entries) == 1 and not is_learned(settings)):
        leaderboard, candidate, decision = _without_choice(job, entries, fold)
    else:
        leaderboard, candidate, decision = _with_choice(job, entries, fold)
    y, predicted = job.target(fold.test), decision.apply(candidate.predictions["test"], job.backend)
    held_out = HeldOutPredictions(np.flatnonzero(fold.test), y, predicted, decision.threshold)
    return LeaderboardResult(leaderboard, candidate.trained, decision, held_out, candidate, y, decision)


def _without_choice(
    job: Job, entries: Sequence[ModelEntry], fold: Fold
) -> tuple[list[LeaderboardEntry], Candidate, Decision]:
    candidates = train_candidates(job, entries, fold.train, {"test": fold.test})
    decision = _fixed(job)
    leaderboard = {}
    with job.stage("evaluate", job.metrics_place):
        y = job.truth(fold.test)
        for candidate in candidates:
            metrics = job.score(y, candidate.predictions["test"], decision, candidate.matrices["test"])
            label = candidate.trained.entry.label
            leaderboard[label] = LeaderboardEntry(label, metrics, seconds=candidate.trained.seconds)
    ranked = _rank(list(leaderboard.values()), job, lambda e: e.metrics)
    best = next(c for c in candidates if c.trained.entry.label == ranked[0].label)
    return ranked, best, decision


def _with_choice(
    job: Job, entries: Sequence[ModelEntry], fold: Fold
) -> tuple[list[LeaderboardEntry], Candidate, Decision]:
    settings = job.config.evaluate
    masks = hold_out(fold.train, settings.validation, job.classes, job.groups, job.times, job.config.seed)
    fit_mask, validation = masks
    candidates = train_candidates(job, entries, fit_mask, {"validation": validation, "test": fold.test})
    with job.stage("evaluate", job.metrics_place) as stage:
        y, y_test = job.truth(validation), job.truth(fold.test)
        decisions = {c.trained.entry.label: _decided(job, y, c.predictions["validation"]) for c in candidates}
        leaderboard = [
            LeaderboardEntry(
                c.trained.entry.label,
                job.score(y_test, c.predictions["test"], decisions[c.trained.entry.label]),
                _validated(job, y, c.predictions["validation"]),
                c.trained.seconds,
            )
            for c in candidates
        ]
        ranked = _rank(leaderboard, job, lambda e: e.validation)
        best = next(c for c in candidates if c.trained.entry.label == ranked[0].label)
        decision = decisions[ranked[0].label]
        _note_calibration(job, stage)
        stage.note(f"best on validation: {ranked[0].label}; trained again on all training rows")
    refit = train_candidates(job, [best.trained.entry], fold.train, {"test": fold.test}, "refit: ")[0]
    with job.stage("refit: evaluate", job.metrics_place):
        ranked[0].metrics = job.score(y_test, refit.predictions["test"], decision)
    ranked[0].seconds += refit.trained.seconds
    return ranked, refit, decision


def _validated(job: Job, y: Array | None, prediction: Prediction) -> dict[str, float]:
    """Return the metrics of validation rows, each judged by a decision that was learned from other ones of them."""
    if not is_learned(job.config.evaluate) or job.goal.task != "binary":
        return job.score(y, prediction, _fixed(job))
    from sklearn.model_selection import StratifiedKFold

    assert y is not None
    codes = job.backend.to_host(y).astype(np.int64)
    n_parts = min(DECISION_PARTS, int(np.bincount(codes, minlength=2).min()))
    if n_parts < 2:
        return job.score(y, prediction, _fixed(job))
    parts = StratifiedKFold(n_parts, shuffle=True, random_state=job.config.seed).split(codes, codes)
    rows = [job.backend.to_device(test) for _, test in parts]
    truths, predictions = [y[part] for part in rows], [_taken(prediction, part) for part in rows]
    decisions = _decisions(job, truths, predictions, in_order=False)
    decided = join_predictions(
        [d.apply(p, job.backend) for d, p in zip(decisions, predictions, strict=True)], job.backend.xp
    )
    thresholds = np.repeat([decision.threshold for decision in decisions], [len(truth) for truth in truths])
    return job.score(job.backend.xp.concatenate(truths), decided, Decision(thresholds))


def run_folds(job: Job, entries: Sequence[ModelEntry], folds: Sequence[Fold]) -> LeaderboardResult:
    """Train and test every model on each fold; the best by the mean is trained again on all rows."""
    by_fold = []
    for i, fold in enumerate(folds, start=1):
        by_fold.append(train_candidates(job, entries, fold.train, {"test": fold.test}, f"fold {i} of {len(folds)}: "))
    with job.stage("evaluate", job.metrics_place) as stage:
        _note_calibration(job, stage)
        truths = [job.truth(fold.test) for fold in folds]
        tested = {
            entry.label: _CrossValidatedCandidate.of(job, truths, [candidates[k] for candidates in by_fold])
            for k, entry in enumerate(entries)
        }
        ranked = _rank([model.entry() for model in tested.values()], job, lambda e: e.metrics)
        best = tested[ranked[0].label]
        if is_learned(job.config.evaluate) and job.goal.task == "binary":
            others = "the earlier folds" if job.times is not None else "the other folds"
            stage.note(f"the rows of a fold are judged by what {others} say of calibration and threshold")
            if job.times is not None:
                stage.note("fold 1 has no earlier fold: it is judged uncalibrated, at a threshold of 0.5")
        decision = _decide_on(job, truths, [candidate.predictions["test"] for candidate in best.candidates])
        held_out = _pooled(job, folds, best)
        selection = _selection(job, list(tested.values()))
    everything = np.ones(job.table.n_rows, bool)
    entry = best.candidates[0].trained.entry
    champion = train_candidates(job, [entry], everything, {}, "refit: ")[0].trained
    last = job.target(folds[-1].test)
    explained = best.candidates[-1]
    return LeaderboardResult(ranked, champion, decision, held_out, explained, last, best.decisions[-1], selection)


@dataclass(frozen=True)
class _CrossValidatedCandidate:
    """One candidate over all folds, with decisions that are learned from other folds than each is applied to."""

    candidates: Sequence[Candidate]
    decisions: Sequence[Decision]
    scores: Sequence[Mapping[str, float]]

    @staticmethod
    def of(job: Job, truths: Sequence[Array | None], candidates: Sequence[Candidate]) -> _CrossValidatedCandidate:
        decisions = _decisions(
            job, truths, [candidate.predictions["test"] for candidate in candidates], in_order=job.times is not None
        )
        scores = [
            job.score(y, candidate.predictions["test"], decision, candidate.matrices["test"])
            for y, candidate, decision in zip(truths, candidates, decisions, strict=True)
        ]
        return _CrossValidatedCandidate(candidates, decisions, scores)

    def entry(self) -> LeaderboardEntry:
        seconds = sum(candidate.trained.seconds for candidate in self.candidates)
        return LeaderboardEntry(self.candidates[0].trained.entry.label, _mean_and_std(self.scores), seconds=seconds)


def _mean_and_std(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    metrics = {}
    for name in scores[0]:
        values = [score[name] for score in scores]
        metrics[name], metrics[f"{name}_std"] = float(np.mean(values)), float(np.std(values))
    return metrics


def _selection(job: Job, tested: Sequence[_CrossValidatedCandidate]) -> dict[str, float]:
    """Return the expected metrics of the exported model: each fold is scored by the model that other folds rank first.

    The mean of the best candidate is too good by chance, the more candidates there are: the rows that judge it have
    chosen it. (Tsamardinos, Greasidou and Borboudakis, 2018, correct the same bias by a bootstrap.)
    """
    n_folds = len(tested[0].scores)
    if len(tested) == 1 or n_folds < 3:
        return {}
    name = job.metrics[0]
    sign = 1.0 if METRICS.get(name).greater_is_better else -1.0
    chosen = []
    for i in range(n_folds):
        others = _judges(i, n_folds, in_order=job.times is not None)
        if others:
            means = [sign * np.mean([model.scores[j][name] for j in others]) for model in tested]
            chosen.append(tested[int(np.nan_to_num(means, nan=-np.inf).argmax())].scores[i])
    return _mean_and_std(chosen)


def _judges(fold: int, n_folds: int, in_order: bool) -> list[int]:
    """Return the folds that may choose something for a fold: the others; in the order of time, the earlier ones."""
    return [j for j in range(fold if in_order else n_folds) if j != fold]


def _decisions(
    job: Job, truths: Sequence[Array | None], predictions: Sequence[Prediction], in_order: bool
) -> list[Decision]:
    """Return for each part of the rows the decision that the other parts choose."""
    found = []
    for i in range(len(truths)):
        others = _judges(i, len(truths), in_order)
        chosen = _decide_on(job, [truths[j] for j in others], [predictions[j] for j in others])
        found.append(chosen if others else _fixed(job))
    return found


def _pooled(job: Job, folds: Sequence[Fold], best: _CrossValidatedCandidate) -> HeldOutPredictions:
    """Return all test rows in their own order, each as it was judged in its fold."""
    rows = np.concatenate([np.flatnonzero(fold.test) for fold in folds])
    sizes = [int(fold.test.sum()) for fold in folds]
    order = np.argsort(rows, kind="stable")
    parts = [
        decision.apply(candidate.predictions["test"], job.backend)
        for decision, candidate in zip(best.decisions, best.candidates, strict=True)
    ]
    predicted = _taken(join_predictions(parts, job.backend.xp), job.backend.to_device(order))
    y = None if job.y is None else job.y[rows[order]]
    thresholds = np.repeat([decision.threshold for decision in best.decisions], sizes)
    tested_in = np.repeat(np.arange(1, len(folds) + 1, dtype=np.int8), sizes)
    return HeldOutPredictions(rows[order], y, predicted, thresholds[order], tested_in[order])


def _taken(prediction: Prediction, rows: Array) -> Prediction:
    return prediction.mapped(lambda array: array[rows])


def _decide_on(job: Job, truths: Sequence[Array | None], predictions: Sequence[Prediction]) -> Decision:
    if not truths or job.y is None or not is_learned(job.config.evaluate):
        return _fixed(job)
    return _decided(job, job.backend.xp.concatenate(truths), join_predictions(predictions, job.backend.xp))


def _decided(job: Job, y: Array | None, prediction: Prediction) -> Decision:
    settings, task = job.config.evaluate, job.goal.task
    return job.measure(lambda backend, y, rows: decide(settings, task, y, rows, backend), y, prediction)


def _note_calibration(job: Job, stage: Stage) -> None:
    if job.backend.name == "gpu" and job.goal.task == "binary" and job.config.evaluate.calibrate != "none":
        stage.note("the calibration is fitted on the host, by scikit-learn")


def _fixed(job: Job) -> Decision:
    threshold = job.config.evaluate.threshold
    return Decision(0.5 if isinstance(threshold, str) else threshold)


def _rank(leaderboard: list[LeaderboardEntry], job: Job, values: Any) -> list[LeaderboardEntry]:
    """Return the entries, best first by the metric that the leaderboard is ordered by; NaN comes last."""
    name = job.metrics[0]
    sign = -1.0 if METRICS.get(name).greater_is_better else 1.0

    def key(entry: LeaderboardEntry) -> float:
        value = values(entry).get(name, float("nan"))
        return float("inf") if np.isnan(value) else sign * value

    return sorted(leaderboard, key=key)


def leaderboard_rows(leaderboard: Sequence[LeaderboardEntry]) -> list[LeaderboardRow]:
    """Return the leaderboard as rows, the best first."""
    return [
        LeaderboardRow(
            model=entry.label,
            metrics=entry.metrics,
            validation=entry.validation,
            best=i == 0,
            seconds=entry.seconds,
        )
        for i, entry in enumerate(leaderboard)
    ]
