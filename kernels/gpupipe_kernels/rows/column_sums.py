"""Sums over the columns of rows, added from left to right in float64 by NumPy.

Each step rounds single values, so the result of a row has the same bits whatever the number of rows, their memory
layout, and the processor. A product of matrices by BLAS adds in an order that depends on all three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BLOCK_ROWS = 8_192  # a block of a column stays in the cache
FEW_ROWS, FEW_TERMS = 128, 1 << 18  # up to which adding all terms at once is faster than column by column


def sum_terms(term: Callable[..., Any], X: Any, *parameters: Any) -> Any:
    """Return the sums over the columns of ``term(values, *parameters)``, float64, shape (n, k).

    Raise ValueError if parameters have another number of columns than the rows.

    Parameters
    ----------
    term : callable
        Returns the terms of values and of parameters, all float64, which are broadcast; such as ``numpy.multiply``.
    X : array of float, shape (n, d)
        Rows in any memory layout.
    *parameters : array of float64, shape (k, d)

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> sum_terms(np.multiply, X, np.array([[10.0, 1.0], [0.0, -1.0]])).tolist()
    [[12.0, -2.0], [34.0, -4.0]]
    """
    (n_rows, n_columns), n_sums = X.shape, len(parameters[0])
    if any(each.shape != (n_sums, n_columns) for each in parameters):
        shapes = ", ".join(str(each.shape) for each in parameters)
        raise ValueError(f"expected parameters of {n_columns} columns; got arrays of shape {shapes}")
    if n_rows <= FEW_ROWS and n_rows * n_sums * n_columns <= FEW_TERMS:
        terms = term(X.astype(np.float64)[:, None, :], *parameters)
        # accumulate, unlike sum, adds from left to right; + 0.0, since a sum from 0 is never -0.0
        return np.add.accumulate(terms, axis=-1, out=terms)[..., -1] + 0.0
    found = np.zeros((n_sums, n_rows))
    for low in range(0, n_rows, BLOCK_ROWS):
        block = X[low : low + BLOCK_ROWS].T.astype(np.float64)
        for total, *own in zip(found[:, low : low + BLOCK_ROWS], *parameters, strict=True):
            for values in zip(block, *own, strict=True):
                total += term(*values)
    return found.T


def sum_columns(values: Any) -> Any:
    """Return the sum of each row, shape (n, 1), of an array, shape (n, k), on any device.

    Examples
    --------
    >>> sum_columns(np.array([[1.0, 2.0, 3.0]])).tolist()
    [[6.0]]
    """
    total = values[:, :1].copy()
    for j in range(1, values.shape[1]):
        total += values[:, j : j + 1]
    return total
