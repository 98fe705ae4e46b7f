"""Standard errors of metrics, by the bootstrap.

Efron and Tibshirani, "An Introduction to the Bootstrap", 1993: 50 to 200 samples are enough for a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from gpupipe.random_streams import make_generator
from gpupipe.typing import HostArray

MOST_RESAMPLED = 10_000  # rows; the error of a larger sample is derived from theirs
Z_95 = 1.959964  # of a normal distribution, two-sided


def standard_errors(
    score: Callable[[HostArray], Mapping[str, float]],
    strata: HostArray,
    groups: HostArray | None = None,
    n_resamples: int = 100,
) -> dict[str, float]:
    """Return the standard error of each value of `score`, a function of row numbers that may repeat.

    Each of `n_resamples` samples has at most about 10,000 rows, and as many of each stratum; the errors of more rows
    are smaller by the square root of their number. With `groups`, the code of the group of each row, whole groups are
    drawn, because their rows are not independent; the stratum of a group is that of its first row.
    """
    n, generator = len(strata), make_generator(0, "bootstrap")
    rows = [] if groups is None else _rows_by_group(groups)
    n_units = n if groups is None else len(rows)
    n_base = n_units if n <= MOST_RESAMPLED else max(2, n_units * MOST_RESAMPLED // n)
    base = np.linspace(0, n_units - 1, n_base).astype(np.int64)
    of_unit = strata[base] if groups is None else strata[[rows[unit][0] for unit in base]]
    members = [base[of_unit == stratum] for stratum in np.unique(of_unit)]
    draws = []
    for _ in range(n_resamples):
        units = np.concatenate([generator.choice(each, len(each)) for each in members])
        draws.append(score(units if groups is None else np.concatenate([rows[unit] for unit in units])))
    scale = math.sqrt(n_base / n_units)
    return {name: float(np.nanstd([draw[name] for draw in draws])) * scale for name in draws[0]}


def _rows_by_group(groups: HostArray) -> list[HostArray]:
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
