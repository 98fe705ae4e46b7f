"""Numbers that float32 would merge, and the offsets and units in which it keeps them apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpupipe.typing import Array

MOST_OFFSET = 2.0**10
"""Largest median, in spreads, that is not subtracted: float32 has 2**13 steps within the spread of such numbers."""
UNITS = (2.0**-12, 2.0**40)
"""Spreads that are left alone. Below, XGBoost's least gain of a split, 1e-6, exceeds the variance of a table; above,
squared residuals overflow float32."""
MOST_MERGED = 0.01
"""Share of distinct values that may merge in float32. Of random numbers, some do in any table."""

NOISE = 2.0**-48
"""Relative difference of results of float64 arithmetic that were equal without rounding."""


class NumberUnit(NamedTuple):
    """Offset and unit of numbers: they are ``offset + unit * x`` for the numbers x of a computation in float32."""

    offset: float = 0.0
    unit: float = 1.0

    @staticmethod
    def of(y: Array, has_units: bool) -> NumberUnit:
        """Return the offset of numbers, float64, shape (n,), and with `has_units` their unit, a power of 2.

        They are 0 and 1 for numbers whose differences float32 keeps.
        """
        import numpy as np

        if not len(y):
            return NumberUnit()
        low, center, high = np.quantile(y, (0.25, 0.5, 0.75), method="inverted_cdf").tolist()
        # Most rows may have one value, such as 0.
        spread = high - low or float(np.abs(y - center).mean())
        offset = center if spread and abs(center) > MOST_OFFSET * spread else 0.0
        if not spread or not has_units or UNITS[0] <= spread <= UNITS[1]:
            return NumberUnit(offset)
        return NumberUnit(offset, 2.0 ** round(math.log2(spread)))

    @property
    def is_plain(self) -> bool:
        """True if the numbers are computed with as they are."""
        return self == (0.0, 1.0)


def count_distinct(values: Array, center: float = 0.0) -> tuple[int, int]:
    """Return the number of distinct values of a float64 array, without NaN, and of ``values - center`` in float32.

    Fractions that differ by `NOISE` only, such as 0.1 + 0.2 and 0.3, are one value.
    """
    import numpy as np

    ordered = np.sort(values)[: len(values) - int(np.isnan(values).sum())]  # NaN is last
    if not len(ordered):
        return 0, 0
    upper, gap = ordered[1:], np.diff(ordered)
    is_step = (gap > NOISE * np.abs(upper)) | ((gap > 0) & (upper == np.rint(upper)))
    with np.errstate(over="ignore"):
        rounded = (ordered - center).astype(np.float32)  # in the same order
    is_kept = is_step & (rounded[1:] != rounded[:-1])
    return 1 + int(np.count_nonzero(is_step)), 1 + int(np.count_nonzero(is_kept))


def merges(values: Array) -> bool:
    """Return whether more than `MOST_MERGED` of the distinct values of a float64 array merge in float32."""
    import numpy as np

    known = values[~np.isnan(values)]
    if NumberUnit.of(known, has_units=False).is_plain:  # cheaper than a sort
        return False
    n, kept = count_distinct(known)
    return n - kept > MOST_MERGED * n
