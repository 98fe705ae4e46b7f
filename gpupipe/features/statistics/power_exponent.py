"""The exponent of the Yeo-Johnson transformation, by maximum likelihood."""

from __future__ import annotations

import math

import numpy as np

from gpupipe.typing import Array

TOLERANCE = 1e-6  # of the exponent
LARGEST_LOG = 36.0  # of a transformed value: half of float32's range, so that its square is finite too
UNLIKELY = -1e100  # of values that have become one: finite, as the search computes with it
LEAST_SPREAD = 1e-3  # deviation of the transformed values, in their own size: float32 rounds at 1e-7 of the size


def find_exponent(x: Array) -> tuple[float, bool]:
    """Return the exponent under which transformed values look most like those of a normal distribution.

    Parameters
    ----------
    x : array of float, shape (n,)
        Nulls are left out.

    Returns
    -------
    exponent : float
        1, which changes nothing, where all values are alike.
    is_limited : bool
        Whether a better one lies where float32 does not hold the result.

    Notes
    -----
    The profile likelihood of I.-K. Yeo and R. A. Johnson, "A new family of power transformations to improve normality
    or symmetry", Biometrika 87 (2000) 954, which scikit-learn's PowerTransformer maximises too; here within what
    float32 can hold: an exponent far below 0 moves all large values to one, one far above 1 to infinity.
    """
    from scipy.optimize import fminbound

    x = x[np.isfinite(x)].astype(np.float64)
    if len(x) == 0 or x.min() == x.max():
        return 1.0, False
    up, down = np.log1p(x[x >= 0]), np.log1p(-x[x < 0])
    low, high = _bounds(up, down)
    if low > high:  # values of both signs, beyond 4e15: what shrinks the ones blows up the others
        return 1.0, True
    best = float(fminbound(lambda power: -_likelihood(power, up, down), low, high, xtol=TOLERANCE))
    if not _is_resolved(best, up, down):
        return _nearest_resolved(best, up, down), True
    margin = 1e-3 * (high - low)
    return best, not low + margin < best < high - margin


def _bounds(up: Array, down: Array) -> tuple[float, float]:
    """Return the least and the largest exponent, for the logarithms of values from 0 on, and of those below 0.

    The least is above the largest where no exponent suits both.
    """
    above = LARGEST_LOG / float(up.max()) if up.any() else math.inf
    below = LARGEST_LOG / float(down.max()) if len(down) else math.inf
    return max(-above, 2 - below), min(above, 2 + below)


def _likelihood(power: float, up: Array, down: Array) -> float:
    """Return the logarithm of the likelihood per value, less a constant."""
    jacobian = (power - 1.0) * (float(up.sum()) - float(down.sum())) / (len(up) + len(down))
    variance = float(_transformed(power, up, down).var())
    return jacobian - math.log(variance) / 2 if variance > 0 else UNLIKELY


def _transformed(power: float, up: Array, down: Array) -> Array:
    return np.concatenate([_powers(up, power), -_powers(down, 2.0 - power)])


def _powers(logs: Array, power: float) -> Array:
    return np.expm1(power * logs) / power if abs(power) > 1e-12 else logs


def _is_resolved(power: float, up: Array, down: Array) -> bool:
    values = _transformed(power, up, down)
    return float(values.std()) >= LEAST_SPREAD * math.sqrt(float(np.square(values).mean()))


def _nearest_resolved(best: float, up: Array, down: Array) -> float:
    """Return the exponent nearest to `best`, on the side of 1, whose result float32 holds; 1 if there is none."""
    far, near = best, 1.0
    if not _is_resolved(near, up, down):
        return near
    while abs(far - near) > 1e-3:
        middle = (far + near) / 2
        far, near = (far, middle) if _is_resolved(middle, up, down) else (middle, near)
    return near
