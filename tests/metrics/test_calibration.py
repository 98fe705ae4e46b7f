from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss, roc_auc_score

from gpupipe.errors import DataError
from gpupipe.metrics import Calibration, fit_calibration


def _distorted(p: Any) -> Any:
    """Return probabilities as an overconfident model gives them."""
    return p**3 / (p**3 + (1 - p) ** 3)


def test_sigmoid_repairs_an_overconfident_model(binary: Any) -> None:
    y, guess = binary
    wrong = _distorted(guess)
    calibration = fit_calibration(wrong, y, "sigmoid")
    assert calibration.slope == pytest.approx(1 / 3, rel=0.15)
    assert log_loss(y, calibration.apply(wrong)) < log_loss(y, guess) + 0.005 < log_loss(y, wrong)


def test_sigmoid_keeps_the_order_of_the_rows(binary: Any) -> None:
    y, guess = binary
    after = fit_calibration(guess, y, "sigmoid").apply(guess)
    assert roc_auc_score(y, after) == roc_auc_score(y, guess)


def test_isotonic_matches_scikit_learn(binary: Any) -> None:
    y, guess = binary
    calibration = fit_calibration(guess, y, "isotonic")
    grid = np.linspace(0, 1, 501)
    reference = IsotonicRegression(out_of_bounds="clip").fit(guess, y).predict(grid)
    np.testing.assert_allclose(calibration.apply(grid), reference, atol=1e-12)


@pytest.mark.parametrize("how", ["sigmoid", "isotonic"])
def test_a_calibration_survives_json(how: Any, binary: Any) -> None:
    y, guess = binary
    calibration = fit_calibration(guess, y, how)
    again = Calibration.from_json(json.loads(json.dumps(calibration.to_json())))
    np.testing.assert_array_equal(again.apply(guess), calibration.apply(guess))


def test_separable_rows_and_certain_probabilities_stay_finite() -> None:
    p = np.array([0.0, 0.0, 0.1, 0.9, 1.0, 1.0])
    after = fit_calibration(p, (p > 0.5).astype(float), "sigmoid").apply(p)
    assert np.isfinite(after).all()
    assert after[0] < 0.5 < after[-1]


@pytest.mark.parametrize("how", ["sigmoid", "isotonic"])
def test_rows_of_one_class_are_refused(how: Any) -> None:
    with pytest.raises(DataError, match="have the same class"):
        fit_calibration(np.array([0.2, 0.4]), np.zeros(2), how)
