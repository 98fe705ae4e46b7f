"""Candidates over the folds of a cross-validation: their metrics, their decisions, and their pooled predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpupipe.metrics import METRICS
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Truth
from gpupipe.models.fitted.prediction import join_predictions
from gpupipe.splits import Fold
from gpupipe.training.job import Candidate, Job
from gpupipe.training.selection.held_out_decisions import folds_to_learn_from, learn_decisions, take_rows
from gpupipe.training.selection.leaderboard import HeldOutPredictions, LeaderboardEntry


@dataclass(frozen=True)
class CrossValidatedCandidate:
    """One candidate over all folds, with a decision per fold that is learned from other folds."""

    candidates: Sequence[Candidate]
    decisions: Sequence[Decision]
    scores: Sequence[Mapping[str, float]]

    @staticmethod
    def of(job: Job, truths: Sequence[Truth | None], candidates: Sequence[Candidate]) -> CrossValidatedCandidate:
        """Return a candidate from the targets of the test rows of each fold, and its models."""
        predictions, n_folds = [candidate.predictions["test"] for candidate in candidates], job.config.split.cv or 1
        decisions = learn_decisions(job, truths, predictions, n_folds, in_order=job.times is not None)
        scores = [
            job.score(truth, candidate.predictions["test"], decision, candidate.matrices["test"])
            for truth, candidate, decision in zip(truths, candidates, decisions, strict=True)
        ]
        return CrossValidatedCandidate(candidates, decisions, scores)

    def entry(self) -> LeaderboardEntry:
        """Return its entry of the leaderboard: means and standard deviations over the folds."""
        seconds, last = sum(candidate.trained.seconds for candidate in self.candidates), self.candidates[-1].trained
        return LeaderboardEntry(
            last.entry.label, _mean_and_std(self.scores), seconds=seconds, search=last.search, folds=tuple(self.scores)
        )


def _mean_and_std(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    metrics = {}
    for name in scores[0]:
        values = [score[name] for score in scores]
        metrics[name], metrics[f"{name}_std"] = float(np.mean(values)), float(np.std(values))
    return metrics


def score_selection(job: Job, tested: Sequence[CrossValidatedCandidate]) -> dict[str, float]:
    """Return the expected metrics of the exported model: each fold is scored by the model that other folds rank first.

    The mean of the best candidate is optimistic, because the same rows choose and evaluate it; the bias grows with the
    number of candidates. (Tsamardinos, Greasidou and Borboudakis, 2018, correct the same bias with a bootstrap.)
    """
    n_folds = job.config.split.cv or 1
    if len(tested) == 1 or n_folds < 3:
        return {}
    name = job.metrics[0]
    sign = 1.0 if METRICS.get(name).greater_is_better else -1.0
    chosen = []
    for i in range(len(tested[0].scores)):
        others = folds_to_learn_from(i, n_folds, in_order=job.times is not None)
        if others:
            means = [sign * np.mean([model.scores[j][name] for j in others]) for model in tested]
            chosen.append(tested[int(np.nan_to_num(means, nan=-np.inf).argmax())].scores[i])
    return _mean_and_std(chosen)


def pool_predictions(job: Job, folds: Sequence[Fold], best: CrossValidatedCandidate) -> HeldOutPredictions:
    """Return the predictions of all test rows in table order, each with the decision of its fold.

    Of repeats, they are those of the first: each row is predicted once.
    """
    folds = folds[: job.config.split.cv]
    rows = np.concatenate([np.flatnonzero(fold.test) for fold in folds])
    sizes = [int(fold.test.sum()) for fold in folds]
    order = np.argsort(rows, kind="stable")
    parts = [
        decision.apply(candidate.predictions["test"], job.backend)
        for decision, candidate, _ in zip(best.decisions, best.candidates, folds, strict=False)
    ]
    predicted = take_rows(join_predictions(parts, job.backend.xp), job.backend.to_device(order))
    decision = Decision.join(best.decisions[: len(folds)], sizes, order)
    tested_in = np.repeat(np.arange(1, len(folds) + 1, dtype=np.int8), sizes)
    return HeldOutPredictions(rows[order], job.truth(rows[order]), predicted, decision, tested_in[order])
