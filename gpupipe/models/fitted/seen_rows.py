"""Sums of the rows that a linear model was trained on, from which its training continues with further rows.

Of least squares, the triangular factor of the rows has all that a solution depends on: the continued model is that of
all rows. Of the log loss, it is the expansion to the second order at the minimum (the Laplace approximation: Bishop,
"Pattern Recognition and Machine Learning", section 4.5): exact at the coefficients of before, and close near them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpupipe.typing import Array

FILE = "seen_rows.npz"
MOST_COEFFICIENTS = 512  # 2 MB


@dataclass(frozen=True)
class SeenRows:
    """Sums of rows with the sum `total_weight` of their weights.

    Least squares: ``point``, the mean of the columns and the target, shape (1, d + 1), and ``factor``, the triangular
    factor of the centred rows, shape (r, d + 1). Log loss: ``point``, the coefficients, shape (outputs, d), ``slope``,
    the gradient of the summed loss there, of the same shape, and ``factor``, its Hessian, shape (n, n).
    """

    total_weight: float
    point: Array
    factor: Array
    slope: Array | None = None

    @property
    def is_small(self) -> bool:
        """True if the sums are small enough to be stored."""
        return max(self.factor.shape) <= MOST_COEFFICIENTS + 1

    def arrays(self) -> dict[str, Array]:
        """Return the sums as arrays of a file."""
        import numpy as np

        found: dict[str, Array] = {"point": self.point, "factor": self.factor}
        found["total_weight"] = np.array(self.total_weight)
        return found if self.slope is None else {**found, "slope": self.slope}

    @staticmethod
    def of_arrays(arrays: Mapping[str, Array]) -> SeenRows:
        """Return the sums in the arrays of a file; raise ValueError if they are malformed."""
        import numpy as np

        if not {"total_weight", "point", "factor"} <= set(arrays) <= {"total_weight", "point", "factor", "slope"}:
            raise ValueError(f"expected total_weight, point and factor; got {', '.join(sorted(arrays))[:80]}")
        if not all(values.dtype == "float64" and np.isfinite(values).all() for values in arrays.values()):
            raise ValueError("expected finite float64 numbers")
        point, factor, slope = (arrays.get(name) for name in ("point", "factor", "slope"))
        assert point is not None and factor is not None
        width = point.size if slope is not None else point.shape[-1]
        is_square = slope is None or (slope.shape == point.shape and factor.shape == (width, width))
        if point.ndim != 2 or factor.ndim != 2 or factor.shape[1] != width or not is_square:
            raise ValueError("the sums have shapes that do not belong together")
        if arrays["total_weight"].shape != () or arrays["total_weight"] <= 0:
            raise ValueError("expected a positive sum of weights")
        return SeenRows(float(arrays["total_weight"]), point, factor, slope)
