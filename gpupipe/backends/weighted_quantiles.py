"""Quantiles of weighted rows, with NumPy or CuPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gpupipe.backends.base import Backend
from gpupipe.typing import Array

WEIGHT_RESOLUTION = 1e-11  # of a total: smaller differences of weight sums may be rounding errors of their order
TOTAL_BITS = 61  # of the sum of all weights as integers: the sum of their roundings is below 2**61 too

Method = Literal["linear", "averaged_inverted_cdf"]


@dataclass(frozen=True)
class WeightScale:
    """Conversion of the weights of all rows to integers, whose sums do not depend on the order of the rows."""

    exponent: int  # weights are multiplied by ``2**exponent`` and rounded; whole numbers remain exact
    unit: int  # the weight of one row: 1, or the smallest weight if that is less

    @classmethod
    def of(cls, weights: Array, backend: Backend) -> WeightScale:
        """Return the scale of positive weights, float64, shape (n,)."""
        if not len(weights):
            return cls(0, 1)
        ends = backend.xp.stack([weights.sum(), weights.min()])
        total, smallest = backend.to_host(ends).tolist()
        exponent = TOTAL_BITS - math.frexp(total)[1]
        return cls(exponent, max(1, round(math.ldexp(min(1.0, smallest), exponent))))

    def count(self, weights: Array, backend: Backend) -> Array:
        """Return the weights as integers of at least 1, int64."""
        xp = backend.xp
        return xp.maximum(xp.rint(xp.ldexp(weights, self.exponent)), 1.0).astype("int64")

    def positions(self, total: int, shares: Sequence[float], method: Method = "linear") -> list[QuantilePosition]:
        """Return the position of each quantile in rows with the weight `total`."""
        if method == "linear":
            return [self._window(total, share) for share in shares]
        tie = round(WEIGHT_RESOLUTION * total)
        ends = ((round(share * total) - tie - 1, round(share * total) + tie) for share in shares)
        return [QuantilePosition(max(low, 0), min(high, total - 1)) for low, high in ends]

    def _window(self, total: int, share: float) -> QuantilePosition:
        unit = min(self.unit, total)
        at = share * ((total - unit) / unit)
        start = at * unit
        high = math.ceil(start) + unit - 1
        return QuantilePosition(min(math.floor(start), total - 1), min(high, total - 1), at, unit)


@dataclass(frozen=True)
class QuantilePosition:
    """A quantile between two values: the first ones whose cumulative weight exceeds `low` and `high`."""

    low: int
    high: int
    at: float | None = None  # the start of the interpolation in rows; None for the mean of both values
    unit: int = 1  # the weight of one row

    def interpolate(self, low: float, high: float, reached: int) -> float:
        """Return the quantile, given its two values and the cumulative weight at the lower one."""
        share = 0.5 if self.at is None else min(max(self.at - (reached / self.unit - 1.0), 0.0), 1.0)
        return interpolate(low, high, share)


def interpolate(low: float, high: float, share: float) -> float:
    """Return the value at a share of the way between two values; both may be the same infinity."""
    if share == 0.0 or low == high:
        return low + 0.0  # turns -0.0 into 0.0
    return (high if share == 1.0 else low + share * (high - low)) + 0.0


def count_rows(weights: Array) -> float:
    """Return the number of rows that weights on the host stand for: their sum, in units of a row of `WeightScale`."""
    smallest = float(weights[weights > 0].min(initial=1.0))
    return float(weights.sum()) / smallest


def weighted_quantiles(
    x: Array, weights: Array, shares: Sequence[float], backend: Backend, method: Method = "linear"
) -> list[float]:
    """Return the quantiles of `x` by weight, without NaN; 0 if all values are null.

    They are those of NumPy for rows that are repeated as often as their weights say, and weights of 1 equal no weights.
    Other weights continue this definition: of sorted rows, each as long as its weight, the quantile is the mean of the
    values in a window with the length of one row, from ``share * (total - row)`` on. A row is 1 long, or as long as the
    smallest weight if that is less, so that weights whose sum is 1 are possible.

    This is the weighted quantile of type 7 in A. Akinshin, "Weighted quantile estimators", arXiv:2304.07265 (2023),
    with the number of repeated rows as sample size; the types are those of R. J. Hyndman and Y. Fan, "Sample quantiles
    in statistical packages", The American Statistician 50 (1996) 361. The method "averaged_inverted_cdf" is their type
    2: the limit of short windows, which the scale of the weights does not change.

    `x` is float32 or float64, shape (n,); `weights` are positive, float64, shape (n,). Both are on the device of
    `backend`. `shares` are in [0, 1]; `method` is as for `numpy.quantile`.
    """
    xp, scale = backend.xp, WeightScale.of(weights, backend)
    known = ~xp.isnan(x)
    values = x[known]
    if not len(values) or not shares:
        return [0.0 for _ in shares]
    order = xp.argsort(values)
    reached = xp.cumsum(scale.count(weights[known], backend)[order])
    positions = scale.positions(int(backend.to_host(reached[-1])), shares, method)
    wanted = xp.asarray([(p.low, p.high) for p in positions]).reshape(-1)
    rows = xp.searchsorted(reached, wanted, side="right").reshape(-1, 2)
    ends, sums = (backend.to_host(found).tolist() for found in (values[order[rows]], reached[rows[:, 0]]))
    return [p.interpolate(low, high, n) for p, (low, high), n in zip(positions, ends, sums, strict=True)]
