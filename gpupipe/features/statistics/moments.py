"""Count, mean and variance of numbers, and how filling and scaling change them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpupipe.typing import Array

FIRST_ROWS = 256


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations of a column.

    `n` is the number of values, without those that exceed float32, or the sum of their weights. `n_null` is the number
    of NaN, also with weights, and `null_weight` the sum of their weights; `n_null` without weights. `mean` is 0 if
    there are no values. `squares` is the sum of squared deviations from the mean.
    """

    n: float
    n_null: int
    null_weight: float
    mean: float
    squares: float

    @classmethod
    def of_sums(cls, n: float, n_null: int, null_weight: float, pivot: float, first: float, second: float) -> Moments:
        """Return the moments of `n` values, given the sums of their deviations from `pivot` and of the squares."""
        if n == 0:
            return cls(0, n_null, null_weight, 0.0, 0.0)
        shift = first / n
        variance = second / n - shift * shift
        # For a constant column, the variance is only the rounding error of the two terms.
        return cls(n, n_null, null_weight, pivot + shift, variance * n if variance > 1e-13 * shift * shift else 0.0)

    @property
    def deviation(self) -> float:
        """The population standard deviation."""
        return math.sqrt(self.squares / self.n) if self.n else 0.0

    def filled(self, value: float, resolution: float = 0.0) -> Moments:
        """Return the moments with every null replaced by `value`.

        A difference between value and mean of at most ``resolution * abs(value)`` is ignored.
        """
        if self.n_null == 0:
            return self
        if self.n == 0:
            return Moments(self.null_weight, 0, 0.0, value, 0.0)
        n = self.n + self.null_weight
        share = self.null_weight / n
        away = value - self.mean
        if abs(away) <= resolution * abs(value):
            away = 0.0
        return Moments(n, 0, 0.0, self.mean + away * share, self.squares + away * away * self.n * share)

    def centred(self, center: float, factor: float) -> Moments:
        """Return the moments of ``(x - center) * factor``."""
        return replace(self, mean=(self.mean - center) * factor, squares=self.squares * factor * factor)


def find_pivot(x: Array, to_host: Callable[[Array], Any] = np.asarray) -> float:
    """Return the median of the first finite values of `x`, or 0, to subtract before summation.

    It preserves the precision of a small spread around a large mean. `to_host` copies rows of `x` to the host.
    """
    (value,) = find_pivots(lambda _, low, high: [first_finite(x[low:high], to_host)], 1, len(x))
    return value


def find_pivots(first: Callable[[list[int], int, int], list[Array]], n_columns: int, n_rows: int) -> list[float]:
    """Return the pivots (see `find_pivot`) of columns that are stored elsewhere.

    ``first(which, low, high)`` returns the `first_finite` values of rows low..high of the columns `which`.
    """
    values = [0.0] * n_columns
    left = list(range(n_columns))
    low = 0
    size = FIRST_ROWS
    while left and low < n_rows:
        found = dict(zip(left, first(left, low, min(low + size, n_rows)), strict=True))
        for at, finite in found.items():
            if len(finite):
                values[at] = float(np.partition(finite, len(finite) // 2)[len(finite) // 2])
        left = [at for at in left if not len(found[at])]
        low, size = low + size, 2 * size
    return values


def first_finite(x: Array, to_host: Callable[[Array], Any] = np.asarray) -> Array:
    """Return the first finite values of `x`, at most `FIRST_ROWS`, on the host."""
    values = to_host(x)
    finite: Array = values[np.isfinite(values)][:FIRST_ROWS]
    return finite
