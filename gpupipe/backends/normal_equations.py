"""Normal equations of least squares, accumulated over blocks of rows.

A block is ``(rows, y, w)``: float64 arrays of shape (n, d), (n,) and (n,) of NumPy or CuPy; `rows` may be overwritten.
The sums of several partitions add up to those of all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpupipe.typing import Array

Block = tuple[Array, Array, Array]

# Eigenvalues of a Gram matrix of unit columns are accurate to about d * 2e-16 of the largest, so with thousands of
# columns smaller ones may be noise. The bound is 1e-6 for singular values of the matrix.
RCOND = 1e-12
# A column with a smaller deviation, relative to its root mean square, is constant: weighted means are rounded.
# Non-constant float32 columns deviate by at least 6e-8 / sqrt(n).
CONSTANT = 1e-13


def column_sums(blocks: Iterable[Block]) -> tuple[Array, Array, Array]:
    """Return the weighted sums of the columns, shape (d,), of the target, and of the weights."""
    columns: Any = 0.0
    target: Any = 0.0
    weight: Any = 0.0
    for rows, y, w in blocks:
        columns = columns + w @ rows
        target = target + w @ y
        weight = weight + w.sum()
    return columns, target, weight


def centred_products(blocks: Iterable[Block], mean: Array, mean_y: Array | float) -> tuple[Array, Array]:
    """Return the products of the centred columns with each other, shape (d, d), and with the target, shape (d,)."""
    gram: Any = 0.0
    moment: Any = 0.0
    for rows, y, w in _centred(blocks, mean, mean_y):
        weighted = rows * w[:, None]
        gram, moment = gram + weighted.T @ rows, moment + weighted.T @ y
    return gram, moment


def residual_products(blocks: Iterable[Block], mean: Array, mean_y: Array | float, coef: Array) -> Array:
    """Return the products of the centred columns with the residuals of `coef`, shape (d,)."""
    moment: Any = 0.0
    for rows, y, w in _centred(blocks, mean, mean_y):
        moment = moment + rows.T @ (w * (y - rows @ coef))
    products: Array = moment
    return products


def _centred(blocks: Iterable[Block], mean: Array, mean_y: Array | float) -> Iterator[Block]:
    for rows, y, w in blocks:
        rows -= mean
        yield rows, y - mean_y, w


class MinimumNorm:
    """Solver of ``gram @ coef = moment`` for singular Gram matrices, on the host.

    Columns are scaled to unit length first, so that singularity does not depend on units. Directions with an eigenvalue
    of at most `RCOND` times the largest are dropped. Raise ValueError if an element is not finite.

    - `gram` (numpy.ndarray of float64, shape (d, d)): gram matrix of centred columns
    - `squares` (numpy.ndarray of float64, shape (d,)): the amount that centring subtracted from each diagonal element:
      total weight times squared mean
    """

    def __init__(self, gram: Array, squares: Array) -> None:
        import numpy as np

        if not np.isfinite(gram).all():
            raise ValueError("the matrix has missing or infinite values, or values too large to be squared")
        diagonal = gram.diagonal()
        varies = diagonal > CONSTANT**2 * (diagonal + squares)
        self._scale = np.where(varies, np.sqrt(np.where(varies, diagonal, 1.0)), 1.0)
        scaled = np.where(varies[:, None] & varies, gram / self._scale / self._scale[:, None], 0.0)
        values, vectors = np.linalg.eigh(scaled)
        is_kept = values > RCOND * values.max(initial=0.0)
        self._values, self._vectors = values[is_kept], vectors[:, is_kept]
        # The null space: changes of the coefficients that do not change predictions, in the units of the columns.
        self._free = np.linalg.qr(vectors[:, ~is_kept] / self._scale[:, None]).Q

    def solve(self, moment: Array) -> Array:
        """Return a solution, shape (d,), not necessarily of minimum norm."""
        projected: Array = self._vectors.T @ (moment / self._scale) / self._values
        return self._vectors @ projected / self._scale

    def shorten(self, coef: Array) -> Array:
        """Return the minimum-norm solution with the same predictions as `coef`."""
        free: Array = coef - self._free @ (self._free.T @ coef)
        return free
