"""Integers that are names rather than sizes: months, hours, districts. Found by what they say of the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.starter.facts import Facts
from gpupipe.starter.leaks import r_squared
from gpupipe.starter.sample import FOLDS, Sample

Array = Any
MIN_LEVELS, MAX_LEVELS = 3, 100
SMOOTHING = 5.0  # rows
MIN_GAIN = 0.01


@dataclass(frozen=True)
class Gain:
    """The share of the target's variance that a column explains as a number, and by the mean of each of its values."""

    as_number: float
    as_names: float


def find_categories(sample: Sample, facts: Mapping[str, Facts]) -> dict[str, Gain]:
    """Return the integer columns whose values explain more than their size does."""
    found = {}
    for name, x in sample.columns.items():
        column = facts[name]
        if column.holds == "integer" and MIN_LEVELS <= column.n_distinct <= MAX_LEVELS and not np.isnan(x).all():
            gain = measure(x, sample)
            if gain.as_names - max(0.0, gain.as_number) >= MIN_GAIN:
                found[name] = gain
    return found


def measure(x: Array, sample: Sample) -> Gain:
    """Return how much a column explains in both ways, on rows that were not learned from."""
    targets = _targets(sample)
    known = ~np.isnan(x)
    x = np.where(known, x, x[known].mean())
    x = (x - x.mean()) / (x.std() or 1.0)
    _, codes = np.unique(x, return_inverse=True)
    as_number, as_names = np.empty_like(targets), np.empty_like(targets)
    for k in range(FOLDS):
        learn, test = sample.fold != k, sample.fold == k
        as_number[test] = _line(x, targets, learn, test)
        as_names[test] = _means(codes, targets, learn, test)
    return Gain(r_squared(targets, as_number), r_squared(targets, as_names))


def _targets(sample: Sample) -> Array:
    """Return what is to be explained, shape (n_rows, n_targets): a rank, or 0 and 1 for each class but the first."""
    if sample.task == "multiclass":
        return np.stack([sample.y == label for label in np.unique(sample.y)[1:]], axis=1).astype(np.float64)
    return np.asarray(sample.ranks, np.float64)[:, None]


def _line(x: Array, targets: Array, learn: Array, test: Array) -> Array:
    terms = np.column_stack([np.ones(len(x)), x])
    return terms[test] @ np.linalg.lstsq(terms[learn], targets[learn], rcond=None)[0]


def _means(codes: Array, targets: Array, learn: Array, test: Array) -> Array:
    n_codes = int(codes.max()) + 1
    count = np.bincount(codes[learn], minlength=n_codes)[:, None]
    total = np.stack([np.bincount(codes[learn], t, minlength=n_codes) for t in targets[learn].T], axis=1)
    prior = targets[learn].mean(axis=0)
    return ((total + SMOOTHING * prior) / (count + SMOOTHING))[codes[test]]
