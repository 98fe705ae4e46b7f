"""Columns of names and numbers that add nothing to what the other columns say about the target."""

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
MIN_NUMBERS = 1_000  # rows; of fewer, measurements may all be different
MAX_ROWS_PER_LEVEL = 10  # on average: with more, an encoding by the target is no burden
# Correlation of chance alone: 1 / √n_rows is its standard deviation.
CHANCE = 3.0
NEIGHBOURS = 20  # numbers are compared with the mean of this many in their order


def find_doubtful_columns(sample: NumericSample, facts: Mapping[str, ColumnFacts], times: Collection[str]) -> list[str]:
    """Return the columns that may be names of rows: texts of many levels, integers that are all different."""

    def is_doubtful(name: str) -> bool:
        column = facts[name]
        if name in sample.coded:
            is_sparse = column.n_filled < MAX_ROWS_PER_LEVEL * column.n_distinct
            return column.holds == "text" and column.n_distinct > MAX_CODES and is_sparse
        is_number = column.holds in ("integer", "number") and name not in times
        is_unique = column.n_distinct == column.n_filled >= MIN_NUMBERS
        return is_number and is_unique and are_integers(column)

    return [name for name in sample.columns if is_doubtful(name)]


def find_uninformative_columns(
    sample: NumericSample, facts: Mapping[str, ColumnFacts], target: str, times: Collection[str] = ()
) -> dict[str, str]:
    """Return the doubtful columns to drop, with the reason.

    The target's remainder, after a model of the other columns, is predicted on held-out rows from the mean remainder of
    rows with the same text, or of those nearest in number. A column stays if that correlates with the remainder by more
    than chance. The columns called `times` are no doubtful numbers.
    """
    doubtful = find_doubtful_columns(sample, facts, times)
    if not doubtful or len(sample.y) < MIN_ROWS:
        return {}
    sample = smaller(sample)
    beside = dict.fromkeys(doubtful)
    remainder = _remainder([name for name in sample.columns if name not in beside], sample)
    found = {}
    for name in doubtful:
        if _correlation(_prediction(name, remainder, sample), remainder) >= CHANCE / np.sqrt(len(remainder)):
            continue
        what = f"{facts[name].n_distinct:,} different texts" if name in sample.coded else "numbers, all different,"
        found[name] = f"{what} that say nothing of {target} beside the other columns"
    return found


def _remainder(names: Sequence[str], sample: NumericSample) -> Array:
    names = strongest([name for name in names if can_join(name, sample)], sample)
    targets = targets_of(sample)
    return targets - (together(names, sample) if names else targets.mean(axis=0))


def _prediction(name: str, remainder: Array, sample: NumericSample) -> Array:
    x = sample.columns[name]
    if name in sample.coded:
        return level_means(level_codes(x), remainder, sample.fold)
    from sklearn.neighbors import KNeighborsRegressor

    ranks = level_codes(x).astype(np.float64)[:, None]
    return out_of_fold(KNeighborsRegressor(NEIGHBOURS), ranks, remainder, sample.fold)


def _correlation(predicted: Array, remainder: Array) -> float:
    """Return the correlation of two arrays of the same shape, over all their columns."""
    a, b = predicted - predicted.mean(axis=0), remainder - remainder.mean(axis=0)
    size = np.sqrt(np.square(a).sum() * np.square(b).sum())
    return float((a * b).sum() / size) if size else 0.0
