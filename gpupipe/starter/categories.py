"""Integers that are names rather than sizes: months, hours, districts. Found by what they say of the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.starter.facts import Facts
from gpupipe.starter.kinds import Declaration
from gpupipe.starter.leaks import r_squared
from gpupipe.starter.sample import FOLDS, Sample

Array = Any
Predict = Callable[[Array, Array, Array], Array]
MIN_LEVELS, MAX_LEVELS = 3, 250
MOST = 0.9  # of the rows with one value, mostly zero: an amount
SMOOTHING = 5.0  # rows
MIN_GAIN = 0.01  # over a straight line
FEW_LEVELS = 12
MIN_GAIN_OVER_CURVE = 0.02  # with more levels: a size whose effect is bent is still a size


@dataclass(frozen=True)
class Gain:
    """The share of the target's variance that a column explains: by a line, by a curve, by the mean of each value."""

    as_number: float
    as_curve: float
    as_names: float

    def is_of_names(self, n_distinct: int) -> bool:
        """Return whether the values are names: what each says is not told by its size."""
        is_not_bent = n_distinct <= FEW_LEVELS or self.as_names - self.as_curve >= MIN_GAIN_OVER_CURVE
        return is_not_bent and self.as_names - max(0.0, self.as_number) >= MIN_GAIN

    def about(self) -> str:
        """Return it in words."""
        shares = [f"{max(0.0, share):.0%}" for share in (self.as_names, self.as_number)]
        return f"its values explain {shares[0]} of the target, its size {shares[1]}"


def find_categories(sample: Sample, integers: Sequence[Facts]) -> dict[str, Declaration]:
    """Return the declaration of each of the columns whose values explain more than their size does."""
    found = {}
    for column in integers:
        if _may_be_names(column):
            gain = measure(sample.columns[column.name], sample)
            if gain.is_of_names(column.n_distinct):
                found[column.name] = Declaration("categorical", gain.about())
    return found


def _may_be_names(column: Facts) -> bool:
    is_candidate = column.holds == "integer" and MIN_LEVELS <= column.n_distinct <= MAX_LEVELS
    return is_candidate and int(column.counts.max()) <= MOST * column.n_filled


def measure(x: Array, sample: Sample) -> Gain:
    """Return how much a column explains in each way, on rows that were not learned from."""
    targets = _targets(sample)
    known = ~np.isnan(x)
    x = np.where(known, x, x[known].mean() if known.any() else 0.0)
    _, codes = np.unique(x, return_inverse=True)
    line = np.vander((x - x.mean()) / (x.std() or 1.0), 2)
    curve = np.vander(codes / max(1, codes.max()), 4)  # of the order of the values: no wild one rules
    shares = []
    for predict in (_polynomial(line), _polynomial(curve), _means(codes)):
        predicted = np.empty_like(targets)
        for k in range(FOLDS):
            learn, test = sample.fold != k, sample.fold == k
            predicted[test] = predict(targets, learn, test)
        shares.append(r_squared(targets, predicted))
    return Gain(*shares)


def _targets(sample: Sample) -> Array:
    """Return what is to be explained, shape (n_rows, n_targets): a rank, or 0 and 1 for each class but the first."""
    if sample.task == "multiclass":
        return np.stack([sample.y == label for label in np.unique(sample.y)[1:]], axis=1).astype(np.float64)
    return np.asarray(sample.ranks, np.float64)[:, None]


def _polynomial(terms: Array) -> Predict:
    def predict(targets: Array, learn: Array, test: Array) -> Array:
        return terms[test] @ np.linalg.lstsq(terms[learn], targets[learn], rcond=None)[0]

    return predict


def _means(codes: Array) -> Predict:
    n_codes = int(codes.max()) + 1

    def predict(targets: Array, learn: Array, test: Array) -> Array:
        count = np.bincount(codes[learn], minlength=n_codes)[:, None]
        total = np.stack([np.bincount(codes[learn], t, minlength=n_codes) for t in targets[learn].T], axis=1)
        prior = targets[learn].mean(axis=0)
        return ((total + SMOOTHING * prior) / (count + SMOOTHING))[codes[test]]

    return predict
