"""Bins of a few columns at a time: the models are scikit-learn's, and no float64 copy of the matrix is made."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from gpupipe.backends import choose
from gpupipe.models.base import MODELS
from gpupipe.models.context import FitContext
from gpupipe.models.scikit_learn import column_bins
from gpupipe.models.scikit_learn.column_bins import bins_of_columns
from gpupipe.models.scikit_learn.settings import hist_boosting
from gpupipe.models.training import fit

Rows = tuple[Any, Any, Any]


def _rows(n_rows: int, seed: int, first_code: int = 0) -> Rows:
    """Return a float32 matrix of numbers, some missing, and of codes in the columns 1 and 4; targets and weights."""
    rng = np.random.default_rng(seed)
    X = np.asfortranarray(rng.normal(size=(n_rows, 6)), dtype=np.float32)
    X[:, 1] = rng.integers(first_code, 12, n_rows)
    X[:, 4] = 3 * rng.integers(0, 30, n_rows)
    X[rng.random(n_rows) < 0.1, 2] = np.nan
    return X, (X[:, 0] + (X[:, 1] % 3) + rng.normal(size=n_rows) > 1).astype(np.int64), rng.uniform(0.1, 3, n_rows)


@pytest.mark.parametrize(("categories", "is_weighted"), [(None, True), ([1, 4], False)])
def test_models_equal_those_of_scikit_learn(
    categories: list[int] | None, is_weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_bins, "BLOCK_BYTES", 0)  # as many columns as threads
    X, y, weights = _rows(201_000, 0, first_code=2)  # more rows than scikit-learn computes thresholds from
    X_val, y_val, weights_val = _rows(2_000, 1)  # with codes that the training rows have not
    weights, weights_val = (weights, weights_val) if is_weighted else (None, None)
    found = []
    for by_columns in (False, True):
        estimator = HistGradientBoostingClassifier(
            max_iter=4, categorical_features=categories, early_stopping=True, random_state=5
        )
        given = {"X_val": X_val, "y_val": y_val, "sample_weight_val": weights_val}
        if by_columns:
            with bins_of_columns(estimator, 2):
                estimator.fit(X, y, weights, **given)
        else:
            estimator.fit(X, y, weights, **given)
        found.append((estimator.predict_proba(X_val), estimator.validation_score_, estimator.train_score_))
    for expected, own in zip(*found, strict=True):
        np.testing.assert_array_equal(own, expected)


def test_no_float64_copy_of_the_matrix_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_bins, "BLOCK_BYTES", 0)
    X, y, _ = _rows(100_000, 2)
    X = np.asfortranarray(np.tile(X, 10))
    estimator = HistGradientBoostingClassifier(max_iter=1, categorical_features=[1, 4], early_stopping=False)
    tracemalloc.start()
    with bins_of_columns(estimator, 2):
        estimator.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * X.size


def test_another_scikit_learn_bins_the_whole_matrix_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = _rows(3_000, 3)
    model = MODELS.get("hist_gradient_boosting")(max_iter=3, early_stopping=True)
    context = FitContext(choose("cpu"), "binary", 0, 2, {}, list("abcdef"), ["0", "1"])
    expected = fit(model, X, y, context).predict(X).output
    monkeypatch.setattr(column_bins, "VERSIONS", ())
    monkeypatch.setattr(hist_boosting, "bins_of_columns", None)
    assert not model.reads_selected_rows("binary")
    np.testing.assert_array_equal(fit(model, X, y, context).predict(X).output, expected)
