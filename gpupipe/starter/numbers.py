"""Integers that may be categories (districts, codes), and long-tailed numbers for log1p."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpupipe.starter.facts import ColumnFacts
from gpupipe.starter.power import level_codes, level_means, out_of_fold, share_explained, targets_of
from gpupipe.starter.sample import NumericSample
from gpupipe.typing import Array

MIN_LEVELS, MAX_LEVELS = 3, 250
MIN_ROWS_PER_LEVEL = 20
MAX_MODE_SHARE = 0.9  # a column with a larger share of one value, mostly 0, is an amount
MIN_GAIN = 0.01
MAX_STEPS = 8
MIN_SKEWNESS = 2.0
MIN_DISTINCT = 20  # of a long tail


def find_categories(sample: NumericSample, integers: Sequence[ColumnFacts]) -> Mapping[str, str]:
    """Return the columns whose levels explain more of the target than their order does, with the evidence."""
    found = {}
    for column in integers:
        if _may_be_categories(column, sample):
            as_line, as_steps, as_levels = shares_explained(column.name, sample)
            by_order = max(0.0, as_line, as_steps)
            if as_levels - by_order >= MIN_GAIN:
                found[column.name] = (
                    f"as categories they explain {as_levels:.0%} of the target, as numbers {by_order:.0%}"
                )
    return found


def _may_be_categories(column: ColumnFacts, sample: NumericSample) -> bool:
    is_candidate = column.holds == "integer" and MIN_LEVELS <= column.n_distinct <= MAX_LEVELS
    has_rows = column.n_distinct * MIN_ROWS_PER_LEVEL <= len(sample.y)
    return is_candidate and has_rows and int(column.counts.max()) <= MAX_MODE_SHARE * column.n_filled


def shares_explained(name: str, sample: NumericSample) -> list[float]:
    """Return the shares of target variance that a column explains by a line, by a small tree, and by level means."""
    from sklearn.linear_model import LinearRegression
    from sklearn.tree import DecisionTreeRegressor

    x, targets = sample.columns[name], targets_of(sample)
    codes = level_codes(x)
    X = np.where(np.isnan(x), np.nanmean(x), x)[:, None]
    steps = DecisionTreeRegressor(max_leaf_nodes=MAX_STEPS, random_state=0)
    predicted = [out_of_fold(model, X, targets, sample.fold) for model in (LinearRegression(), steps)]
    predicted.append(level_means(codes, targets, sample.fold))
    return [share_explained(targets, each) for each in predicted]


def find_long_tails(sample: NumericSample, numbers: Sequence[ColumnFacts]) -> list[str]:
    """Return the long-tailed columns, if their logarithms improve a linear model of all numbers on held-out rows.

    Long-tailed columns are non-negative and skewed, with at most half the skewness after log1p.
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
    """Return a column with nulls imputed by the median."""
    known = ~np.isnan(x)
    return np.where(known, x, np.median(x[known]) if known.any() else 0.0)


def _linear_fit(columns: Mapping[str, Array], sample: NumericSample) -> float:
    """Return the share of target variance that a ridge regression on standardized columns explains."""
    from sklearn.linear_model import Ridge

    X, targets = np.stack(list(columns.values()), axis=1), targets_of(sample)
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    return share_explained(targets, out_of_fold(Ridge(), X, targets, sample.fold))


def _has_long_tail(x: Array) -> bool:
    x = x[~np.isnan(x)]
    skewness = _skewness(x)
    return skewness > MIN_SKEWNESS and abs(_skewness(np.log1p(x))) < skewness / 2


def _skewness(x: Array) -> float:
    if len(x) == 0 or x.std() == 0:
        return 0.0
    return float(np.mean(((x - x.mean()) / x.std()) ** 3))
