"""Mean and spread of numbers, and what filling and scaling make of them."""

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
    """Count, mean and spread of the values of a column.

    Attributes
    ----------
    n : int
        Values; those that float32 does not hold are no part of it.
    n_null : int
        NaN.
    mean : float
        0 where there is no value.
    squares : float
        The sum of the squares of the distances from the mean.
    """

    n: int
    n_null: int
    mean: float
    squares: float

    @classmethod
    def of_sums(cls, n: int, n_null: int, pivot: float, first: float, second: float) -> Moments:
        """Return the moments of `n` values by the sums of their distances from `pivot` and of the squares of those."""
        if n == 0:
            return cls(0, n_null, 0.0, 0.0)
        shift = first / n
        variance = second / n - shift * shift
        # What is left of a constant is the rounding of the two terms.
        return cls(n, n_null, pivot + shift, variance * n if variance > 1e-13 * shift * shift else 0.0)

    @property
    def deviation(self) -> float:
        """The standard deviation of the population."""
        return math.sqrt(self.squares / self.n) if self.n else 0.0

    def filled(self, value: float, resolution: float = 0.0) -> Moments:
        """Return the moments with `value` in place of every null.

        A difference between it and the mean that is less than `resolution` of it is none.
        """
        if self.n_null == 0:
            return self
        if self.n == 0:
            return Moments(self.n_null, 0, value, 0.0)
        share = self.n_null / (self.n + self.n_null)
        away = value - self.mean
        if abs(away) <= resolution * abs(value):
            away = 0.0
        return Moments(self.n + self.n_null, 0, self.mean + away * share, self.squares + away * away * self.n * share)

    def centred(self, center: float, factor: float) -> Moments:
        """Return the moments of ``(x - center) * factor``."""
        return replace(self, mean=(self.mean - center) * factor, squares=self.squares * factor * factor)


def find_pivot(x: Array, to_host: Callable[[Array], Any] = np.asarray) -> float:
    """Return a value near the first of `x`, 0 if none is finite: a large mean then does not drown a small spread.

    Parameters
    ----------
    x : array of float, shape (n,)
    to_host : callable
        Brings rows of it to the host.
    """
    (value,) = find_pivots(lambda _, low, high: [first_finite(x[low:high], to_host)], 1, len(x))
    return value


def find_pivots(first: Callable[[list[int], int, int], list[Array]], n_columns: int, n_rows: int) -> list[float]:
    """Return the `find_pivot` of columns that lie elsewhere.

    Parameters
    ----------
    first : callable
        ``first(which, low, high)`` returns the `first_finite` values of the columns of these numbers in rows low..high.
    n_columns, n_rows : int
    """
    values, left, low, size = [0.0] * n_columns, list(range(n_columns)), 0, FIRST_ROWS
    while left and low < n_rows:
        found = dict(zip(left, first(left, low, min(low + size, n_rows)), strict=True))
        for at, finite in found.items():
            if len(finite):
                values[at] = float(np.partition(finite, len(finite) // 2)[len(finite) // 2])
        left = [at for at in left if not len(found[at])]
        low, size = low + size, 2 * size
    return values


def first_finite(x: Array, to_host: Callable[[Array], Any] = np.asarray) -> Array:
    """Return the first finite values of some rows, `FIRST_ROWS` at most, on the host."""
    values = to_host(x)
    finite: Array = values[np.isfinite(values)][:FIRST_ROWS]
    return finite
