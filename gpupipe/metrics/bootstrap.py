"""Sampling errors of metrics, by the bootstrap.

Efron and Tibshirani, "An Introduction to the Bootstrap", 1993: 50 to 200 samples are enough for a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gpupipe.random_streams import make_generator
from gpupipe.typing import HostArray

MOST_RESAMPLED = 10_000  # rows; the error of a larger sample is derived from theirs
FEWEST_ROWS = 20  # fewer say too little about their own spread
Z_95 = 1.959964  # of a normal distribution, two-sided
PAIRED_RESAMPLES = 200


@dataclass(frozen=True)
class MetricChange:
    """Metric of two models on the same rows; `low` and `high` are the 95% interval of the difference, new minus old.

    They are NaN if the rows are too few for an interval.
    """

    old: float
    new: float
    difference: float
    low: float = math.nan
    high: float = math.nan


def class_strata(y: HostArray, has_classes: bool) -> HostArray:
    """Return the stratum of each row: its class, or its classes for `y` of shape (n, n_targets); 0 for numbers."""
    if not has_classes:
        return np.zeros(len(y), np.int64)
    codes: HostArray = np.unique(y.reshape(len(y), -1), axis=0, return_inverse=True)[1].ravel()
    return codes


def sampling_errors(
    score: Callable[[HostArray], Mapping[str, float]],
    values: Mapping[str, float],
    strata: HostArray,
    groups: HostArray | None = None,
    *,
    n_resamples: int = 100,
    most_rows: int = MOST_RESAMPLED,
) -> dict[str, HostArray]:
    """Return the errors of each metric in samples of rows with replacement: float64, shape (n_resamples,).

    Their standard deviation is the standard error. At most about `most_rows` rows are sampled; the errors of more rows
    are smaller by the square root of their number.

    `score` returns the metrics of row numbers, int64, shape (m,), which may repeat; `values` are those of all rows.
    `strata` are the codes of the strata; all samples have as many rows of each. Of `groups`, codes too, whole ones are
    drawn, because their rows are not independent; the stratum of a group is that of its first row.
    """
    n, generator = len(strata), make_generator(0, "bootstrap")
    rows = [] if groups is None else _rows_by_group(groups)
    n_units = n if groups is None else len(rows)
    n_base = n_units if n <= most_rows else max(2, n_units * most_rows // n)
    base = np.linspace(0, n_units - 1, n_base).astype(np.int64)
    of_unit = strata[base] if groups is None else strata[[rows[unit][0] for unit in base]]
    members = [base[of_unit == stratum] for stratum in np.unique(of_unit)]
    draws = []
    for _ in range(n_resamples):
        units = np.concatenate([generator.choice(each, len(each)) for each in members])
        draws.append(score(units if groups is None else np.concatenate([rows[unit] for unit in units])))
    scale = math.sqrt(n_base / n_units)
    return {name: (np.array([draw[name] for draw in draws]) - value) * scale for name, value in values.items()}


def paired_changes(
    first: Callable[[HostArray], Mapping[str, float]],
    second: Callable[[HostArray], Mapping[str, float]],
    strata: HostArray,
    groups: HostArray | None = None,
    *,
    n_resamples: int = PAIRED_RESAMPLES,
    most_rows: int = MOST_RESAMPLED,
) -> dict[str, MetricChange]:
    """Return the change of each metric from the first to the second model, with the normal interval of the bootstrap.

    Both are scored on the same samples, which cancels the errors that they share. The interval shows how much the
    difference depends on the tested rows, not on the training rows. The arguments are those of `sampling_errors`.
    """
    old, new = (score(np.arange(len(strata))) for score in (first, second))

    def difference(rows: HostArray) -> dict[str, float]:
        one, two = (score(rows) for score in (first, second))
        return {name: two[name] - one[name] for name in one}

    values = {name: new[name] - value for name, value in old.items()}
    errors = sampling_errors(difference, values, strata, groups, n_resamples=n_resamples, most_rows=most_rows)
    found = {}
    for name, value in values.items():
        margin = math.nan if np.isnan(errors[name]).all() else Z_95 * float(np.nanstd(errors[name]))
        found[name] = MetricChange(old[name], new[name], value, value - margin, value + margin)
    return found


def _rows_by_group(groups: HostArray) -> list[HostArray]:
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
