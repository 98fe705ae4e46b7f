"""Comparison of row estimators with the predictions of whole batches."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np

from gpupipe.models import FittedModel, Prediction

ENGINES = ("numpy", "numba")
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38, -1, -0.5, 0.5, 1.5, 31, 32, 64, 1e6,
     16777215, 16777216, 16777217, 2.0**31, 2.0**32, 1e30],
    np.float32,
)  # fmt: skip


def assert_same_bits(found: Prediction, expected: Prediction) -> None:
    """Verify that two predictions have the same arrays, to the last bit; NaN equals NaN."""
    assert found.arrays.keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)
        zeros = array == 0
        np.testing.assert_array_equal(np.signbit(found.arrays[name][zeros]), np.signbit(array[zeros]))


def check_rows(model: FittedModel, X: Any) -> str:
    """Compare each engine with ``model.predict`` on one row and on all rows of any layout; return the last name."""
    expected = model.predict(X)
    name = ""
    for engine in ENGINES:
        estimator = model.row_estimator(engine)  # type: ignore[arg-type]
        for rows in (X, np.ascontiguousarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
            assert_same_bits(estimator(rows), expected)
        for i in range(3):
            assert_same_bits(estimator(X[i : i + 1]), expected.mapped(itemgetter(slice(i, i + 1))))
        name = estimator.name
    return name


def with_special(rng: Any, X: Any, share: float = 0.2) -> Any:
    """Return a copy of `X` in which a share of the cells are missing, infinite or otherwise special."""
    return np.where(rng.random(X.shape) < share, rng.choice(SPECIAL, X.shape), X).astype(np.float32)
