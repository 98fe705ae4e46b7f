"""Leaderboard of a run: each candidate with its metrics, and the exported champion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpupipe.metrics import METRICS
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Truth
from gpupipe.model_parts.latency import Latency
from gpupipe.models import Prediction
from gpupipe.report.data import LeaderboardRow
from gpupipe.report.generated_features import GeneratedFeatures, read_generated
from gpupipe.report.search_record import SearchRecord, TriedCounts, count_tried
from gpupipe.report.slices import MetricSlice
from gpupipe.training.fit import TrainedModel
from gpupipe.training.job import Candidate
from gpupipe.typing import Array


@dataclass
class LeaderboardEntry:
    """One candidate of the leaderboard, with its metrics."""

    label: str
    # On the test rows; under cross-validation the mean over the folds, and METRIC_std
    metrics: dict[str, float] = field(default_factory=dict)
    # On validation rows, if any were held out of the training rows
    validation: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0  # wall seconds of training
    # Single-row latency of the exported model, or of the model that was trained to evaluate the candidate; measured if
    # ``evaluate.max_latency`` is set
    latency: Latency | None = None
    # The models that an ensemble or the tuning of this candidate tried: of the exported model, or of the last training
    # of another candidate
    search: SearchRecord | None = None
    folds: Sequence[Mapping[str, float]] = ()  # metrics of each fold of a cross-validation, in order

    @property
    def is_over_limit(self) -> bool:
        """True if the latency exceeds ``evaluate.max_latency``."""
        return self.latency is not None and self.latency.is_over_limit


@dataclass(frozen=True)
class LeaderboardResult:
    """Leaderboard of a run, its champion and the champion's predictions of test rows."""

    leaderboard: list[LeaderboardEntry]  # best first; candidates whose latency exceeds the limit come after all others
    champion: TrainedModel  # the exported model, trained on all training rows (under cross-validation, on all rows)
    decision: Decision  # exported with the champion
    held_out: HeldOutPredictions  # predictions of the test rows by models that were not trained on them
    # Model whose test rows the importances are measured on; under cross-validation that of the last fold
    explained: Candidate
    explained_truth: Truth | None  # targets and weights of these test rows, on the host
    explained_decision: Decision  # decision of that model, learned without these rows
    n_training_rows: int  # rows that the champion was trained on
    # Under cross-validation with several candidates: metrics of the whole procedure, including the choice of the model;
    # see `gpupipe.training.selection.cross_validation`
    selection: Mapping[str, float] = field(default_factory=dict)
    # Training rows that were held out to choose the model and its decision; 0 if there were none
    n_validation_rows: int = 0
    # All evaluated rows, then the slices of each column of ``evaluate.by``; empty without any
    slices: Sequence[MetricSlice] = ()
    # The limits of ``evaluate.fail_on`` that the champion misses; None if they were not checked
    missed: Sequence[dict[str, Any]] | None = None

    @property
    def tried(self) -> TriedCounts:
        """Number of alternatives that were compared."""
        generated = self.generated
        n_features = 0 if generated is None else generated.n_tried
        return count_tried([entry.search for entry in self.leaderboard], n_features)

    @property
    def generated(self) -> GeneratedFeatures | None:
        """The features that the op ``generate`` made for the champion; None without that op."""
        return read_generated(self.champion.features.states)


@dataclass(frozen=True)
class HeldOutPredictions:
    """Predictions of test rows by models and decisions that were not learned from them."""

    rows: Array  # int64, shape (n,): row numbers of the run's table, ascending
    truth: Truth | None  # targets and weights, on the host
    predicted: Prediction  # calibrated predictions, on the backend
    decision: Decision  # threshold and intervals, for each row or for all; `predicted` is calibrated already
    # int8, shape (n,): under cross-validation, the fold in which each row is tested, from 1
    folds: Array | None = None

    @property
    def each(self) -> tuple[HeldOutPredictions, ...]:
        """The predictions of each of several targets; these for a single one."""
        if self.truth is None or not self.decision.targets:
            return (self,)
        parts = enumerate(zip(self.predicted.parts, self.decision.targets, strict=True))
        return tuple(
            replace(self, truth=self.truth.of_target(i), predicted=part, decision=own) for i, (part, own) in parts
        )


def rank(
    leaderboard: list[LeaderboardEntry], metric: str, values: Callable[[LeaderboardEntry], Mapping[str, float]]
) -> list[LeaderboardEntry]:
    """Return the entries sorted by `metric` of their `values`, best first and NaN last."""
    sign = -1.0 if METRICS.get(metric).greater_is_better else 1.0

    def key(entry: LeaderboardEntry) -> float:
        value = values(entry).get(metric, float("nan"))
        return float("inf") if np.isnan(value) else sign * value

    return sorted(leaderboard, key=key)


def leaderboard_rows(leaderboard: Sequence[LeaderboardEntry]) -> list[LeaderboardRow]:
    """Return the leaderboard as rows of a report, best first."""
    return [_row(entry, is_best=i == 0) for i, entry in enumerate(leaderboard)]


def _row(entry: LeaderboardEntry, *, is_best: bool) -> LeaderboardRow:
    row = LeaderboardRow(
        model=entry.label,
        metrics=entry.metrics,
        validation=entry.validation,
        best=is_best,
        seconds=entry.seconds,
        search=entry.search,
        folds=entry.folds,
    )
    latency = entry.latency
    if latency is None:
        return row
    return replace(
        row, p50_seconds=latency.p50_seconds, p99_seconds=latency.p99_seconds, limit_seconds=latency.limit_seconds
    )
