"""Smoothed, out-of-fold target rates of levels, in NumPy and CuPy."""

from __future__ import annotations

from typing import Any

from benchmarks.churn import FOLDS, SMOOTHING
from gpupipe.typing import Array


def smoothed_rates(n: Array, total: Array) -> tuple[Array, Array]:
    """Return the rate of each level without the rows of each fold, shape (folds, levels), and over all rows.

    Parameters
    ----------
    n, total : array, shape (folds, levels)
        Rows, and the sum of their targets.
    """
    others_n, others_total = n.sum(axis=0) - n, total.sum(axis=0) - total
    prior = others_total.sum(axis=1, keepdims=True) / others_n.sum(axis=1, keepdims=True)
    out_of_fold = (others_total + SMOOTHING * prior) / (others_n + SMOOTHING)
    full = (total.sum(axis=0) + SMOOTHING * total.sum() / n.sum()) / (n.sum(axis=0) + SMOOTHING)
    return out_of_fold, full


def rate_of_rows(code: Array, y: Array, is_train: Array, fold: Array, xp: Any) -> Array:
    """Return the rate of each row's level; for training rows, without the rows of the same fold.

    Parameters
    ----------
    code : array of integers, shape (n,)
        Levels from 0.
    y : array of float32, shape (n,)
    is_train : array of bool, shape (n,)
    fold : array of integers, shape (n,)
        0 to `FOLDS` - 1.
    xp : module
        NumPy or CuPy.
    """
    n_levels = int(code.max()) + 1
    pair = (fold.astype("int32") * n_levels + code)[is_train]
    n = xp.bincount(pair, minlength=FOLDS * n_levels).reshape(FOLDS, n_levels)
    total = xp.bincount(pair, weights=y[is_train], minlength=FOLDS * n_levels).reshape(FOLDS, n_levels)
    out_of_fold, full = smoothed_rates(n, total)
    rates: Array = xp.where(is_train, out_of_fold[fold, code], full[code]).astype("float32")
    return rates
