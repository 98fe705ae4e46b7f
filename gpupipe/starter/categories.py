"""Integers that may be names rather than sizes: districts, hours, codes. Found by what they say of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpupipe.starter.facts import ColumnFacts
from gpupipe.starter.power import level_codes, level_means, share_explained, targets_of
from gpupipe.starter.sample import FOLDS, NumericSample

MIN_LEVELS, MAX_LEVELS = 3, 250
MIN_ROWS_PER_LEVEL = 20
MOST = 0.9  # of the rows with one value, mostly zero: an amount
MIN_GAIN = 0.01
MAX_STEPS = 8


@dataclass(frozen=True)
class CategoryGain:
    """The share of the target's variance that a column explains: by a line, by a few steps, by each value's mean."""

    as_line: float
    as_steps: float
    as_names: float

    @property
    def is_of_names(self) -> bool:
        """Whether the order of the values says less than the values themselves, however it is used."""
        return self.as_names - max(0.0, self.as_line, self.as_steps) >= MIN_GAIN

    def about(self) -> str:
        """Return it in words."""
        shares = [f"{max(0.0, share):.0%}" for share in (self.as_names, max(self.as_line, self.as_steps))]
        return f"its values explain {shares[0]} of the target, their order {shares[1]}"


def find_categories(sample: NumericSample, integers: Sequence[ColumnFacts]) -> Mapping[str, str]:
    """Return the columns whose values explain more than their order does, with the evidence."""
    found = {}
    for column in integers:
        if _may_be_names(column, sample):
            gain = measure(column.name, sample)
            if gain.is_of_names:
                found[column.name] = gain.about()
    return found


def _may_be_names(column: ColumnFacts, sample: NumericSample) -> bool:
    is_candidate = column.holds == "integer" and MIN_LEVELS <= column.n_distinct <= MAX_LEVELS
    has_rows = column.n_distinct * MIN_ROWS_PER_LEVEL <= len(sample.y)
    return is_candidate and has_rows and int(column.counts.max()) <= MOST * column.n_filled


def measure(name: str, sample: NumericSample) -> CategoryGain:
    """Return how much a column explains in each way, on rows that were not learned from."""
    from sklearn.linear_model import LinearRegression
    from sklearn.tree import DecisionTreeRegressor

    x, targets = sample.columns[name], targets_of(sample)
    codes = level_codes(x)
    X = np.where(np.isnan(x), np.nanmean(x), x)[:, None]
    shares = []
    for model in (LinearRegression(), DecisionTreeRegressor(max_leaf_nodes=MAX_STEPS, random_state=0)):
        predicted = np.empty_like(targets)
        for k in range(FOLDS):
            test = sample.fold == k
            predicted[test] = model.fit(X[~test], targets[~test]).predict(X[test]).reshape(test.sum(), -1)
        shares.append(share_explained(targets, predicted))
    return CategoryGain(shares[0], shares[1], share_explained(targets, level_means(codes, targets, sample.fold)))
