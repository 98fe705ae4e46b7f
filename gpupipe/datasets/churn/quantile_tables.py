"""The laws of the churn generator's numbers, as quantiles: 0, 1 / `KNOTS`, 2 / `KNOTS`, ..., 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

KNOTS = 1 << 14
POINTS = 1 << 17  # where a density is looked at: between them it is a straight line


def _quantiles(density: Callable[[Floats], Floats], low: float, high: float) -> Floats:
    """Return the quantiles, shape (KNOTS + 1,), of a law that has nothing to speak of below `low` and above `high`.

    Its tails end where a straight line through the first and the last cell has the mean that the law has there.
    """
    x = np.linspace(low, high, POINTS)
    mass, moment = _summed(density(x)), _summed(x * density(x))
    knots = np.interp(np.linspace(0.0, 1.0, KNOTS + 1), mass / mass[-1], x)
    first, last = np.interp(knots[[1, -2]], x, moment)
    cell = mass[-1] / KNOTS
    knots[[0, -1]] = 2 * first / cell - knots[1], 2 * (moment[-1] - last) / cell - knots[-2]
    return knots


def _summed(heights: Floats) -> Floats:
    """Return the area up to each of some points, in units that are the same for all curves over these points."""
    return np.cumsum(np.append(0.0, heights[1:] + heights[:-1]))


@cache
def normal() -> Floats:
    """Return the quantiles of the standard normal law."""
    return _quantiles(lambda x: np.exp(-x * x / 2), -8.0, 8.0)


@cache
def logistic() -> Floats:
    """Return the quantiles of the logistic law."""
    return _quantiles(lambda x: 1.0 / np.cosh(x / 2) ** 2, -40.0, 40.0)


@cache
def gamma() -> Floats:
    """Return the quantiles of the gamma law of shape 4."""
    return _quantiles(lambda x: x**3 * np.exp(-x), 0.0, 50.0)
