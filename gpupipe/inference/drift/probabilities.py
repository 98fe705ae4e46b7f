"""Tail of the chi-squared distribution, and binomial coefficients.

These are our own since a server image has no SciPy (143 MB), and the verdict must be the same with and without it. The
tests compare them with SciPy 1.17.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpupipe.typing import Array


def chi_squared_tail(statistic: float, freedom: int) -> float:
    """Return the probability that a chi-squared variable exceeds `statistic`.

    For a whole number of degrees of freedom, at least 1, and a statistic of at least 0, it is a finite sum of positive
    terms (NIST Digital Library of Mathematical Functions, 8.4.6 and 8.8.6).

    Examples
    --------
    >>> round(chi_squared_tail(3.841, 1), 4), round(chi_squared_tail(9.21, 2), 4)
    (0.05, 0.01)
    """
    half = statistic / 2
    if half <= 0:
        return 1.0
    tail = math.erfc(math.sqrt(half)) if freedom % 2 else 0.0
    for i in range(freedom // 2):
        shape = i + 0.5 * (freedom % 2)
        tail += math.exp(shape * math.log(half) - half - math.lgamma(shape + 1))
    return min(1.0, tail)


def log_choose(n: int, k: Sequence[int]) -> Array:
    """Return the logarithm of the number of ways to choose each of `k` of `n` things, float64, shape (len(k),)."""
    of_n = math.lgamma(n + 1)
    return np.array([of_n - math.lgamma(each + 1) - math.lgamma(n - each + 1) for each in k])
