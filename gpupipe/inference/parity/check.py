"""Differences between two machines on the same rows: features by column, predictions by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gpupipe.features.program.fitted import Feature
from gpupipe.typing import Array

# Ids are looked up and must be equal. Numbers are computed, and a GPU rounds differently (fused multiply-add, another
# logarithm). A difference in the last digit can move a row across a tree's split, or to another of two equally near
# neighbours, so a share of the rows may differ: a larger one where features were also recomputed. Naive Bayes sums
# float32 logarithms: in another order of summation, probabilities on one machine differed by 6e-6.
TOLERANCE: dict[str, dict[str, float]] = {
    "ids": {"absolute": 0.0},
    "numbers": {"relative": 1e-5, "of_the_largest": 2e-6},
    "estimator": {"of_the_largest": 1e-4, "share_of_rows": 0.01},
    "predictions": {"of_the_largest": 1e-4, "share_of_rows": 0.05},
}


@dataclass(frozen=True)
class ColumnDifference:
    """Difference between the replayed and the recorded values of one feature.

    `kind` is "ids" or "numbers". `absolute` and `relative` are the largest errors; infinity if only one side has a
    value. `outside` is the number of rows whose error exceeds the tolerance, and `worst` the row with the largest
    error, among those if there are any. `here` and `recorded` are the replayed and the recorded value in that row.
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
    """Difference between the replayed and the recorded predictions."""

    rows: int  # number of rows compared
    largest: float  # the largest difference of a probability, value, distance, or component of an embedding
    outside: int  # rows with a difference that exceeds the tolerance, or another label
    label_flips: int  # rows with another label
    allowed: int  # number of rows that may be outside
    worst: int  # the row with the largest difference, among those outside if there are any; -1 if no rows were compared

    @property
    def passed(self) -> bool:
        """True if at most the allowed number of rows is outside the tolerance."""
        return self.outside <= self.allowed


def compare_columns(
    here: Array, recorded: Array, of_the_run: Array, features: Sequence[Feature], tolerance: Mapping[str, Any]
) -> list[ColumnDifference]:
    """Return the difference of each column of two matrices.

    `here` and `recorded` are float32, shape (n, d). `of_the_run`, bool, shape (n,), has the rows of the run, as opposed
    to generated rows; the largest value of a column is taken from them. `tolerance` is in the form of `TOLERANCE`.
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
    outside = error > allowed
    worst = int(np.argmax(np.where(outside, error, -1.0) if outside.any() else error))
    relative = np.divide(error, size, out=np.where(error > 0, np.inf, 0.0), where=size > 0)
    return ColumnDifference(
        feature.name,
        kind,
        float(error.max()),
        float(relative.max()),
        int(outside.sum()),
        worst,
        float(here[worst]),
        float(recorded[worst]),
    )


def compare_predictions(
    here: Array,
    recorded: Array,
    labels: Array,
    recorded_labels: Array,
    limits: Mapping[str, float],
    bounds: Sequence[int] = (),
) -> PredictionDifference:
    """Return the difference of two predictions (float64, shape (n, k)) and of their labels, shape (n,) or (n, m).

    `bounds` has the first column of each of several targets, then k: each is compared with its own largest value.
    """
    n = len(recorded)
    if n == 0:
        return PredictionDifference(0, 0.0, 0, 0, 0, -1)
    errors = _errors(here, recorded)
    flips = (labels != recorded_labels).reshape(n, -1).any(axis=1)
    outside, error = flips.copy(), errors.max(axis=1)
    for columns in [slice(*pair) for pair in pairwise(bounds)] or [slice(None)]:
        finite = np.abs(recorded[:, columns][np.isfinite(recorded[:, columns])])
        outside |= errors[:, columns].max(axis=1) > limits["of_the_largest"] * (finite.max() if len(finite) else 0.0)
    allowed = int(limits["share_of_rows"] * n)
    worst = int(np.argmax(np.where(outside, error, -1.0) if outside.any() else error))
    return PredictionDifference(n, float(error.max()), int(outside.sum()), int(flips.sum()), allowed, worst)


def _errors(here: Array, recorded: Array) -> Array:
    """Return absolute differences: 0 if both values are NaN or the same infinity, infinity if only one is."""
    same = (here == recorded) | (np.isnan(here) & np.isnan(recorded))
    with np.errstate(invalid="ignore"):
        error = np.abs(here - recorded)
    return np.where(same, 0.0, np.where(np.isfinite(error), error, np.inf))
