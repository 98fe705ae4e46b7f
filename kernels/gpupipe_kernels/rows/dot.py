"""Compiled dot products of rows, summed column after column without fused multiply-add."""

from __future__ import annotations

from numpy import float64

from gpupipe_kernels.launch import host_walk


@host_walk
def dot_rows(X, coef, intercept, out):
    """Write the scores of rows, in float64.

    Parameters
    ----------
    X : array of float32, shape (n, d), C-contiguous
    coef : array of float64, shape (n_outputs, d)
    intercept : array of float64, shape (n_outputs,)
    out : array of float64, shape (n, n_outputs)
    """
    for row in range(X.shape[0]):
        for output in range(coef.shape[0]):
            total = float64(0)
            for column in range(coef.shape[1]):
                total += float64(X[row, column]) * coef[output, column]
            out[row, output] = total + intercept[output]
