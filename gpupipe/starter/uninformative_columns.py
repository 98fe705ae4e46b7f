"""Columns of names and row numbers without information about the target."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from gpupipe.starter.facts import ColumnFacts
from gpupipe.starter.power import (
    MAX_CODES,
    can_join,
    level_codes,
    level_means,
    out_of_fold,
    smaller,
    strongest,
    targets_of,
    together,
)
from gpupipe.starter.sample import NumericSample
from gpupipe.starter.useless_columns import are_integers
from gpupipe.typing import Array

MIN_ROWS = 100
MIN_NUMBERS = 1_000  # with fewer rows, measurements may all differ
MIN_UNIQUE = 0.995  # of the rows: a corrected row has the identifier of the first version
MAX_ROWS_PER_LEVEL = 10  # on average; with more rows per level, target encoding is reliable
# Threshold in standard deviations of the correlation of independent columns, which is 1 / √n_rows.
CHANCE = 3.0
NEIGHBORS = 20  # numbers are predicted from the mean of this many neighbors


def find_doubtful_columns(sample: NumericSample, facts: Mapping[str, ColumnFacts], times: Collection[str]) -> list[str]:
    """Return the columns that may identify rows: texts with many levels, and unique integers."""

    def is_doubtful(name: str) -> bool:
        column = facts[name]
        if name in sample.coded:
            is_sparse = column.n_filled < MAX_ROWS_PER_LEVEL * column.n_distinct
            return column.holds == "text" and column.n_distinct > MAX_CODES and is_sparse
        is_number = column.holds in ("integer", "number") and name not in times
        is_unique = column.n_filled >= MIN_NUMBERS and column.n_distinct >= MIN_UNIQUE * column.n_filled
        return is_number and is_unique and are_integers(column)

    return [name for name in sample.columns if is_doubtful(name)]


def find_uninformative_columns(
    sample: NumericSample, facts: Mapping[str, ColumnFacts], target: str, times: Collection[str] = ()
) -> dict[str, str]:
    """Return the doubtful columns to drop, with the reason.

    The residual of a model of the other columns is predicted on held-out rows from the mean residual of rows with the
    same text or of the nearest numbers. A column is kept if this prediction correlates with the residual by more than
    chance. The columns in `times` are not doubtful numbers.
    """
    doubtful = find_doubtful_columns(sample, facts, times)
    if not doubtful or len(sample.y) < MIN_ROWS:
        return {}
    sample = smaller(sample)
    residual = _residual([name for name in sample.columns if name not in doubtful], sample)
    found = {}
    for name in doubtful:
        if _correlation(_prediction(name, residual, sample), residual) >= CHANCE / np.sqrt(len(residual)):
            continue
        what = f"{facts[name].n_distinct:,} distinct texts" if name in sample.coded else "unique numbers"
        found[name] = f"{what}, uninformative about {target} given the other columns"
    return found


def _residual(names: Sequence[str], sample: NumericSample) -> Array:
    names = strongest([name for name in names if can_join(name, sample)], sample)
    targets = targets_of(sample)
    return targets - (together(names, sample) if names else targets.mean(axis=0))


def _prediction(name: str, residual: Array, sample: NumericSample) -> Array:
    x = sample.columns[name]
    if name in sample.coded:
        return level_means(level_codes(x), residual, sample.fold)
    from sklearn.neighbors import KNeighborsRegressor

    ranks = level_codes(x).astype(np.float64)[:, None]
    return out_of_fold(KNeighborsRegressor(NEIGHBORS), ranks, residual, sample.fold)


def _correlation(predicted: Array, residual: Array) -> float:
    """Return the correlation of two arrays of the same shape, over all their columns."""
    a, b = predicted - predicted.mean(axis=0), residual - residual.mean(axis=0)
    size = np.sqrt(np.square(a).sum() * np.square(b).sum())
    return float((a * b).sum() / size) if size else 0.0
