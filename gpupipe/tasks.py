"""Learning tasks, and the feature views that models train on. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Task = Literal["binary", "multiclass", "regression", "quantile", "ranking", "multioutput", "clustering", "embedding"]

CLASSIFICATION: frozenset[Task] = frozenset({"binary", "multiclass"})
REGRESSION: frozenset[Task] = frozenset({"regression"})
SUPERVISED: frozenset[Task] = CLASSIFICATION | REGRESSION | {"quantile"}


@dataclass(frozen=True)
class TargetSpec:
    """One of several targets, for a model of the task multioutput."""

    task: Task
    n_classes: int = 0  # number of classes; 0 for regression
    name: str = field(default="", compare=False)  # the target column; not part of a model's description
    # Label of each class code, for ``class_weight``; not part of a model's description.
    labels: tuple[str, ...] = field(default=(), compare=False)

    @property
    def width(self) -> int:
        """Number of columns of its prediction: one for each of more than two classes, else 1."""
        return self.n_classes if self.task == "multiclass" else 1


View = Literal["codes", "dense", "embedding", "combined"]
"""Encoding of categories for a model: integer codes, dense numeric columns, or ids to embed next to the numbers.

combined: the columns of the three others side by side, for an ensemble whose members read different views.
"""

MEMBER_VIEWS: tuple[View, ...] = ("codes", "dense", "embedding")
"""The views that the combined view contains."""
