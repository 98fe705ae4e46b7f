"""Differences between two machines on the same rows: features by column, predictions by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.features.program.fitted import Feature
from gpupipe.typing import Array

# Ids are looked up, numbers computed: a device multiplies and adds in one rounding, and has its own logarithm. What
# differs in the last digit can fall to the other side of a tree's split, or be another neighbour where two are as near:
# hence the share of rows that may differ, larger where the features too were computed anew. Naive Bayes sums logarithms
# in float32: with the sum in another order, probabilities on one machine were 6e-6 apart.
TOLERANCE: dict[str, dict[str, float]] = {
    "ids": {"absolute": 0.0},
    "numbers": {"relative": 1e-5, "of_the_largest": 2e-6},
    "estimator": {"of_the_largest": 1e-4, "share_of_rows": 0.01},
    "predictions": {"of_the_largest": 1e-4, "share_of_rows": 0.05},
}


@dataclass(frozen=True)
class ColumnDifference:
    """One column of the matrix, here and as it was recorded.

    Attributes
    ----------
    name : str
    kind : {"ids", "numbers"}
    absolute, relative : float
        The largest error; infinity where only one side has a value.
    outside : int
        Rows whose error is beyond the tolerance.
    worst : int
        The row of the largest error, measured by the tolerance.
    here, recorded : float
        Its two values.
    """

    name: str
    kind: str
    absolute: float
    relative: float
    outside: int
    worst: int
    here: float
    recorded: float


@dataclass(frozen=True)
class PredictionDifference:
    """Predictions, here and as they were recorded.

    Attributes
    ----------
    rows : int
        How many were compared.
    largest : float
        The largest difference: of a probability, a value, a distance, or a part of an embedding.
    outside : int
        Rows with a difference beyond the tolerance, or another label.
    label_flips : int
        Rows with another label.
    allowed : int
        Rows that may be outside.
    worst : int
        The row of the largest difference, of those outside if there are any; -1 where nothing was compared.
    """

    rows: int
    largest: float
    outside: int
    label_flips: int
    allowed: int
    worst: int

    @property
    def passed(self) -> bool:
        """Whether few enough rows are outside."""
        return self.outside <= self.allowed


def compare_columns(
    here: Array, recorded: Array, of_the_run: Array, features: Sequence[Feature], tolerance: Mapping[str, Any]
) -> list[ColumnDifference]:
    """Return the difference of each column of two matrices, float32, shape (n, d).

    Parameters
    ----------
    here, recorded : array
    of_the_run : array of bool, shape (n,)
        Rows that were not made: the largest value of a column is theirs.
    features : sequence of Feature
    tolerance : mapping
        As `TOLERANCE`.
    """
    return [
        _compare(feature, here[:, j].astype(np.float64), recorded[:, j].astype(np.float64), of_the_run, tolerance)
        for j, feature in enumerate(features)
    ]


def _compare(feature: Feature, here: Array, recorded: Array, of_the_run: Array, tolerance: Any) -> ColumnDifference:
    kind = "ids" if feature.n_codes else "numbers"
    limits = tolerance[kind]
    error = _errors(here, recorded)
    size = np.abs(np.where(np.isfinite(recorded), recorded, 0.0))
    usual = size[of_the_run]
    allowed = limits.get("absolute", 0.0) + limits.get("relative", 0.0) * size
    allowed += limits.get("of_the_largest", 0.0) * (usual.max() if len(usual) else 0.0)
    beyond = error > allowed
    worst = int(np.argmax(np.where(beyond, error, -1.0) if beyond.any() else error))
    relative = np.divide(error, size, out=np.where(error > 0, np.inf, 0.0), where=size > 0)
    return ColumnDifference(
        feature.name, kind, float(error.max()), float(relative.max()), int(beyond.sum()), worst,
        float(here[worst]), float(recorded[worst]),
    )  # fmt: skip


def compare_predictions(
    here: Array, recorded: Array, labels: Array, recorded_labels: Array, limits: Mapping[str, float]
) -> PredictionDifference:
    """Return the difference of two predictions, float64, shape (n, k), and of their labels, shape (n,)."""
    n = len(recorded)
    if n == 0:
        return PredictionDifference(0, 0.0, 0, 0, 0, -1)
    error = _errors(here, recorded).max(axis=1)
    finite = np.abs(recorded[np.isfinite(recorded)])
    flips = labels != recorded_labels
    outside = flips | (error > limits["of_the_largest"] * (finite.max() if len(finite) else 0.0))
    allowed = int(limits["share_of_rows"] * n)
    worst = int(np.argmax(np.where(outside, error, -1.0) if outside.any() else error))
    return PredictionDifference(n, float(error.max()), int(outside.sum()), int(flips.sum()), allowed, worst)


def _errors(here: Array, recorded: Array) -> Array:
    """Return absolute differences: 0 where both are missing or the same infinity, infinity where only one is."""
    same = (here == recorded) | (np.isnan(here) & np.isnan(recorded))
    with np.errstate(invalid="ignore"):
        error = np.abs(here - recorded)
    return np.where(same, 0.0, np.where(np.isfinite(error), error, np.inf))
