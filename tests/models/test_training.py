"""Every model on each of its tasks, with real data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import adjusted_rand_score, log_loss, r2_score

from gpupipe.errors import ConfigError, DataError
from gpupipe.models import MODELS, FittedModel, Prediction, fit
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from tests.models.folder_files import load_fitted
from tests.nightly import nightly_unless

ALONE = ("best", "estimator")  # an ensemble is trained by a run, an estimator is given by a file
CASES = [(name, task) for name, model in MODELS.items() for task in sorted(model.tasks) if name not in ALONE]
# Small trees and few rounds: the tests check that a model learns, not its best score.
PARAMS: dict[str, dict[str, Any]] = {
    "lasso": {"alpha": 0.5},
    "elastic_net": {"alpha": 0.1},
    "random_forest": {"n_estimators": 30},
    "hist_gradient_boosting": {"max_iter": 30, "min_samples_leaf": 5},
    "xgboost": {"n_estimators": 30, "max_depth": 3},
    "lightgbm": {"n_estimators": 60},
    "catboost": {"iterations": 60},
    **{name: {"batch_size": 32, "learning_rate": 3e-3} for name in ("mlp", "tabm", "ft_transformer")},
    "kmeans": {"n_clusters": 3},
    "pca": {"n_components": 3},
}


# A network is saved and seeded in the same way whatever its task; tests/models/neural has the heads of each.
NETWORK_TASKS = {"mlp": "binary", "tabm": "regression", "ft_transformer": "multiclass"}
ONCE_A_NETWORK = [(name, task) for name, task in CASES if NETWORK_TASKS.get(name, task) == task]

Fitted = Callable[[str, str], FittedModel]


@pytest.fixture(scope="module")
def fitted_to(tables: dict[str, Any]) -> Fitted:
    """Return a function of a model's name and a task: the model, fitted once for all tests."""
    return cache(lambda name, task: _fit(name, tables[task]))


def _fit(name: str, data: Any, **params: Any) -> FittedModel:
    return fit(MODELS.get(name)(**PARAMS.get(name, {}) | params), data.X, data.y, data.context)


def _arrays(prediction: Prediction) -> dict[str, Any]:
    values = {field.name: getattr(prediction, field.name) for field in fields(prediction)}
    return {name: value for name, value in values.items() if name != "task" and value is not None}


@pytest.mark.parametrize(
    ("name", "task"),
    nightly_unless(
        lambda name, task: (name, task) != ("ft_transformer", "binary"),  # by day it learns three classes
        [case for case in CASES if case[1] in ("binary", "multiclass")],
    ),
)
def test_a_classifier_beats_the_shares_of_the_classes(
    name: str, task: str, tables: dict[str, Any], fitted_to: Fitted
) -> None:
    data = tables[task]
    probability: Any = fitted_to(name, task).predict(data.X_test).probability
    if task == "binary":
        probability = np.column_stack([1 - probability, probability])
    assert probability.dtype == np.float64
    assert probability.sum(axis=1) == pytest.approx(np.ones(len(data.X_test)), abs=1e-5)
    shares = np.tile(np.bincount(data.y.astype(int)) / len(data.y), (len(data.X_test), 1))
    assert np.mean(probability.argmax(axis=1) == data.y_test) > 0.85
    if name != "gaussian_nb":  # its probabilities are known to be extreme
        probability = probability / probability.sum(axis=1, keepdims=True)
        assert log_loss(data.y_test, probability) < 0.6 * log_loss(data.y_test, shares)


@pytest.mark.parametrize("name", [name for name, task in CASES if task == "regression"])
def test_a_regressor_beats_the_mean(name: str, tables: dict[str, Any], fitted_to: Fitted) -> None:
    data = tables["regression"]
    value: Any = fitted_to(name, "regression").predict(data.X_test).value
    assert value.shape == (len(data.X_test),)
    assert value.dtype == np.float64
    assert r2_score(data.y_test, value) > 0.2


def test_kmeans_finds_the_three_wines(tables: dict[str, Any]) -> None:
    prediction = _fit("kmeans", tables["clustering"]).predict(tables["clustering"].X)
    assert adjusted_rand_score(tables["multiclass"].y, prediction.label) > 0.8
    assert prediction.distance is not None and (prediction.distance >= 0).all()


def test_pca_gives_the_directions_of_most_variance(tables: dict[str, Any]) -> None:
    data = tables["embedding"]
    embedding: Any = _fit("pca", data).predict(data.X).embedding
    assert embedding.shape == (len(data.X), 3)
    largest = np.sort(np.linalg.eigvalsh(np.cov(data.X, rowvar=False)))[::-1][:3]
    assert embedding.var(axis=0, ddof=1) == pytest.approx(largest, rel=1e-4)


@pytest.mark.parametrize(("name", "task"), ONCE_A_NETWORK)
def test_a_model_that_was_saved_and_loaded_predicts_the_same_bits(
    name: str, task: str, tables: dict[str, Any], fitted_to: Fitted, tmp_path: Path
) -> None:
    import json

    data = tables[task]
    fitted = fitted_to(name, task)
    description = json.loads(json.dumps(fitted.save(tmp_path)))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(description["files"])
    loaded = load_fitted(tmp_path, description)
    before, after = _arrays(fitted.predict(data.X_test)), _arrays(loaded.predict(data.X_test))
    assert before.keys() == after.keys()
    for key, values in before.items():
        np.testing.assert_array_equal(values, after[key])
    assert loaded.importances() == fitted.importances()


