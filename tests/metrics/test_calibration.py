from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

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


@pytest.mark.parametrize("how", ["temperature", "isotonic"])
def test_several_classes_are_calibrated_as_by_scikit_learn(how: Any) -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.6, random_state=0)
    model = GaussianNB().fit(X_train, y_train)
    rest = np.clip(model.predict_proba(X_rest), 1e-6, None)
    rest /= rest.sum(axis=1, keepdims=True)

    class Probabilities(ClassifierMixin, BaseEstimator):
        """Classifier whose probabilities are its input."""

        def fit(self, X: Any, y: Any) -> Any:
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X: Any) -> Any:
            return X

        def predict(self, X: Any) -> Any:
            return self.classes_[X.argmax(axis=1)]

    frozen = FrozenEstimator(Probabilities().fit(rest, y_rest))
    theirs = CalibratedClassifierCV(frozen, method=how).fit(rest[:500], y_rest[:500])
    ours = fit_calibration(rest[:500], y_rest[:500], how)
    found, expected = ours.apply(rest[500:]), theirs.predict_proba(rest[500:])
    np.testing.assert_allclose(found, expected, atol=2e-2 if how == "isotonic" else 2e-3)
    found = found.clip(1e-4) / found.clip(1e-4).sum(axis=1, keepdims=True)
    assert log_loss(y_rest[500:], found) < log_loss(y_rest[500:], rest[500:])
    assert Calibration.from_json(json.loads(json.dumps(ours.to_json()))) == ours


def test_a_temperature_for_two_classes_scales_the_logit() -> None:
    rng = np.random.default_rng(0)
    logit = rng.normal(size=20_000)
    y = (rng.random(20_000) < expit(logit)).astype(int)
    found = fit_calibration(expit(3 * logit), y, "temperature")  # three times too confident
    assert found.slope == pytest.approx(1 / 3, rel=0.03)
    both = np.column_stack([1 - expit(3 * logit), expit(3 * logit)])
    np.testing.assert_allclose(found.apply(both)[:, 1], found.apply(expit(3 * logit)), atol=1e-9)


def test_a_class_without_held_out_rows_keeps_its_probability() -> None:
    probability = np.random.default_rng(1).dirichlet([2, 2, 1], 400)
    y = probability[:, :2].argmax(axis=1)
    found = fit_calibration(probability, y, "isotonic")
    assert found.classes[2].apply(np.array([0.25])).tolist() == [0.25]
    np.testing.assert_allclose(found.apply(probability).sum(axis=1), 1)


def test_a_row_whose_classes_are_all_impossible_gets_equal_probabilities() -> None:
    never = Calibration("isotonic", x=(0.0, 1.0), y=(0.0, 0.0))
    found = Calibration("isotonic", classes=(never, never, never)).apply(np.full((1, 3), 1 / 3))
    np.testing.assert_allclose(found, 1 / 3)


@pytest.mark.parametrize("how", ["temperature", "isotonic"])
def test_a_row_has_the_same_bits_alone_and_among_others(how: Any) -> None:
    """NumPy adds 8 or more numbers in another order in column-major rows, which a single row is as well."""
    rng = np.random.default_rng(4)
    scores = np.asfortranarray(rng.normal(size=(300, 12)))
    probability = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    calibration = fit_calibration(probability, rng.integers(0, 12, 300).astype(np.float64), how)
    found = calibration.apply(np.asfortranarray(probability))
    for i in range(100):
        np.testing.assert_array_equal(calibration.apply(probability[i : i + 1]), found[i : i + 1])


def test_whole_weights_are_repeated_rows_in_the_maps_of_several_classes() -> None:
    rng = np.random.default_rng(0)
    y, guess, weight = rng.integers(0, 3, 80), rng.dirichlet(np.ones(3), 80), rng.integers(1, 4, 80)
    weighted = fit_calibration(guess, y, "isotonic", sample_weight=weight.astype(float))
    repeated = fit_calibration(guess.repeat(weight, axis=0), y.repeat(weight), "isotonic")
    np.testing.assert_allclose(weighted.apply(guess), repeated.apply(guess), rtol=1e-9)
