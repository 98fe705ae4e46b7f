"""Long tails: of numbers, whose logarithm suits a linear model better; of a target, where a few wild values rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpupipe.starter.facts import Facts
from gpupipe.starter.sample import Sample

Array = Any
MIN_SKEWNESS = 2.0
MIN_DISTINCT = 20
MIN_KURTOSIS = 100.0  # a normal distribution has 3, an exponential one 9


def long_tails(sample: Sample, numbers: Sequence[Facts]) -> list[str]:
    """Return the columns, none of their values negative, that are skewed, and half as much so as logarithms."""
    return [
        column.name
        for column in numbers
        if column.n_distinct >= MIN_DISTINCT and column.range[0] >= 0 and _has_long_tail(sample.columns[column.name])
    ]


def _has_long_tail(x: Array) -> bool:
    x = x[~np.isnan(x)]
    skewness = _skewness(x)
    return skewness > MIN_SKEWNESS and abs(_skewness(np.log1p(x))) < skewness / 2


def _skewness(x: Array) -> float:
    if len(x) == 0 or x.std() == 0:
        return 0.0
    return float(np.mean(((x - x.mean()) / x.std()) ** 3))


def has_wild_values(y: Array) -> bool:
    """Return whether a few values of a target are so far out that they rule its squared error."""
    return len(y) > 0 and y.std() > 0 and float(np.mean(((y - y.mean()) / y.std()) ** 4)) > MIN_KURTOSIS
