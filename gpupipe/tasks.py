"""Learning tasks, and the feature views that models train on. Standard library only."""

from __future__ import annotations

from typing import Literal

Task = Literal["binary", "multiclass", "regression", "quantile", "clustering", "embedding"]

CLASSIFICATION: frozenset[Task] = frozenset({"binary", "multiclass"})
REGRESSION: frozenset[Task] = frozenset({"regression"})
SUPERVISED: frozenset[Task] = CLASSIFICATION | REGRESSION | {"quantile"}

View = Literal["codes", "dense", "embedding", "combined"]
"""Encoding of categories for a model: integer codes, dense numeric columns, or ids to embed next to the numbers.

combined: the columns of the three others side by side, for an ensemble whose members read different views.
"""

MEMBER_VIEWS: tuple[View, ...] = ("codes", "dense", "embedding")
"""The views that the combined view contains."""
