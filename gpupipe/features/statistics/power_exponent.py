"""Maximum likelihood estimate of the Yeo-Johnson exponent."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gpupipe.typing import Array

TOLERANCE = 1e-6  # of the exponent
LARGEST_LOG = 36.0  # of a transformed value: half the range of float32, so that its square is finite
UNLIKELY = -1e100  # if all values become equal; finite, since the search computes with it
MIN_SPREAD = 1e-3  # standard deviation of the transformed values relative to their size; float32 rounds at 1e-7


class PowerFit(NamedTuple):
    """Exponent of a column.

    `exponent` is 1, which leaves the values unchanged, if all values are equal. `is_limited` is whether a better
    exponent exists whose results float32 cannot represent. `moments` are mean and population standard deviation of the
    transformed values; None if they are unchanged.
    """

    exponent: float
    is_limited: bool
    moments: tuple[float, float] | None = None


def find_exponent(x: Array, weights: Array | None = None) -> PowerFit:
    """Return the exponent whose transformed values are closest to a normal distribution.

    NaN in `x` is ignored. `weights` are positive; by default, each value counts once.

    It maximizes the profile likelihood of I.-K. Yeo and R. A. Johnson, "A new family of power transformations to
    improve normality or symmetry", Biometrika 87 (2000) 954, as scikit-learn's PowerTransformer does, but only over
    exponents whose results float32 can represent: far below 0, all large values become equal; far above 1, they
    overflow.
    """
    from scipy.optimize import fminbound

    is_known = np.isfinite(x)
    # Of distinct values, so that a row with weight 2 gives the bits of two rows.
    x, place = np.unique(x[is_known].astype(np.float64), return_inverse=True)
    if len(x) < 2:
        return PowerFit(1.0, False)
    weights = np.bincount(place, None if weights is None else weights[is_known])
    is_up = x >= 0
    logs = _Logarithms(np.log1p(x[is_up]), np.log1p(-x[~is_up]), weights[is_up], weights[~is_up])
    low, high = _bounds(logs.up, logs.down)
    if low > high:  # values of both signs with magnitudes above 4e15: no exponent suits both
        return PowerFit(1.0, True)
    best = float(fminbound(lambda power: -_likelihood(power, logs), low, high, xtol=TOLERANCE))
    if not _is_resolved(best, logs):
        nearest = _nearest_resolved(best, logs)
        return PowerFit(nearest, True, None if nearest == 1.0 else logs.spread(nearest))
    margin = 1e-3 * (high - low)
    return PowerFit(best, not low + margin < best < high - margin, logs.spread(best))


class _Logarithms(NamedTuple):
    """Logarithms of the magnitudes of non-negative and of negative values, each plus 1, and their weights."""

    up: Array
    down: Array
    up_weights: Array
    down_weights: Array

    def spread(self, power: float) -> tuple[float, float]:
        """Return mean and standard deviation of the transformed values."""
        values = np.concatenate([_powers(self.up, power), -_powers(self.down, 2.0 - power)])
        weights = np.concatenate([self.up_weights, self.down_weights])
        total = weights.sum()
        mean = float((weights * values).sum() / total)
        return mean, math.sqrt((np.square(values - mean) * weights).sum() / total)


def _bounds(up: Array, down: Array) -> tuple[float, float]:
    """Return the smallest and the largest exponent, given the logarithms of non-negative and of negative values.

    If no exponent suits both, the smallest exceeds the largest.
    """
    above = LARGEST_LOG / float(up.max()) if up.any() else math.inf
    below = LARGEST_LOG / float(down.max()) if len(down) else math.inf
    return max(-above, 2 - below), min(above, 2 + below)


def _likelihood(power: float, logs: _Logarithms) -> float:
    """Return the log-likelihood per value, up to a constant."""
    total = float(logs.up_weights.sum() + logs.down_weights.sum())
    away = float((logs.up * logs.up_weights).sum()) - float((logs.down * logs.down_weights).sum())
    jacobian = (power - 1.0) * away / total
    _, deviation = logs.spread(power)
    return jacobian - math.log(deviation) if deviation > 0 else UNLIKELY


def _powers(logs: Array, power: float) -> Array:
    return np.expm1(power * logs) / power if abs(power) > 1e-12 else logs


def _is_resolved(power: float, logs: _Logarithms) -> bool:
    mean, deviation = logs.spread(power)
    return deviation >= MIN_SPREAD * math.hypot(mean, deviation)


def _nearest_resolved(best: float, logs: _Logarithms) -> float:
    """Return the exponent between `best` and 1 closest to `best` whose results float32 resolves; 1 if there is none."""
    far, near = best, 1.0
    if not _is_resolved(near, logs):
        return near
    while abs(far - near) > 1e-3:
        middle = (far + near) / 2
        far, near = (far, middle) if _is_resolved(middle, logs) else (middle, near)
    return near
