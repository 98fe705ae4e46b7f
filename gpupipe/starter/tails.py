"""Numbers with a long tail, whose logarithm suits a linear model better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpupipe.starter.facts import ColumnFacts
from gpupipe.starter.power import share_explained, targets_of
from gpupipe.starter.sample import FOLDS, NumericSample
from gpupipe.typing import Array

MIN_SKEWNESS = 2.0
MIN_DISTINCT = 20


def find_long_tails(sample: NumericSample, numbers: Sequence[ColumnFacts]) -> list[str]:
    """Return the columns to take the logarithm of, if a linear model of all numbers is better for it.

    None of their values is negative; they are skewed, and half as much so as logarithms. Whether the model is better is
    measured on rows that it was not fitted to.
    """
    columns = {column.name: _filled(sample.columns[column.name]) for column in numbers}
    tails = [
        column.name
        for column in numbers
        if column.n_distinct >= MIN_DISTINCT and column.range[0] >= 0 and _has_long_tail(columns[column.name])
    ]
    logs = {name: np.log1p(columns[name]) for name in tails}
    return tails if tails and _linear_fit(columns | logs, sample) > _linear_fit(columns, sample) else []


def _filled(x: Array) -> Array:
    """Return a column with its missing values at the median."""
    known = ~np.isnan(x)
    return np.where(known, x, np.median(x[known]) if known.any() else 0.0)


def _linear_fit(columns: Mapping[str, Array], sample: NumericSample) -> float:
    """Return the share of the target that a ridge regression on standardized columns explains."""
    from sklearn.linear_model import Ridge

    X, targets = np.stack(list(columns.values()), axis=1), targets_of(sample)
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    predicted = np.empty_like(targets)
    for k in range(FOLDS):
        test = sample.fold == k
        predicted[test] = Ridge().fit(X[~test], targets[~test]).predict(X[test]).reshape(test.sum(), -1)
    return share_explained(targets, predicted)


def _has_long_tail(x: Array) -> bool:
    x = x[~np.isnan(x)]
    skewness = _skewness(x)
    return skewness > MIN_SKEWNESS and abs(_skewness(np.log1p(x))) < skewness / 2


def _skewness(x: Array) -> float:
    if len(x) == 0 or x.std() == 0:
        return 0.0
    return float(np.mean(((x - x.mean()) / x.std()) ** 3))
