"""Numbers with a long tail, whose logarithm suits a linear model better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpupipe.starter.facts import Facts
from gpupipe.starter.power import targets_of
from gpupipe.starter.sample import Sample

Array = Any
MIN_SKEWNESS = 2.0
MIN_DISTINCT = 20


def long_tails(sample: Sample, numbers: Sequence[Facts]) -> list[str]:
    """Return the columns of which the logarithm says more of the target, in a straight line, than the number does.

    None of their values is negative; they are skewed, and half as much so as logarithms.
    """
    targets = targets_of(sample)
    return [
        column.name
        for column in numbers
        if column.n_distinct >= MIN_DISTINCT
        and column.range[0] >= 0
        and _has_long_tail(x := sample.columns[column.name])
        and _line_explains(np.log1p(x), targets) > _line_explains(x, targets)
    ]


def _line_explains(x: Array, targets: Array) -> float:
    """Return the sum over the targets of the squared correlation with `x`, its missing values at the median."""
    x = np.where(np.isnan(x), np.nanmedian(x), x)
    with np.errstate(invalid="ignore"):
        return float(np.nansum([np.corrcoef(x, target)[0, 1] ** 2 for target in targets.T]))


def _has_long_tail(x: Array) -> bool:
    x = x[~np.isnan(x)]
    skewness = _skewness(x)
    return skewness > MIN_SKEWNESS and abs(_skewness(np.log1p(x))) < skewness / 2


def _skewness(x: Array) -> float:
    if len(x) == 0 or x.std() == 0:
        return 0.0
    return float(np.mean(((x - x.mean()) / x.std()) ** 3))
