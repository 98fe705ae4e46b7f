"""Decisions of two models that differ: labels that flip, and numbers that move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.inference.explanation.outputs import middle_quantile
from gpupipe.inference.prediction.prediction_arrays import class_probabilities
from gpupipe.metrics.predictions import predicted_labels
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.models import Prediction
from gpupipe.report.text import number
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.inference.model import Model

MOVED_SHARE = 0.1  # of the standard deviation of the old predictions


@dataclass(frozen=True)
class FlippedLabels:
    """Number of rows whose label changed from `old` to `new`."""

    old: str
    new: str
    n_rows: int


@dataclass(frozen=True)
class DecisionChanges:
    """Rows of one target whose decision differs between two models.

    Attributes
    ----------
    target : str
    n_rows, n_flipped : int
        Rows, and those with another label; for numbers, those that moved by more than `limit`.
    pairs : tuple of FlippedLabels
        The most frequent first; empty for numbers.
    mean_move : float
        Mean absolute change of the prediction: of the probability that changes most, or of the number.
    n_by_threshold : int
        Rows that flip because of the threshold alone: with the old one, the new model would decide as the old.
    limit : float, optional
        For numbers, with its reason in `limit_reason`.
    """

    target: str
    n_rows: int
    n_flipped: int
    pairs: tuple[FlippedLabels, ...] = ()
    mean_move: float = 0.0
    n_by_threshold: int = 0
    limit: float | None = None
    limit_reason: str = ""

    @property
    def flipped_share(self) -> float:
        """Share of the rows that flipped."""
        return self.n_flipped / max(1, self.n_rows)


@dataclass(frozen=True)
class RowMoves:
    """Change of the prediction of each row for one target.

    `flipped`, bool, and `size`, float64, have shape (n,). `old` and `new` are positions in `labels`, int64, or numbers,
    float64.
    """

    flipped: HostArray
    size: HostArray
    old: HostArray
    new: HostArray
    labels: tuple[str, ...] = ()

    def text(self, values: HostArray, row: int) -> str:
        """Return `old` or `new` of a row for readers."""
        return self.labels[values[row]] if self.labels else number(float(values[row]))

    def most_moved(self, n: int) -> HostArray:
        """Return the numbers of at most `n` rows that changed: flipped ones first, each by the size of their move."""
        rows = np.flatnonzero((self.size > 0) | self.flipped)
        if len(rows) > 4 * n:  # a full sort of a million rows takes longer than their comparison
            weight = self.size[rows] + np.where(self.flipped[rows], np.max(self.size) + 1.0, 0.0)
            rows = np.sort(rows[np.argpartition(-weight, n)[: n + 1]])
        order = np.lexsort((rows, -self.size[rows], ~self.flipped[rows]))
        chosen: HostArray = rows[order[:n]]
        return chosen


def decision_changes(
    old: Model, new: Model, predicted: tuple[Prediction, Prediction], limit: float | None
) -> Iterator[tuple[DecisionChanges, RowMoves]]:
    """Yield the changes of each target.

    Numbers that move by more than `limit` count as flipped. By default, it is the mean absolute error that the run of
    the old model recorded: users of its predictions live with errors of this size, so that a smaller move
    changes no decision. Without one, it is a tenth of the standard deviation of the old predictions.
    """
    parts = [each.parts if new.goal.targets else (each,) for each in predicted]
    decisions = [model.decision.targets if new.goal.targets else (model.decision,) for model in (old, new)]
    for i, goals in enumerate(zip(old.goal.each, new.goal.each, strict=True)):
        if goals[1].task in CLASSIFICATION:
            yield _label_changes(goals, (parts[0][i], parts[1][i]), (decisions[0][i], decisions[1][i]))
        else:
            yield _number_changes(goals, (parts[0][i], parts[1][i]), limit, old)


def _label_changes(
    goals: tuple[Goal, Goal], predicted: tuple[Prediction, Prediction], decisions: tuple[Decision, Decision]
) -> tuple[DecisionChanges, RowMoves]:
    labels = tuple(dict.fromkeys([*goals[0].label_texts, *goals[1].label_texts]))
    n_rows = len(predicted[1].output)
    codes: list[HostArray] = []
    spread: list[HostArray] = []
    for goal, prediction, decision in zip(goals, predicted, decisions, strict=True):
        places = np.array([labels.index(text) for text in goal.label_texts])
        codes.append(places[predicted_labels(goal.task, prediction.output, decision.threshold)])
        each = np.zeros((n_rows, len(labels)))
        each[:, places] = class_probabilities(prediction.output)
        spread.append(each)
    size = np.abs(np.subtract(*spread)).max(axis=1)
    flipped = codes[0] != codes[1]
    cells, counts = np.unique(codes[0][flipped] * len(labels) + codes[1][flipped], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    pairs = [
        FlippedLabels(labels[cells[i] // len(labels)], labels[cells[i] % len(labels)], int(counts[i])) for i in order
    ]
    n_by_threshold = 0
    if goals[0].labels == goals[1].labels and goals[1].task == "binary":
        by_old = predicted_labels("binary", predicted[1].output, decisions[0].threshold)
        n_by_threshold = int((flipped & (by_old == codes[0])).sum())
    changes = DecisionChanges(
        goals[1].target or "", n_rows, int(flipped.sum()), tuple(pairs), float(size.mean()), n_by_threshold
    )
    return changes, RowMoves(flipped, size, codes[0], codes[1], labels)


def _number_changes(
    goals: tuple[Goal, Goal], predicted: tuple[Prediction, Prediction], limit: float | None, old: Model
) -> tuple[DecisionChanges, RowMoves]:
    goal = goals[1]
    values = [
        np.asarray(each.quantiles[:, middle_quantile(goal)] if each.quantiles is not None else each.output, np.float64)
        for each in predicted
    ]
    reason = "as given"
    if limit is None:
        metrics = old.manifest["metrics"]
        limit = metrics.get(f"mae[{goal.target}]", metrics.get("mae"))
        reason = "the mean absolute error of the old model in its run"
    if limit is None:
        limit, reason = MOVED_SHARE * float(values[0].std()), "a tenth of the standard deviation of the old predictions"
    size = np.abs(values[1] - values[0])
    flipped = size > limit
    changes = DecisionChanges(
        goal.target or "",
        len(size),
        int(flipped.sum()),
        mean_move=float(size.mean()),
        limit=float(limit),
        limit_reason=reason,
    )
    return changes, RowMoves(flipped, size, values[0], values[1])
