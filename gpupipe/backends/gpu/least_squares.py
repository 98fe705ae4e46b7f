"""Ordinary least squares on a GPU, with memory bounded by a block of rows.

cuML 26.10 solves it by a Jacobi SVD of the whole float64 matrix (``algorithm="svd"``), which takes three copies of it,
or by normal equations without scaling or refinement (``"eig"``), which are not stable on a full one-hot encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from gpupipe.backends.normal_equations import (
    Block,
    MinimumNorm,
    centred_products,
    column_sums,
    residual_products,
)
from gpupipe.typing import Array, ArrayNamespace
from gpupipe.units import MIB

BLOCK_BYTES = 128 * MIB  # of float64 rows at a time
LIVE_BLOCKS = 3  # the rows, the weighted rows, and the next rows


class LeastSquares:
    """Linear regression by corrected normal equations, with scikit-learn's parameters and attributes.

    Means, centred products and one step of iterative refinement take one pass over the rows each, in float64. The
    equations are solved on the host with LAPACK: their size does not depend on the number of rows. Of coefficients that
    fit equally well, those of minimum norm are returned, as in scikit-learn. Columns, centred and scaled to unit
    length, are treated as collinear below a relative difference of 1e-6.

    `xp` is the array library, by default CuPy; `coef_` is float64, shape (d,).
    """

    def __init__(self, *, fit_intercept: bool = True, xp: ArrayNamespace | None = None) -> None:
        self.fit_intercept = fit_intercept
        self._xp = xp  # None instead of the CuPy module: modules cannot be pickled

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """Fit to a matrix.

        `X` is float32 or float64, shape (n, d), and is neither written to nor copied as a whole; `y` and
        `sample_weight` are float64, shape (n,). Raise ValueError if a value of `X` is missing or infinite.
        """
        xp = self._arrays()
        mean = xp.zeros(X.shape[1])
        mean_y: Array | float = 0.0
        weight: Array | float = 0.0
        if self.fit_intercept:
            columns, target, weight = column_sums(self._blocks(X, y, sample_weight))
            mean, mean_y = columns / weight, target / weight
        gram, moment = centred_products(self._blocks(X, y, sample_weight), mean, mean_y)
        equations = MinimumNorm(xp.asnumpy(gram), xp.asnumpy(weight * mean**2))
        coef = equations.shorten(equations.solve(xp.asnumpy(moment)))
        left = residual_products(self._blocks(X, y, sample_weight), mean, mean_y, xp.asarray(coef))
        coef = equations.shorten(coef + equations.solve(xp.asnumpy(left)))
        self.coef_ = xp.asarray(coef)
        self.intercept_ = float(mean_y - mean @ self.coef_) if self.fit_intercept else 0.0
        return self

    def predict(self, X: Array) -> Array:
        """Return the predictions for the rows of `X` in float64, shape (n,)."""
        predicted: Array = X.astype("float64") @ self.coef_ + self.intercept_
        return predicted

    def _arrays(self) -> Any:
        if self._xp is not None:
            return self._xp
        import cupy

        return cupy

    def _blocks(self, X: Array, y: Array, sample_weight: Array | None) -> Iterator[Block]:
        n_rows, n_columns = X.shape
        step = max(1, BLOCK_BYTES // (8 * max(1, n_columns)))
        for low in range(0, n_rows, step):
            # Columns of X are contiguous: casting its transpose gives coalesced reads and writes.
            rows = X.T[:, low : low + step].astype("float64", order="C").T
            weights = self._arrays().ones(len(rows)) if sample_weight is None else sample_weight[low : low + step]
            yield rows, y[low : low + step], weights


def working_bytes(n_rows: int, n_columns: int) -> int:
    """Return the device memory of a fit in addition to its float32 matrix: blocks, target, weights and products."""
    rows = 8 * n_rows * n_columns
    return LIVE_BLOCKS * min(BLOCK_BYTES, rows) + 2 * 8 * n_rows + 3 * 8 * n_columns**2
