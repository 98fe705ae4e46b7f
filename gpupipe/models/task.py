"""What a model can learn."""

from __future__ import annotations

from typing import Literal

Task = Literal["binary", "multiclass", "regression", "clustering", "embedding"]

CLASSIFICATION: frozenset[Task] = frozenset({"binary", "multiclass"})
SUPERVISED: frozenset[Task] = CLASSIFICATION | {"regression"}
