"""Scores of linear models: dot products in the order of the columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpupipe.models.linear.fitted import Coefficients
    from gpupipe.typing import Array
    from gpupipe_kernels.engines import HostEngine


def linear_scores(coefficients: Coefficients, engine: HostEngine) -> Callable[[Array], Array]:
    """Return the function from rows, float32, shape (n, d), to scores, float64, shape (n, n_outputs).

    The columns are added one after the other to 0, and the intercept last: the bits of a row are the same with both
    engines and for any number of rows.
    """
    return _compiled_scores(coefficients) if engine == "numba" else _numpy_scores(coefficients)


def _compiled_scores(coefficients: Coefficients) -> Callable[[Array], Array]:
    import numpy as np

    from gpupipe_kernels.launch import read_only
    from gpupipe_kernels.rows.dot import dot_rows

    coef, intercept = map(read_only, coefficients)
    n_outputs = len(coef)

    def scores(X: Array) -> Array:
        out = np.empty((len(X), n_outputs))
        dot_rows(np.ascontiguousarray(X), coef, intercept, out)
        return out

    return scores


def _numpy_scores(coefficients: Coefficients) -> Callable[[Array], Array]:
    import numpy as np

    from gpupipe_kernels.rows.column_sums import sum_terms

    coef, intercept = coefficients

    def scores(X: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # coefficients near the largest float overflow
            found: Array = sum_terms(np.multiply, X, coef) + intercept
            return found

    return scores
