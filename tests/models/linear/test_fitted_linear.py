"""Linear models from their coefficients, against the scikit-learn estimators that learned them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from gpupipe.errors import ArtifactError
from gpupipe.models.linear.fitted import Coefficients, FittedLinear
from gpupipe.tasks import Task
from tests.models.folder_files import load_fitted


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_probabilities_match_logistic_regression(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(400, 6)).astype(np.float32)
    y = (X @ rng.normal(size=(6, n_classes)) + rng.normal(size=(400, n_classes))).argmax(axis=1)
    estimator = LogisticRegression().fit(X, y)
    task: Task = "binary" if n_classes == 2 else "multiclass"
    fitted = FittedLinear.of(estimator, task, (), n_classes, tuple(range(n_classes)))
    X[0], X[1] = 1e4, -1e4  # scores at which a naive exponential overflows
    expected = estimator.predict_proba(X.astype(np.float64))
    got = fitted.predict(X).output
    np.testing.assert_allclose(got, expected[:, 1] if n_classes == 2 else expected, atol=1e-12)


def test_predictions_match_ridge_in_any_memory_order() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 3)).astype(np.float32)
    estimator = Ridge().fit(X, X @ [1.0, 2.0, 3.0] + 4.0)
    fitted = FittedLinear.of(estimator, "regression", ("a", "b", "c"), 0, ())
    expected = estimator.predict(X.astype(np.float64))
    np.testing.assert_allclose(fitted.predict(np.asfortranarray(X)).output, expected, atol=1e-9)
    np.testing.assert_allclose(fitted.predict(X).output, expected, atol=1e-9)
    assert list(fitted.importances()) == ["a", "b", "c"]


@pytest.mark.parametrize("n_columns", [3, 20, 600])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_row_has_the_same_bits_whichever_rows_come_with_it(n_columns: int, n_outputs: int) -> None:
    rng = np.random.default_rng(n_columns)
    X = np.asfortranarray(rng.normal(size=(17_003, n_columns)).astype(np.float32))
    coefficients = Coefficients(rng.normal(size=(n_outputs, n_columns)), np.ones(n_outputs))
    fitted = FittedLinear(coefficients, "multiclass", (), max(2, n_outputs), tuple(range(max(2, n_outputs))))
    whole = fitted.predict(X).output
    for start, stop in [(0, 1), (5, 8), (1, 1_234), (1, 16_386), (16_380, 17_003), (17_002, 17_003)]:
        part = fitted.predict(np.ascontiguousarray(X[start:stop])).output
        np.testing.assert_array_equal(part, whole[start:stop])


def test_it_is_read_back_from_its_file_bit_for_bit(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    fitted = FittedLinear.of(Ridge().fit(X, X[:, 0]), "regression", ("a", "b"), 0, ())
    again = load_fitted(tmp_path, fitted.save(tmp_path))
    np.testing.assert_array_equal(again.predict(X).value, fitted.predict(X).value)


@pytest.mark.parametrize("content", [b"", b"no model", b"PK\x03\x04"])
def test_a_file_that_is_not_a_model_is_refused(tmp_path: Path, content: bytes) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    description = FittedLinear.of(Ridge().fit(X, X[:, 0]), "regression", ("a", "b"), 0, ()).save(tmp_path)
    (tmp_path / "estimator.npz").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"estimator\.npz is not a valid estimator of this model"):
        load_fitted(tmp_path, description)
