"""Least squares models fitted on a triangular factor of their rows, which is found in passes over blocks of rows.

The centred and weighted rows [X y] are Q R with an orthogonal Q, so that R has the same sum of squares for all
coefficients, and at most d + 1 rows. The factors of blocks are merged by a further decomposition (Demmel, Grigori,
Hoemmen and Langou, "Communication-optimal parallel and sequential QR and LU factorizations", SIAM J. Sci. Comput. 34,
2012). scikit-learn's estimators are then fitted on R: they need no float64 copy of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from gpupipe.models.fitted.seen_rows import SeenRows
from gpupipe.models.linear.passes import ContinuedPasses, MatrixPasses, Parts, Passes, Reduction, RowBlock, add

if TYPE_CHECKING:
    from gpupipe.typing import Array


@dataclass
class ReducedLeastSquares:
    """A linear regressor of scikit-learn, fitted on a triangular factor of its rows.

    - ``estimator``: without an intercept
    - ``takes_products``: whether the estimator computes the products of the columns: R is then the Cholesky factor of
      these, which is as accurate, and twice as fast
    - ``takes_mean``: whether its objective is the mean of the squares instead of their sum
    - ``seen``: rows of before, which are fitted as well

    ``seen_`` has the rows of the fit, and those of before. ``coef_`` is float64, shape (d,), and ``intercept_`` a
    number.
    """

    estimator: Any
    fit_intercept: bool = True
    takes_products: bool = False
    takes_mean: bool = False
    n_threads: int = 1
    seen: SeenRows | None = None

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """Fit to a matrix, float32, shape (n, d), column-major, which is neither written to nor copied as a whole.

        `y` and `sample_weight` are float64, shape (n,). BLAS is limited to one thread by the caller. Raise ValueError
        if a value of `X` is missing or infinite.
        """
        return self.fit_passes(MatrixPasses(X, y, sample_weight, self.n_threads))

    def fit_passes(self, passes: Passes) -> Self:
        """Fit in passes over rows, as `fit`."""
        import numpy as np

        passes = passes if self.seen is None else ContinuedPasses(passes, self.seen, add_seen)
        n_rows, n_columns = passes.shape
        mean: Array = np.zeros(n_columns + 1)  # of the columns and of the target
        if self.fit_intercept:
            (sums,) = passes.reduce(column_sums)
            mean = sums / passes.total_weight
        if self.takes_products and n_rows > n_columns:
            factor = _factor_of_products(passes.reduce(products, mean)[0])
        else:
            (factor,) = passes.reduce(triangle, mean, merge=merge_triangles)
        if not np.isfinite(factor).all():
            raise ValueError("the matrix has missing or infinite values, or values too large to be squared")
        self.seen_ = SeenRows(passes.total_weight, mean[None], factor.copy())
        if self.takes_mean:
            factor *= np.sqrt(len(factor) / passes.total_weight)
        found = self.estimator.fit(np.asfortranarray(factor[:, :-1]), factor[:, -1].copy())
        self.coef_ = np.asarray(found.coef_, np.float64)
        self.intercept_ = float(mean[-1] - mean[:-1] @ self.coef_) if self.fit_intercept else 0.0
        return self


def add_seen(seen: SeenRows, function: Reduction, arguments: Sequence[Any], parts: Parts) -> Parts:
    """Return the parts of a reduction of further rows with those of rows that were seen before."""
    import numpy as np

    if function is column_sums:
        return add(parts, [seen.total_weight * seen.point[0]])
    shift = np.sqrt(seen.total_weight) * (seen.point - arguments[0])  # the factor is centred by its own mean
    rows = np.concatenate([seen.factor, shift])
    return add(parts, [rows.T @ rows]) if function is products else merge_triangles(parts, [rows])


def column_sums(blocks: Iterable[RowBlock]) -> Parts:
    """Return the weighted sums of the columns and of the target, shape (d + 1,)."""
    return _sum(blocks, lambda rows, weights: rows @ weights)


def products(blocks: Iterable[RowBlock], mean: Array) -> Parts:
    """Return the products of the centred columns and target with each other, shape (d + 1, d + 1)."""

    def of_block(rows: Array, weights: Array) -> Array:
        found: Array = (centred := _centred(rows, weights, mean)) @ centred.T
        return found

    return _sum(blocks, of_block)


def _sum(blocks: Iterable[RowBlock], of_block: Callable[[Array, Array], Array]) -> Parts:
    sums: Parts | None = None
    for rows, y, weights, _ in blocks:
        rows[-1] = y
        parts = [of_block(rows, weights)]
        sums = parts if sums is None else add(sums, parts)
    assert sums is not None
    return sums


def triangle(blocks: Iterable[RowBlock], mean: Array) -> Parts:
    """Return the triangular factor of the centred and weighted rows, shape (r, d + 1): r is at most d + 1."""
    import numpy as np

    factor: Array = np.empty((0, len(mean)))
    for rows, y, weights, _ in blocks:
        rows[-1] = y
        factor = _triangle(factor, _centred(rows, weights, mean).T)
    return [factor]


def merge_triangles(factors: Parts, others: Parts) -> Parts:
    """Return the triangular factor of the rows of two."""
    return [_triangle(*pair) for pair in zip(factors, others, strict=True)]


def _triangle(factor: Array, rows: Array) -> Array:
    import numpy as np

    found: Array = np.asarray(np.linalg.qr(np.concatenate([factor, rows]), mode="r"))
    return found


def _centred(rows: Array, weights: Array, mean: Array) -> Array:
    """Return rows, overwritten, minus the mean, times the roots of their weights."""
    import numpy as np

    rows -= mean[:, None]
    rows *= np.sqrt(weights)
    return rows


def _factor_of_products(found: Array) -> Array:
    """Return a factor R with ``R.T @ R == found`` to rounding in the units of each column.

    Columns of unit length are factored: by Cholesky's decomposition, or if they are collinear by eigenvalues.
    """
    import numpy as np

    if not np.isfinite(found).all():
        return found
    diagonal = found.diagonal()
    scale = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    scaled = found / scale[:, None] / scale
    try:
        factor: Array = np.linalg.cholesky(scaled).T
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(scaled)
        factor = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return factor * scale
