"""Decisions for held-out rows, each learned from other held-out rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.metrics import join_scores
from gpupipe.metrics.conformal import Conformal, interval_ends
from gpupipe.model_parts.decision import Decision, calibrates, decide, has_rule, is_learned
from gpupipe.model_parts.goal import Truth
from gpupipe.models import Prediction
from gpupipe.models.fitted.prediction import join_predictions
from gpupipe.models.target_training import naming_target
from gpupipe.random_streams import derive_seed
from gpupipe.tasks import SUPERVISED
from gpupipe.timeline.timeline import Stage
from gpupipe.training.job import Job
from gpupipe.typing import Array

DECISION_PARTS = 5  # folds of the validation rows


def score_validation(job: Job, truth: Truth | None, prediction: Prediction) -> dict[str, float]:
    """Return the metrics of the validation rows, with decisions learned from other validation rows."""
    if job.goal.targets:
        assert truth is not None
        parts = enumerate(zip(job.of_targets(), prediction.parts, strict=True))
        return join_scores(
            job.goal.names, [score_validation(own, truth.of_target(i), part) for i, (own, part) in parts]
        )
    if not has_rule(job.config.evaluate, job.goal.task):
        return job.score(truth, prediction, fixed_decision(job))
    from sklearn.model_selection import StratifiedKFold

    assert truth is not None
    codes = job.backend.to_host(truth.y).astype(np.int64)
    counts = np.bincount(codes)
    n_parts = min(DECISION_PARTS, int(counts[counts > 0].min())) if len(counts) > 1 else 0
    if n_parts < 2:
        return job.score(truth, prediction, fixed_decision(job))
    seed = derive_seed(job.config.seed, "folds of decisions")
    parts = StratifiedKFold(n_parts, shuffle=True, random_state=seed).split(codes, codes)
    rows = [job.backend.to_device(test) for _, test in parts]
    truths = [truth.take(part) for part in rows]
    predictions = [take_rows(prediction, part) for part in rows]
    decisions = learn_decisions(job, truths, predictions, n_parts, in_order=False)
    decided = join_predictions(
        [d.apply(p, job.backend) for d, p in zip(decisions, predictions, strict=True)], job.backend.xp
    )
    joined = Decision.join(decisions, [len(truth) for truth in truths])
    return job.score(Truth.join(truths, job.backend.xp), decided, joined)


def folds_to_learn_from(fold: int, n_folds: int, in_order: bool) -> list[int]:
    """Return the folds from which a fold's decision may be learned.

    They are the others of its repeat, since other repeats test the same rows; or the earlier ones, if in order.

    - `fold`: index among the folds of all repeats
    - `n_folds`: number of folds of a repeat
    """
    first = fold - fold % n_folds
    return [j for j in range(first, fold if in_order else first + n_folds) if j != fold]


def learn_decisions(
    job: Job, truths: Sequence[Truth | None], predictions: Sequence[Prediction], n_folds: int, in_order: bool
) -> list[Decision]:
    """Return for each set of rows the decision learned from the other sets of the same repeat of `n_folds` sets."""
    found = []
    for i in range(len(truths)):
        others = folds_to_learn_from(i, n_folds, in_order)
        chosen = learn_decision(job, [truths[j] for j in others], [predictions[j] for j in others])
        found.append(chosen if others else fixed_decision(job))
    return found


def take_rows(prediction: Prediction, rows: Array) -> Prediction:
    """Return the predictions of `rows`, integers or a mask."""
    return prediction.mapped(lambda array: array[rows])


def learn_decision(job: Job, truths: Sequence[Truth | None], predictions: Sequence[Prediction]) -> Decision:
    """Return the decision learned from sets of rows together; the configured threshold if nothing is learned."""
    known = [truth for truth in truths if truth is not None]
    if not known or not is_learned(job.config.evaluate):
        return fixed_decision(job)
    return decide_on(job, Truth.join(known, job.backend.xp), join_predictions(predictions, job.backend.xp))


def decide_on(job: Job, truth: Truth | None, prediction: Prediction) -> Decision:
    """Return the decision learned from rows on the backend of `job`."""
    settings, goal = job.config.evaluate, job.goal
    if goal.targets:
        assert truth is not None
        found = []
        for i, (own, part) in enumerate(zip(job.of_targets(), prediction.parts, strict=True)):
            with naming_target(own.goal.target):
                decision = decide_on(own, truth.of_target(i), part)
            found.append(replace(decision, note=decision.note and f"{own.goal.target}: {decision.note}"))
        return Decision(targets=tuple(found))

    def learn(backend: Backend, truth: Truth | None, rows: Prediction) -> Decision:
        return decide(settings, goal.task, truth, rows, backend, goal.quantiles)

    return job.measure(learn, truth, prediction)


def note_calibration(job: Job, stage: Stage) -> None:
    """Note on a stage that calibrates on a GPU which part of it runs on the host."""
    if job.backend.name == "gpu" and any(calibrates(job.config.evaluate, task) for task in job.goal.tasks):
        stage.note("the calibration is fitted on the host")


def fixed_decision(job: Job) -> Decision:
    """Return the decision without learning: no calibration, the configured threshold or 0.5, unlimited intervals."""
    threshold = job.config.evaluate.threshold
    level = job.config.evaluate.intervals
    goal = job.goal
    if goal.targets:
        return Decision(targets=tuple(fixed_decision(own) for own in job.of_targets()))
    intervals = None
    if level is not None and goal.task in SUPERVISED:
        intervals = Conformal(level, math.inf, interval_ends(level, goal.quantiles))
    return Decision(0.5 if isinstance(threshold, str) else threshold, intervals=intervals)
