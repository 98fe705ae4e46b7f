"""Selection of the champion by validation or by folds; it is then trained again on all training rows.

Whatever is chosen on data (calibration, threshold, the model itself) is evaluated on rows that were not used for the
choice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from gpupipe.config import ModelEntry
from gpupipe.errors import LimitError
from gpupipe.metrics.conformal import require_rows
from gpupipe.model_parts.decision import Decision, has_rule
from gpupipe.model_parts.goal import Truth
from gpupipe.model_parts.latency import Latency
from gpupipe.models.matrix import predict_matrix
from gpupipe.splits import Fold, final_training_rows, hold_out
from gpupipe.timeline.timeline import Stage
from gpupipe.training.fit import TrainedModel
from gpupipe.training.job import Candidate, CandidateTraining, Job
from gpupipe.training.selection.cross_validation import CrossValidatedCandidate, pool_predictions, score_selection
from gpupipe.training.selection.held_out_decisions import (
    decide_on,
    fixed_decision,
    learn_decision,
    note_calibration,
    score_validation,
)
from gpupipe.training.selection.leaderboard import HeldOutPredictions, LeaderboardEntry, LeaderboardResult, rank
from gpupipe.training.selection.searches import Searches
from gpupipe.training.selection.selection_checks import require_learnable
from gpupipe.training.steps import (
    REFIT,
    EvaluationStep,
    LatencyMeasurement,
    SelectionStep,
    TrainingRound,
    is_out_of_fold,
    needs_validation,
    training_steps,
)
from gpupipe.typing import Array
from gpupipe.units import format_latency

MeasureLatency = Callable[[TrainedModel, Decision], Latency]


class Selection(ABC):
    """Selection of the exported model from the candidates of the training rounds."""

    best: ModelEntry  # the best candidate, set by the first evaluation; replaced if its latency exceeds the limit
    decision_rows: Array | None = None  # bool, shape (n_rows,): the held-out rows that the decision is learned from
    _ranked: list[LeaderboardEntry]
    _by_metric: list[LeaderboardEntry]

    def __init__(self, job: Job, entries: Sequence[ModelEntry], folds: Sequence[Fold]) -> None:
        self.job = job
        self.entries = entries
        self.folds = folds
        self._rounds: list[list[Candidate]] = []
        self._searches = Searches()

    def _steps(self) -> tuple[SelectionStep, ...]:
        job = self.job
        has_validation = needs_validation(job.config, self.entries, job.y is not None)
        return training_steps(self._n_folds, has_validation, job.config.evaluate.max_latency is not None)

    @property
    def _n_folds(self) -> int:
        """Number of folds whose candidates are trained in rounds."""
        return len(self.folds)

    def steps(self) -> Iterator[SelectionStep]:
        """Yield the steps in order.

        The caller passes the candidates of each round to `add`, and calls `evaluate` and `measure_latency` for the
        other steps. If the model that was trained again exceeds the latency limit, the next candidate is trained again.
        """
        steps = self._steps()
        yield from steps
        refit = [step for step in steps if step.label == REFIT]
        while refit and self._rounds[-1][0].trained.entry.label != self.best.label:
            yield from refit

    def masks(self, fold: Fold) -> dict[str, Array]:
        """Return the masks of the rows of a fold, by their name in a `TrainingRound`."""
        return {"train": fold.train, "test": fold.test}

    @property
    def champion_rows(self) -> Array:
        """The rows that the exported model is trained on, bool, shape (n_rows,)."""
        return self.folds[0].train

    def require_learnable(self) -> None:
        """Raise DataError if the rows of a training or of the decision cannot be learned from."""
        rounds = [step for step in self._steps() if isinstance(step, TrainingRound)]
        trained = {step.label: self.masks(self.folds[step.fold])[step.rows] for step in rounds}
        require_learnable(self.job, self.entries, trained, self.decision_rows)

    def entries_of(self, step: TrainingRound) -> Sequence[ModelEntry]:
        """Return the candidates that a round trains."""
        return [self.best] if step.is_refit else self.entries

    def open_round(self, step: TrainingRound) -> CandidateTraining:
        """Return the training of the candidates of a round, not started yet."""
        masks = self.masks(self.folds[step.fold])
        parts = {part: masks[part] for part in step.parts}
        n_rounds = sum(isinstance(each, TrainingRound) for each in self._steps())
        return CandidateTraining(self.job, self.entries_of(step), masks[step.rows], parts, step.label, n_rounds)

    def add(self, candidates: list[Candidate]) -> None:
        """Add the candidates of a finished round."""
        self._rounds.append(self._searches.add(candidates))

    @property
    def tuned(self) -> list[ModelEntry]:
        """The tuned candidates, with the best parameters of their last search."""
        return self._searches.tuned(self.entries)

    @abstractmethod
    def evaluate(self, step: EvaluationStep) -> None:
        """Evaluate the predictions of the rounds so far, and choose the best candidate."""

    def measure_latency(self, step: LatencyMeasurement, measure: MeasureLatency) -> None:
        """Measure the latency of the models of the last round, and choose the best candidate within the limit.

        Raise LimitError if no candidate is within the limit.
        """
        place = self.job.backend.host_place
        with self.job.timeline.stage(f"{step.label}latency", place, is_timing=True) as stage:
            for candidate in self._rounds[-1]:
                label = candidate.trained.entry.label
                latency = measure(candidate.trained, self._decision_of(label))
                next(entry for entry in self._ranked if entry.label == label).latency = latency
                stage.note(f"{label}: {latency}")
            if step.label != REFIT:
                self._by_metric = self._ranked
            first = self._ranked[0]
            self._ranked = sorted(self._by_metric, key=lambda entry: entry.is_over_limit)
            best = self._ranked[0]
            if best.is_over_limit:
                raise _no_candidate(self._ranked)
            if best is first:
                return
            assert first.latency is not None
            stage.note(
                f"{first.label} is better by {self.job.metrics[0]}, but its p99 of "
                f"{format_latency(first.latency.p99_seconds)} for one row exceeds evaluate.max_latency, "
                f"{format_latency(first.latency.limit_seconds)}; {best.label} is exported instead",
                "warning",
            )
            self._choose(best.label)

    def _note_decision(self, stage: Stage) -> None:
        for note in self._decision_of(self.best.label).notes:
            stage.note(note, "warning")

    @abstractmethod
    def _choose(self, label: str) -> None:
        """Set the best candidate."""

    @abstractmethod
    def _decision_of(self, label: str) -> Decision:
        """Return the decision that a candidate would be exported with."""

    @abstractmethod
    def result(self) -> LeaderboardResult:
        """Return the leaderboard; all steps must be done."""


def make_selection(job: Job, entries: Sequence[ModelEntry], folds: Sequence[Fold]) -> Selection:
    """Return the selection for a job: by folds, by validation rows, or by the test rows alone."""
    if is_out_of_fold(entries):
        return _OutOfFoldEvaluation(job, entries, folds)
    if len(folds) > 1:
        return _CrossValidation(job, entries, folds)
    has_validation = needs_validation(job.config, entries, job.y is not None)
    return (_ValidatedSelection if has_validation else _HoldoutSelection)(job, entries, folds)


class _HoldoutSelection(Selection):
    """Selection with one training: evaluate on the test rows, which also rank candidates without a target."""

    _champion: Candidate

    def evaluate(self, step: EvaluationStep) -> None:
        job = self.job
        candidates = self._rounds[0]
        test = self.folds[0].test
        with job.stage(f"{step.label}evaluate", job.metrics_place):
            truth = job.device_truth(test)
            leaderboard = [
                LeaderboardEntry(
                    c.trained.entry.label,
                    job.score(truth, c.predictions["test"], fixed_decision(job), c.matrices["test"]),
                    seconds=c.trained.seconds,
                    search=c.trained.search,
                )
                for c in candidates
            ]
        self._ranked = rank(leaderboard, job.metrics[0], lambda e: e.metrics)
        self._choose(self._ranked[0].label)

    def _choose(self, label: str) -> None:
        self._champion = _named(self._rounds[0], label)
        self.best = self._champion.trained.entry

    def _decision_of(self, label: str) -> Decision:
        return fixed_decision(self.job)

    def result(self) -> LeaderboardResult:
        job = self.job
        test = self.folds[0].test
        champion = self._champion
        decision = self._decision_of(self.best.label)
        truth, predicted = job.truth(test), decision.apply(champion.predictions["test"], job.backend)
        held_out = HeldOutPredictions(np.flatnonzero(test), truth, predicted, decision)
        n_rows = int(self.folds[0].train.sum())
        return LeaderboardResult(self._ranked, champion.trained, decision, held_out, champion, truth, decision, n_rows)


class _ValidatedSelection(_HoldoutSelection):
    """Selection on validation rows: train the best candidate again on all training rows, test on the test rows."""

    def __init__(self, job: Job, entries: Sequence[ModelEntry], folds: Sequence[Fold]) -> None:
        super().__init__(job, entries, folds)
        split, validation = job.config.split, job.config.evaluate.validation
        train, seed = folds[0].train, job.config.seed
        self._held = hold_out(split, train, validation, job.strata(train), job.groups, job.times, seed)
        self.decision_rows = self._held.test
        if (level := job.config.evaluate.intervals) is not None:
            require_rows(level, int(self._held.test.sum()))
        self._decisions: dict[str, Decision] = {}

    def masks(self, fold: Fold) -> dict[str, Array]:
        fit_mask, validation = self._held.train, self._held.test
        return {**super().masks(fold), "fit": fit_mask, "validation": validation}

    def evaluate(self, step: EvaluationStep) -> None:
        job, test = self.job, self.folds[0].test
        if step.label == REFIT:
            (self._champion,) = self._rounds[-1]
            with job.stage(f"{step.label}evaluate", job.metrics_place):
                truth = job.device_truth(test)
                decision = self._decision_of(self.best.label)
                self._ranked[0].metrics = job.score(truth, self._champion.predictions["test"], decision)
            self._ranked[0].seconds += self._champion.trained.seconds
            self._ranked[0].search = self._champion.trained.search
            return
        candidates = self._rounds[0]
        with job.stage(f"{step.label}evaluate", job.metrics_place) as stage:
            held, tested = job.device_truth(self._held.test), job.device_truth(test)
            self._decisions = {
                c.trained.entry.label: decide_on(job, held, c.predictions["validation"]) for c in candidates
            }
            leaderboard = [
                LeaderboardEntry(
                    c.trained.entry.label,
                    job.score(tested, c.predictions["test"], self._decisions[c.trained.entry.label]),
                    score_validation(job, held, c.predictions["validation"]),
                    c.trained.seconds,
                    search=c.trained.search,
                )
                for c in candidates
            ]
            self._ranked = rank(leaderboard, job.metrics[0], lambda e: e.validation)
            self._choose(self._ranked[0].label)
            note_calibration(job, stage)
            self._note_decision(stage)
            again = "" if job.config.evaluate.max_latency else "; it is trained again on all training rows"
            stage.note(f"best on the validation rows: {self.best.label}{again}")

    def _choose(self, label: str) -> None:
        self.best = _named(self._rounds[0], label).trained.entry

    def _decision_of(self, label: str) -> Decision:
        return self._decisions[label]

    def result(self) -> LeaderboardResult:
        return replace(super().result(), n_validation_rows=int(self._held.test.sum()))


def _no_candidate(leaderboard: Sequence[LeaderboardEntry]) -> LimitError:
    """Return the error that no candidate is within the latency limit, with the latency of each."""
    latencies = {entry.label: entry.latency for entry in leaderboard if entry.latency is not None}
    limit = format_latency(next(iter(latencies.values())).limit_seconds)
    lines = [f"{label}: {latency}" for label, latency in latencies.items()]
    return LimitError(
        "\n".join([f"no candidate predicts one row within {limit} (p99):", *lines]),
        where="evaluate.max_latency",
        fix="raise the limit, or add a faster model, such as logistic_regression or xgboost with fewer trees; with "
        "--resume, unchanged models are not trained again",
    )


def _named(candidates: Sequence[Candidate], label: str) -> Candidate:
    return next(candidate for candidate in candidates if candidate.trained.entry.label == label)


class _CrossValidation(Selection):
    """Selection by the mean over the folds; the best candidate is trained again on all rows, or on the last window."""

    _truths: list[Truth | None]
    _tested: dict[str, CrossValidatedCandidate]
    _held_out: HeldOutPredictions

    def __init__(self, job: Job, entries: Sequence[ModelEntry], folds: Sequence[Fold]) -> None:
        super().__init__(job, entries, folds)
        self._decisions: dict[str, Decision] = {}
        if (level := job.config.evaluate.intervals) is not None and job.y is not None:
            sizes = [int(fold.test.sum()) for fold in folds[: job.config.split.cv]]
            require_rows(level, sizes[0] if job.times is not None else sum(sizes) - max(sizes))
        self.decision_rows = np.logical_or.reduce([fold.test for fold in folds])
        all_rows = np.ones(job.table.n_rows, bool)
        self._final = all_rows if job.times is None else final_training_rows(job.config.split, job.times)

    def masks(self, fold: Fold) -> dict[str, Array]:
        return {**super().masks(fold), "all": self._final}

    @property
    def champion_rows(self) -> Array:
        return self._final

    def evaluate(self, step: EvaluationStep) -> None:
        job, folds = self.job, self.folds
        with job.stage(f"{step.label}evaluate", job.metrics_place) as stage:
            note_calibration(job, stage)
            self._truths = truths = [job.device_truth(fold.test) for fold in folds]
            self._tested = {
                entry.label: CrossValidatedCandidate.of(job, truths, [candidates[k] for candidates in self._rounds])
                for k, entry in enumerate(self.entries)
            }
            self._ranked = rank([model.entry() for model in self._tested.values()], job.metrics[0], lambda e: e.metrics)
            if any(has_rule(job.config.evaluate, task) for task in job.goal.tasks):
                others = "the earlier folds" if job.times is not None else "the other folds"
                stage.note(f"calibration and threshold of each fold are learned from {others}")
                if job.times is not None:
                    stage.note("fold 1 has no earlier fold: it is evaluated uncalibrated, at a threshold of 0.5")
            self._choose(self._ranked[0].label)
            self._note_decision(stage)
            for i, decision in enumerate(self._tested[self.best.label].decisions, 1):
                for note in decision.notes:
                    stage.note(f"fold {i}: {note}", "warning")

    def _choose(self, label: str) -> None:
        tested = self._tested[label]
        # The entry as configured: the training on all rows is the procedure that the folds have tested, and searches
        # again.
        self.best = next(entry for entry in self.entries if entry.label == label)
        self._decision_of(label)  # learned here, inside a stage
        self._held_out = pool_predictions(self.job, self.folds, tested)

    def _decision_of(self, label: str) -> Decision:
        if label not in self._decisions:
            predictions = [candidate.predictions["test"] for candidate in self._tested[label].candidates]
            self._decisions[label] = learn_decision(self.job, self._truths, predictions)
        return self._decisions[label]

    def result(self) -> LeaderboardResult:
        best = self._tested[self.best.label]
        (champion,) = self._rounds[-1]
        last = self.job.truth(self.folds[-1].test)
        self._ranked[0].search = champion.trained.search
        compared = [self._tested[entry.label] for entry in self._ranked if not entry.is_over_limit]
        return LeaderboardResult(
            self._ranked,
            champion.trained,
            self._decision_of(self.best.label),
            self._held_out,
            best.candidates[-1],
            last,
            best.decisions[-1],
            int(self._final.sum()),
            score_selection(self.job, compared),
        )


class _OutOfFoldEvaluation(_CrossValidation):
    """Evaluation of an ensemble that is trained on all rows, by its models that were not trained on a fold.

    Each fold has an ensemble of these models, whose weights are selected on the other folds. Its rows have stopped
    their trainings, and count in the statistics of the features: the metrics are slightly optimistic.
    """

    _champion: Candidate

    @property
    def _n_folds(self) -> int:
        return 0

    def masks(self, fold: Fold) -> dict[str, Array]:
        return {"train": self._final}

    def open_round(self, step: TrainingRound) -> CandidateTraining:
        return CandidateTraining(self.job, self.entries, self._final, {}, step.label, folds=self.folds)

    def add(self, candidates: list[Candidate]) -> None:
        (champion,) = self._searches.add(candidates)
        trained, of_folds = champion.trained, champion.trained.of_folds
        self._champion = replace(champion, trained=replace(trained, of_folds=()))
        for model, X in of_folds:
            own = replace(trained, model=model, seconds=trained.seconds / len(of_folds), of_folds=())
            self._rounds.append([Candidate(own, {"test": X}, {"test": predict_matrix(X, model, self.job.backend)})])

    def evaluate(self, step: EvaluationStep) -> None:
        super().evaluate(step)
        self._rounds.append([self._champion])

    def _note_decision(self, stage: Stage) -> None:
        stage.note("measured out of fold: the exported ensemble is trained on all rows, and none is left to measure it")
        super()._note_decision(stage)
