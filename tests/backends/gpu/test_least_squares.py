"""Blockwise least squares on the CuPy double, compared with scikit-learn's SVD of the whole matrix."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

from gpupipe.backends.gpu import least_squares
from gpupipe.backends.gpu.least_squares import LeastSquares, working_bytes
from tests.backends.double import DeviceArray, xp

Array = Any
N = 1_200


def normal(rng: np.random.Generator, columns: int = 6) -> Array:
    return rng.normal(size=(N, columns))


def one_hot(rng: np.random.Generator, levels: int) -> Array:
    return np.eye(levels)[rng.integers(0, levels, N)]


MATRICES: dict[str, Callable[[np.random.Generator], Array]] = {
    "independent columns": normal,
    "units from 1e-4 to 1e5": lambda rng: normal(rng) * np.logspace(-4, 5, 6),
    "times of this year in seconds": lambda rng: np.hstack([normal(rng), 1.77e9 + 3e7 * rng.random((N, 1))]),
    "constant columns": lambda rng: np.hstack([normal(rng), np.zeros((N, 1)), np.full((N, 4), [0.1, 1 / 3, 0.7, 1e6])]),
    "a column twice": lambda rng: (lambda X: np.hstack([X, X[:, :2]]))(normal(rng)),
    "a column twice, in other units": lambda rng: (lambda X: np.hstack([X, 1024 * X[:, :2]]))(normal(rng)),
    "two full one-hots": lambda rng: np.hstack([normal(rng), one_hot(rng, 5), one_hot(rng, 30)]),
    "a one-hot and unlike units": lambda rng: np.hstack([normal(rng) * np.logspace(-4, 5, 6), one_hot(rng, 5)]),
    "nearly collinear columns": lambda rng: (lambda X: np.hstack([X, X[:, :1] + 3e-5 * rng.normal(size=(N, 1))]))(
        normal(rng)
    ),
    "more columns than rows": lambda rng: normal(rng, N + 50)[:200, :250],
    "diabetes, as measured": lambda rng: load_diabetes(scaled=False).data,
}


def target(X: Array, rng: np.random.Generator) -> Array:
    """Return a target to which every column that varies contributes alike, with noise."""
    scale = np.where(np.ptp(X, axis=0) > 0, X.std(axis=0), 1.0)
    coef = rng.normal(size=X.shape[1]) / scale
    return 100.0 + X @ coef + rng.normal(size=len(X))


def on_device(X: Array, y: Array, weights: Array | None = None, **params: Any) -> LeastSquares:
    given = None if weights is None else xp.asarray(weights)
    return LeastSquares(xp=xp, **params).fit(xp.asarray(X), xp.asarray(y), given)


@pytest.mark.parametrize(("weighted", "fit_intercept"), [(False, True), (True, True), (False, False)])
@pytest.mark.parametrize("kind", MATRICES)
def test_the_coefficients_match_scikit_learn(
    kind: str, weighted: bool, fit_intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    X = np.asfortranarray(MATRICES[kind](rng), np.float32)
    y = target(X.astype(float), rng)
    weights = np.maximum(rng.random(len(X)) - 0.2, 0.0) if weighted else None  # some rows weigh nothing
    monkeypatch.setattr(least_squares, "BLOCK_BYTES", 8 * X.shape[1] * 97)  # and a last one of fewer rows
    found = on_device(X, y, weights, fit_intercept=fit_intercept)
    reference = LinearRegression(tol=1e-10, fit_intercept=fit_intercept).fit(X.astype(float), y, weights)
    # In scikit-learn the coefficient of a constant column depends on the rounding of its weighted mean.
    is_compared = (np.ptp(X, axis=0) > 0) | (not fit_intercept)
    unit = np.where(np.ptp(X, axis=0) > 0, X.std(axis=0, dtype=float), 1.0)[is_compared]
    expected = reference.coef_[is_compared] * unit
    coef = xp.asnumpy(found.coef_)
    assert type(found.coef_) is DeviceArray
    assert not coef[~is_compared].any()
    # With unlike units, scikit-learn's SVD of unscaled columns is accurate to 1e-7 only.
    np.testing.assert_allclose(coef[is_compared] * unit, expected, rtol=2e-7, atol=1e-9 * np.abs(expected).max())
    there = reference.predict(X.astype(float))
    np.testing.assert_allclose(xp.asnumpy(found.predict(xp.asarray(X))), there, rtol=2e-7, atol=2e-7)


def test_missing_values_are_an_error() -> None:
    X = np.ones((5, 2), np.float32)
    X[2, 1] = np.nan
    with pytest.raises(ValueError, match="missing or infinite"):
        on_device(X, np.arange(5.0))


def test_memory_matches_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_squares, "BLOCK_BYTES", 1 << 20)
    rng = np.random.default_rng(1)
    X, y = xp.asarray(np.asfortranarray(rng.random((100_000, 20)), np.float32)), xp.asarray(rng.random(100_000))
    tracemalloc.start()
    try:
        LeastSquares(xp=xp).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    target_and_weights = 2 * 8 * 100_000  # which were there before
    assert peak == pytest.approx(working_bytes(100_000, 20) - target_and_weights, rel=0.1)


def test_50_million_rows_by_57_columns_take_a_fraction_of_their_matrix() -> None:
    assert working_bytes(50_000_000, 57) < 0.12 * 4 * 50_000_000 * 57
    assert working_bytes(1_000, 57) < 4 * 8 * 1_000 * 57  # few rows: less than a block
