"""Tasks that a model can learn, and views of the features that it learns from. Standard library only."""

from __future__ import annotations

from typing import Literal

Task = Literal["binary", "multiclass", "regression", "clustering", "embedding"]

CLASSIFICATION: frozenset[Task] = frozenset({"binary", "multiclass"})
REGRESSION: frozenset[Task] = frozenset({"regression"})
SUPERVISED: frozenset[Task] = CLASSIFICATION | REGRESSION

View = Literal["codes", "dense", "embedding"]
"""How a model wants categories: as integer codes, as numeric columns, or as ids beside the numbers, to be embedded."""
