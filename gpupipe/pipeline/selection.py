"""Selection of the champion by validation or by folds; it is then trained again on all training rows.

Whatever is chosen on data (calibration, threshold, the model itself) is evaluated on rows that were not used for the
choice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpupipe.config import ModelEntry
from gpupipe.metrics import METRICS
from gpupipe.models import Prediction
from gpupipe.models.fitted.device import join_predictions
from gpupipe.pipeline.decision import Decision, decide, is_learned
from gpupipe.pipeline.job import Candidate, CandidateTraining, Job
from gpupipe.pipeline.leaderboard import HeldOutPredictions, LeaderboardEntry, LeaderboardResult, rank
from gpupipe.pipeline.steps import Evaluation, TrainingRound, needs_validation, training_steps
from gpupipe.pipeline.timeline import Stage
from gpupipe.splits import Fold, hold_out
from gpupipe.typing import Array

DECISION_PARTS = 5  # folds of the validation rows


class Selection(ABC):
    """Selection of the exported model from the candidates of the training rounds.

    Parameters
    ----------
    job : Job
    entries : sequence of ModelEntry
    folds : sequence of Fold

    Attributes
    ----------
    steps : tuple of TrainingRound and Evaluation
        Steps in order. The caller passes the candidates of each round to `add`, and calls `evaluate` for each
        evaluation.
    best : ModelEntry
        The best candidate, set by the first evaluation.
    """

    best: ModelEntry

    def __init__(self, job: Job, entries: Sequence[ModelEntry], folds: Sequence[Fold]) -> None:
        self.job, self.entries, self.folds = job, entries, folds
        has_validation = needs_validation(job.config, entries, job.y is not None)
        self.steps = training_steps(len(folds), has_validation)
        self._rounds: list[list[Candidate]] = []

    def masks(self, fold: Fold) -> dict[str, Array]:
        """Return the masks of the rows of a fold, by their name in a `TrainingRound`."""
        return {"train": fold.train, "test": fold.test}

    def entries_of(self, step: TrainingRound) -> Sequence[ModelEntry]:
        """Return the candidates that a round trains."""
        return [self.best] if step.is_refit else self.entries

    def open_round(self, step: TrainingRound) -> CandidateTraining:
        """Return the training of the candidates of a round, not started yet."""
        masks = self.masks(self.folds[step.fold])
        parts = {part: masks[part] for part in step.parts}
        return CandidateTraining(self.job, self.entries_of(step), masks[step.rows], parts, step.label)

    def add(self, candidates: list[Candidate]) -> None:
        """Add the candidates of a finished round."""
        self._rounds.append(candidates)

    @abstractmethod
    def evaluate(self, step: Evaluation) -> None:
        """Evaluate the predictions of the rounds so far, and choose the best candidate."""

    @abstractmethod
    def result(self) -> LeaderboardResult:
        """Return the leaderboard; all steps must be done."""


def make_selection(job: Job, entries: Sequence[ModelEntry], folds: Sequence[Fold]) -> Selection:
    """Return the selection for a job: by folds, by validation rows, or by the test rows alone."""
    if len(folds) > 1:
        return _CrossValidation(job, entries, folds)
    has_validation = needs_validation(job.config, entries, job.y is not None)
    return (_ValidatedSelection if has_validation else _HoldoutSelection)(job, entries, folds)


class _HoldoutSelection(Selection):
    """Selection with one training: evaluate on the test rows, which also rank candidates without a target."""

    _ranked: Sequence[LeaderboardEntry]
    _decision: Decision
    _champion: Candidate

    def evaluate(self, step: Evaluation) -> None:
        job, candidates, test = self.job, self._rounds[0], self.folds[0].test
        self._decision = _fixed(job)
        with job.stage(f"{step.label}evaluate", job.metrics_place):
            y = job.truth(test)
            leaderboard = [
                LeaderboardEntry(
                    c.trained.entry.label,
                    job.score(y, c.predictions["test"], self._decision, c.matrices["test"]),
                    seconds=c.trained.seconds,
                )
                for c in candidates
            ]
        self._ranked = rank(leaderboard, job.metrics[0], lambda e: e.metrics)
        self._champion = _named(candidates, self._ranked[0].label)

    def result(self) -> LeaderboardResult:
        job, test, champion, decision = self.job, self.folds[0].test, self._champion, self._decision
        y, predicted = job.target(test), decision.apply(champion.predictions["test"], job.backend)
        held_out = HeldOutPredictions(np.flatnonzero(test), y, predicted, decision.threshold)
        return LeaderboardResult(list(self._ranked), champion.trained, decision, held_out, champion, y, decision)


class _ValidatedSelection(_HoldoutSelection):
    """Selection on validation rows: train the best candidate again on all training rows, test on the test rows."""

    def __init__(self, job: Job, entries: Sequence[ModelEntry], folds: Sequence[Fold]) -> None:
        super().__init__(job, entries, folds)
        validation = job.config.evaluate.validation
        self._held = hold_out(folds[0].train, validation, job.classes, job.groups, job.times, job.config.seed)

    def masks(self, fold: Fold) -> dict[str, Array]:
        fit_mask, validation = self._held
        return {**super().masks(fold), "fit": fit_mask, "validation": validation}

    def evaluate(self, step: Evaluation) -> None:
        job, test = self.job, self.folds[0].test
        if len(self._rounds) == 2:
            (self._champion,) = self._rounds[1]
            with job.stage(f"{step.label}evaluate", job.metrics_place):
                y_test = job.truth(test)
                self._ranked[0].metrics = job.score(y_test, self._champion.predictions["test"], self._decision)
            self._ranked[0].seconds += self._champion.trained.seconds
            return
        candidates = self._rounds[0]
        with job.stage(f"{step.label}evaluate", job.metrics_place) as stage:
            y, y_test = job.truth(self._held[1]), job.truth(test)
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
            self._ranked = rank(leaderboard, job.metrics[0], lambda e: e.validation)
            self.best = _named(candidates, self._ranked[0].label).trained.entry
            self._decision = decisions[self.best.label]
            _note_calibration(job, stage)
            stage.note(f"best on the validation rows: {self.best.label}; it is trained again on all training rows")


def _named(candidates: Sequence[Candidate], label: str) -> Candidate:
    return next(candidate for candidate in candidates if candidate.trained.entry.label == label)


def _validated(job: Job, y: Array | None, prediction: Prediction) -> dict[str, float]:
    """Return the metrics of the validation rows, with decisions learned from other validation rows."""
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


class _CrossValidation(Selection):
    """Selection by the mean over the folds; the best candidate is trained again on all rows."""

    _ranked: list[LeaderboardEntry]
    _tested: _CrossValidatedCandidate
    _decision: Decision
    _held_out: HeldOutPredictions
    _selection: Mapping[str, float]

    def masks(self, fold: Fold) -> dict[str, Array]:
        return {**super().masks(fold), "all": np.ones(self.job.table.n_rows, bool)}

    def evaluate(self, step: Evaluation) -> None:
        job, folds = self.job, self.folds
        with job.stage(f"{step.label}evaluate", job.metrics_place) as stage:
            _note_calibration(job, stage)
            truths = [job.truth(fold.test) for fold in folds]
            tested = {
                entry.label: _CrossValidatedCandidate.of(job, truths, [candidates[k] for candidates in self._rounds])
                for k, entry in enumerate(self.entries)
            }
            self._ranked = rank([model.entry() for model in tested.values()], job.metrics[0], lambda e: e.metrics)
            self._tested = best = tested[self._ranked[0].label]
            self.best = best.candidates[0].trained.entry
            if is_learned(job.config.evaluate) and job.goal.task == "binary":
                others = "the earlier folds" if job.times is not None else "the other folds"
                stage.note(f"calibration and threshold of each fold are learned from {others}")
                if job.times is not None:
                    stage.note("fold 1 has no earlier fold: it is evaluated uncalibrated, at a threshold of 0.5")
            self._decision = _decide_on(job, truths, [candidate.predictions["test"] for candidate in best.candidates])
            self._held_out = _pooled(job, folds, best)
            self._selection = _selection(job, list(tested.values()))

    def result(self) -> LeaderboardResult:
        best, (champion,), last = self._tested, self._rounds[-1], self.job.target(self.folds[-1].test)
        return LeaderboardResult(
            self._ranked, champion.trained, self._decision, self._held_out, best.candidates[-1], last,
            best.decisions[-1], self._selection,
        )  # fmt: skip


@dataclass(frozen=True)
class _CrossValidatedCandidate:
    """One candidate over all folds, with a decision per fold that is learned from other folds."""

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

    The mean of the best candidate is optimistic, because the same rows choose and evaluate it; the bias grows with the
    number of candidates. (Tsamardinos, Greasidou and Borboudakis, 2018, correct the same bias with a bootstrap.)
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
    """Return the folds from which a fold's decision may be learned: the others, or the earlier ones if in order."""
    return [j for j in range(fold if in_order else n_folds) if j != fold]


def _decisions(
    job: Job, truths: Sequence[Array | None], predictions: Sequence[Prediction], in_order: bool
) -> list[Decision]:
    """Return for each set of rows the decision learned from the other sets."""
    found = []
    for i in range(len(truths)):
        others = _judges(i, len(truths), in_order)
        chosen = _decide_on(job, [truths[j] for j in others], [predictions[j] for j in others])
        found.append(chosen if others else _fixed(job))
    return found


def _pooled(job: Job, folds: Sequence[Fold], best: _CrossValidatedCandidate) -> HeldOutPredictions:
    """Return the predictions of all test rows in table order, each with the decision of its fold."""
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
        stage.note("the calibration is fitted on the host by scikit-learn")


def _fixed(job: Job) -> Decision:
    threshold = job.config.evaluate.threshold
    return Decision(0.5 if isinstance(threshold, str) else threshold)