@pytest.mark.parametrize(("name", "task"), ONCE_A_NETWORK)
def test_the_same_seed_gives_the_same_model_and_the_matrix_is_unchanged(
    name: str, task: str, tables: dict[str, Any], fitted_to: Fitted
) -> None:
    data = tables[task]
    before = data.X.copy()
    first, second = (_arrays(model.predict(data.X_test)) for model in (fitted_to(name, task), _fit(name, data)))
    for key, values in first.items():
        np.testing.assert_array_equal(values, second[key])
    np.testing.assert_array_equal(data.X, before)


@pytest.mark.parametrize(
    "name", [name for name, model in MODELS.items() if model.accepts_missing and name not in ALONE]
)
def test_a_model_that_accepts_missing_values_learns_from_them(name: str, tables: dict[str, Any]) -> None:
    data = tables["binary"]
    X, X_test = data.X.copy(order="F"), data.X_test.copy(order="F")
    for matrix in (X, X_test):
        matrix[np.random.default_rng(0).random(matrix.shape) < 0.2] = np.nan
    probability: Any = _fit(name, replace(data, X=X)).predict(X_test).probability
    assert np.mean((probability > 0.5) == data.y_test) > 0.85


def test_importances_name_the_columns(tables: dict[str, Any], fitted_to: Fitted) -> None:
    data = tables["binary"]
    for name in ("logistic_regression", "random_forest", "xgboost", "linear_svc", "hist_gradient_boosting"):
        importances = fitted_to(name, "binary").importances()
        assert importances is not None
        assert list(importances) == list(data.context.feature_names)
    assert fitted_to("knn", "binary").importances() is None


def test_boosting_relies_on_the_columns_that_it_splits() -> None:
    """A column of categories, which scikit-learn moves to the front, keeps its gain."""
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.normal(size=(400, 2)), generator.integers(0, 4, 400)]).astype(np.float32)
    y = (X[:, 2] >= 2).astype(int)
    estimator = HistGradientBoostingClassifier(max_iter=3, categorical_features=[2]).fit(X, y)
    fitted = FittedSklearn(estimator, "binary", ("a", "b", "category"))
    gains = fitted.importances()
    assert gains is not None and max(gains, key=gains.__getitem__) == "category" and gains["a"] < 1e-6
    np.testing.assert_array_equal(fitted.column_weights(X), list(gains.values()))


def test_linear_weights_do_not_depend_on_units(tables: dict[str, Any]) -> None:
    data = tables["binary"]
    fitted = _fit("logistic_regression", data)
    units = np.geomspace(1e-3, 1e3, data.X.shape[1]).astype(np.float32)
    scaled = replace(fitted, estimator=fitted.estimator._replace(coef=fitted.estimator.coef / units))
    of_scaled, expected = scaled.column_weights(data.X * units), fitted.column_weights(data.X)
    assert of_scaled is not None and expected is not None
    np.testing.assert_allclose(of_scaled, expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["logistic_regression", "random_forest", "hist_gradient_boosting", "xgboost"])
def test_a_class_without_training_rows_gets_probability_zero(name: str, tables: dict[str, Any]) -> None:
    data = tables["multiclass"]
    kept = data.y != 1
    fitted = _fit(name, replace(data, X=np.asfortranarray(data.X[kept]), y=data.y[kept]))
    probability: Any = fitted.predict(data.X_test).probability
    assert probability.shape == (len(data.X_test), 3)
    assert (probability[:, 1] == 0).all()
    others = data.y_test != 1
    assert np.mean(probability[others].argmax(axis=1) == data.y_test[others]) > 0.9


def test_training_rows_of_a_single_class_are_refused(tables: dict[str, Any]) -> None:
    data = tables["binary"]
    with pytest.raises(DataError, match="training rows have the same class"):
        _fit("logistic_regression", replace(data, y=np.ones(len(data.y))))


def test_a_parameter_that_the_estimator_rejects_is_a_configuration_error(tables: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"cannot train PCA on .*n_components"):
        _fit("pca", tables["embedding"], n_components=500)


def test_sample_weights_move_the_model_and_are_refused_by_neighbours(tables: dict[str, Any], fitted_to: Fitted) -> None:
    data = tables["regression"]
    weight = np.where(data.y > np.median(data.y), 10.0, 1.0)
    for name in ("ridge", "lasso", "random_forest", "hist_gradient_boosting", "xgboost"):
        model = MODELS.get(name)(**PARAMS.get(name, {}))
        plain = fitted_to(name, "regression").predict(data.X_test).output
        weighted = fit(model, data.X, data.y, data.context, sample_weight=weight).predict(data.X_test).output
        assert weighted.mean() > plain.mean()
    with pytest.raises(ConfigError, match="takes no sample weights"):
        fit(MODELS.get("knn")(), data.X, data.y, data.context, sample_weight=weight)


def test_a_training_that_has_not_converged_has_a_note(tables: dict[str, Any]) -> None:
    (note,) = _fit("logistic_regression", tables["binary"], solver="saga", max_iter=1).notes
    assert "did not converge" in note
