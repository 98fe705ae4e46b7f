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
    """Return the number of distinct values of a float64 array, without NaN, and of ``values - center`` in float32."""
    import numpy as np

    ordered = np.sort(values)[: len(values) - int(np.isnan(values).sum())]  # NaN is last
    if not len(ordered):
        return 0, 0
    with np.errstate(over="ignore"):
        rounded = (ordered - center).astype(np.float32)  # in the same order
    return tuple(1 + int(np.count_nonzero(x[1:] != x[:-1])) for x in (ordered, rounded))  # type: ignore[return-value]
