"""Maximum likelihood estimate of the Yeo-Johnson exponent."""

from __future__ import annotations

import math

import numpy as np

from gpupipe.typing import Array

TOLERANCE = 1e-6  # of the exponent
LARGEST_LOG = 36.0  # of a transformed value: half the range of float32, so that its square is finite
UNLIKELY = -1e100  # if all values become equal; finite, since the search computes with it
MIN_SPREAD = 1e-3  # standard deviation of the transformed values relative to their size; float32 rounds at 1e-7


def find_exponent(x: Array) -> tuple[float, bool]:
    """Return the exponent whose transformed values are closest to a normal distribution.

    Parameters
    ----------
    x : array of float, shape (n,)
        NaN is ignored.

    Returns
    -------
    exponent : float
        1, which leaves the values unchanged, if all values are equal.
    is_limited : bool
        Whether a better exponent exists whose results float32 cannot represent.

    Notes
    -----
    Maximizes the profile likelihood of I.-K. Yeo and R. A. Johnson, "A new family of power transformations to improve
    normality or symmetry", Biometrika 87 (2000) 954, as scikit-learn's PowerTransformer does, but only over exponents
    whose results float32 can represent: far below 0, all large values become equal; far above 1, they overflow.
    """
    from scipy.optimize import fminbound

    x = x[np.isfinite(x)].astype(np.float64)
    if len(x) == 0 or x.min() == x.max():
        return 1.0, False
    up, down = np.log1p(x[x >= 0]), np.log1p(-x[x < 0])
    low, high = _bounds(up, down)
    if low > high:  # values of both signs with magnitudes above 4e15: no exponent suits both
        return 1.0, True
    best = float(fminbound(lambda power: -_likelihood(power, up, down), low, high, xtol=TOLERANCE))
    if not _is_resolved(best, up, down):
        return _nearest_resolved(best, up, down), True
    margin = 1e-3 * (high - low)
    return best, not low + margin < best < high - margin


def _bounds(up: Array, down: Array) -> tuple[float, float]:
    """Return the smallest and the largest exponent, given the logarithms of non-negative and of negative values.

    If no exponent suits both, the smallest exceeds the largest.
    """
    above = LARGEST_LOG / float(up.max()) if up.any() else math.inf
    below = LARGEST_LOG / float(down.max()) if len(down) else math.inf
    return max(-above, 2 - below), min(above, 2 + below)


def _likelihood(power: float, up: Array, down: Array) -> float:
    """Return the log-likelihood per value, up to a constant."""
    jacobian = (power - 1.0) * (float(up.sum()) - float(down.sum())) / (len(up) + len(down))
    variance = float(_transformed(power, up, down).var())
    return jacobian - math.log(variance) / 2 if variance > 0 else UNLIKELY


def _transformed(power: float, up: Array, down: Array) -> Array:
    return np.concatenate([_powers(up, power), -_powers(down, 2.0 - power)])


def _powers(logs: Array, power: float) -> Array:
    return np.expm1(power * logs) / power if abs(power) > 1e-12 else logs


def _is_resolved(power: float, up: Array, down: Array) -> bool:
    values = _transformed(power, up, down)
    return float(values.std()) >= MIN_SPREAD * math.sqrt(float(np.square(values).mean()))


def _nearest_resolved(best: float, up: Array, down: Array) -> float:
    """Return the exponent between `best` and 1 closest to `best` whose results float32 resolves; 1 if there is none."""
    far, near = best, 1.0
    if not _is_resolved(near, up, down):
        return near
    while abs(far - near) > 1e-3:
        middle = (far + near) / 2
        far, near = (far, middle) if _is_resolved(middle, up, down) else (middle, near)
    return near
