"""Quantiles of weighted rows, with NumPy or CuPy."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.backends.base import Backend
from gpupipe.typing import Array

WEIGHT_RESOLUTION = 1e-11  # of a total: smaller differences of weight sums may be rounding errors of their order


def weighted_quantiles(x: Array, weights: Array, shares: Sequence[float], backend: Backend) -> list[float]:
    """Return the quantiles of `x` by weight, without NaN; 0 if all values are null.

    A quantile is the mean of two values: the smallest whose cumulative weight reaches ``share * total``, and the
    smallest whose cumulative weight exceeds it. This is the averaged inverse of the weighted distribution, NumPy's
    ``averaged_inverted_cdf``. It does not depend on the scale of the weights, integer weights equal repeated rows, and
    for equal weights the median is the usual one.

    Parameters
    ----------
    x : array of float32 or float64, shape (n,)
    weights : array of float64, shape (n,)
        Positive.
    shares : sequence of float
        Quantiles in [0, 1].
    backend : Backend
        `x` and `weights` are on its device.
    """
    xp = backend.xp
    known = ~xp.isnan(x)
    values = x[known]
    if not len(values) or not shares:
        return [0.0 for _ in shares]
    order = xp.argsort(values)
    reached = xp.cumsum(weights[known][order])
    positions = weight_positions(float(backend.to_host(reached[-1])), shares)
    wanted = xp.asarray([position for pair in positions for position in pair])
    at = xp.searchsorted(reached, wanted, side="right")
    return middles(backend.to_host(values[order[at]]).reshape(-1, 2).tolist())


def weight_positions(total: float, shares: Sequence[float]) -> list[tuple[float, float]]:
    """Return for each quantile the two cumulative weights that its two values are the first to exceed.

    They are `WEIGHT_RESOLUTION` of the total below and above ``share * total``, so that the order in which weights are
    added does not matter.
    """
    least = WEIGHT_RESOLUTION * total
    return [(max(share * total - least, 0.0), min(share * total + least, total - least)) for share in shares]


def middles(ends: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of each pair of values; both may be the same infinity."""
    return [(low if low == high else low + 0.5 * (high - low)) + 0.0 for low, high in ends]  # turns -0.0 into 0.0
