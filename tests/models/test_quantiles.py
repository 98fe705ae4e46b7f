"""Quantile regression: each model against its library, order of the quantiles, files, and settings that contradict."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_pinball_loss

from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.models import MODELS, FittedModel, Prediction, fit
from gpupipe.models.fitted.base import in_order
from gpupipe.random_streams import derive_seed
from tests.models.conftest import Data
from tests.models.folder_files import load_fitted

MODEL_SEED = derive_seed(7, "model")

PARAMS: dict[str, dict[str, Any]] = {
    "hist_gradient_boosting": {"max_iter": 20},
    "xgboost": {"n_estimators": 20, "max_depth": 3},
    "lightgbm": {"n_estimators": 20},
    "catboost": {"iterations": 20, "depth": 4, "learning_rate": 0.3},
    "mlp": {"epochs": 60, "width": 16, "embedding_size": 4, "batch_size": 32, "learning_rate": 0.01},
}


def fitted(name: str, data: Data, **params: Any) -> FittedModel:
    return fit(MODELS.get(name)(**PARAMS[name] | params), data.X, data.y, data.context)


@pytest.fixture(scope="module")
def models(tables: dict[str, Data]) -> dict[str, FittedModel]:
    return {name: fitted(name, tables["quantile"]) for name in PARAMS}


def by_hand(name: str, level: float, X: Any, y: Any, X_test: Any) -> Any:
    import lightgbm
    import xgboost

    made: dict[str, Callable[[], Any]] = {
        "hist_gradient_boosting": lambda: HistGradientBoostingRegressor(
            loss="quantile", quantile=level, max_iter=20, random_state=MODEL_SEED, early_stopping=False
        ),
        "xgboost": lambda: xgboost.XGBRegressor(
            objective="reg:quantileerror", quantile_alpha=level, n_estimators=20, max_depth=3, random_state=MODEL_SEED
        ),
        "lightgbm": lambda: lightgbm.LGBMRegressor(
            objective="quantile", alpha=level, n_estimators=20, random_state=MODEL_SEED, deterministic=True,
            force_col_wise=True, verbosity=-1,
        ),
    }  # fmt: skip
    return made[name]().fit(X, y).predict(X_test)


@pytest.mark.parametrize("name", ["hist_gradient_boosting", "xgboost", "lightgbm"])
def test_each_quantile_is_that_of_the_library(
    name: str, models: dict[str, FittedModel], tables: dict[str, Data]
) -> None:
    data = tables["quantile"]
    alone = [by_hand(name, level, data.X, data.y, data.X_test) for level in data.context.quantiles]
    found = models[name].predict(data.X_test).output
    np.testing.assert_allclose(found, np.sort(np.column_stack(alone), axis=1), rtol=1e-6)


@pytest.mark.parametrize("name", PARAMS)
def test_quantiles_never_cross_and_follow_the_rows(
    name: str, models: dict[str, FittedModel], tables: dict[str, Data]
) -> None:
    data = tables["quantile"]
    found = models[name].predict(data.X_test).quantiles
    assert found is not None
    assert (np.diff(found, axis=1) >= 0).all()
    for level, column in zip(data.context.quantiles, found.T, strict=True):
        constant = np.full(len(data.y_test), np.quantile(data.y, level))
        loss, of_constant = (mean_pinball_loss(data.y_test, p, alpha=level) for p in (column, constant))
        assert loss < 0.95 * of_constant, level


def test_sorting_never_increases_the_loss() -> None:
    rng, levels = np.random.default_rng(3), (0.2, 0.5, 0.7)
    y, crossing = rng.normal(size=300), rng.normal(size=(300, 3))

    def loss(predicted: Any) -> Any:
        error = y[:, None] - predicted
        return np.maximum(np.multiply(levels, error), np.subtract(levels, 1) * error).sum(axis=1)

    assert (loss(in_order(crossing)) <= loss(crossing) + 1e-12).all()


@pytest.mark.parametrize("name", PARAMS)
def test_a_saved_model_and_its_row_estimators_predict_the_same_bits(
    name: str, models: dict[str, FittedModel], tables: dict[str, Data], tmp_path: Path
) -> None:
    model, X = models[name], tables["quantile"].X_test
    loaded = load_fitted(tmp_path, model.save(tmp_path))
    assert loaded.n_outputs == model.n_outputs == 3
    expected = model.predict(X).quantiles
    np.testing.assert_array_equal(loaded.predict(X).quantiles, expected)
    for engine in ("numpy", "numba"):
        rows = loaded.row_estimator(engine)
        np.testing.assert_array_equal(rows(X[:1]).quantiles, model.predict(X[:1]).quantiles)
        if name != "mlp":  # a network's rounding depends on the number of rows
            np.testing.assert_array_equal(rows(X).quantiles, expected)


def test_columns_need_no_names(models: dict[str, FittedModel], tables: dict[str, Data]) -> None:
    data = tables["quantile"]
    unnamed = fitted("lightgbm", replace(data, context=replace(data.context, feature_names=())))
    named = models["lightgbm"]
    np.testing.assert_array_equal(
        unnamed.row_estimator("numpy")(data.X_test).quantiles, named.predict(data.X_test).quantiles
    )
    assert [*(unnamed.importances() or {}).values()] == [*(named.importances() or {}).values()]


def test_each_quantile_stops_early_by_its_own_loss(tables: dict[str, Data]) -> None:
    model = fitted("hist_gradient_boosting", tables["quantile"], max_iter=200, early_stopping=True, learning_rate=0.2)
    rounds = [len(each.estimator._predictors) for each in model.models]
    assert len(set(rounds)) > 1
    assert [note.split(" of ")[0] for note in model.notes] == [
        f"quantile {level:g}: best round {n}" for level, n in zip((0.1, 0.5, 0.8), rounds, strict=True)
    ]


@pytest.mark.parametrize("name", PARAMS)
def test_row_weights_count(name: str, tables: dict[str, Data]) -> None:
    """Libraries interpolate between the rows of a leaf, so that weights are not quite repeated rows."""
    data, rng = tables["quantile"], np.random.default_rng(0)
    is_heavy = rng.random(len(data.y)) < 0.5
    y = np.where(is_heavy, 0.0, 100.0) + rng.normal(size=len(data.y))
    heavy = replace(data, y=y, context=replace(data.context, weights=np.where(is_heavy, 1.0, 0.01)))
    equal = replace(data, y=y)
    weighted, plain = (fitted(name, each).predict(data.X_test).output[:, 2] for each in (heavy, equal))
    assert np.median(weighted) < 25 < 75 < np.median(plain)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("hist_gradient_boosting", {"loss": "squared_error"}),
        ("xgboost", {"objective": "reg:squarederror"}),
        ("lightgbm", {"objective": "huber"}),
        ("catboost", {"loss_function": "RMSE"}),
    ],
)
def test_another_loss_is_refused_by_name(name: str, params: dict[str, str], tables: dict[str, Data]) -> None:
    with pytest.raises(ConfigError, match=next(iter(params.values()))) as raised:
        fitted(name, tables["quantile"], **params)
    assert "task quantile" in raised.value.what


def test_models_without_a_quantile_loss_are_refused(tables: dict[str, Data]) -> None:
    data = tables["quantile"]
    with pytest.raises(ConfigError, match="RandomForest cannot learn the task quantile"):
        fit(MODELS.get("random_forest")(), data.X, data.y, data.context)


def broken(description: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    made = copy.deepcopy(description)
    change(made)
    return made


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("models"),
        lambda d: d.update(models=[]),
        lambda d: d.update(models=["xgboost"]),
        lambda d: d.update(models=d["models"] * 400),
        lambda d: d.update(task="regression"),
        lambda d: d["models"][1].update(library="quantiles"),
        lambda d: d["models"].append(d["models"][0]),
        lambda d: d.update(feature_names=d["feature_names"][:-1]),
    ],
    ids=["no models", "an empty list", "not objects", "too many", "other task", "nested", "no file", "fewer columns"],
)
def test_a_corrupt_description_is_refused(
    change: Callable[[dict[str, Any]], Any], models: dict[str, FittedModel], tmp_path: Path
) -> None:
    description = models["xgboost"].save(tmp_path)
    with pytest.raises(ArtifactError):
        load_fitted(tmp_path, broken(description, change))


def test_a_prediction_with_another_number_of_quantiles_is_refused(models: dict[str, FittedModel]) -> None:
    prediction = Prediction("quantile", quantiles=np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"\(4, 3\)"):
        prediction.check(4, 0, models["xgboost"].n_outputs)
    replace(prediction, quantiles=np.zeros((4, 3))).check(4, 0, 3)
