"""The leaderboard: every model of a run with its metrics, and the one that is exported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpupipe.metrics import METRICS
from gpupipe.metrics.predictions import Threshold
from gpupipe.models import Prediction
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.job import Candidate
from gpupipe.pipeline.training import TrainedModel
from gpupipe.report.data import LeaderboardRow
from gpupipe.typing import Array


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
    held_out : HeldOutPredictions
        The test rows, as they were predicted without having been seen.
    explained : Candidate
        The model whose test rows explain the importances; under cross-validation that of the last fold.
    explained_y : array, optional
    explained_decision : Decision
        Of that model: learned without those rows.
    selection : mapping of str to float
        Under cross-validation with several candidates: metrics of the whole procedure, the choice of the model
        included; see `gpupipe.pipeline.selection`.
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


def rank(
    leaderboard: list[LeaderboardEntry], metric: str, values: Callable[[LeaderboardEntry], Mapping[str, float]]
) -> list[LeaderboardEntry]:
    """Return the entries, best first by the metric called `metric` among their `values`; NaN comes last."""
    sign = -1.0 if METRICS.get(metric).greater_is_better else 1.0

    def key(entry: LeaderboardEntry) -> float:
        value = values(entry).get(metric, float("nan"))
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
