"""Targets whose differences float32 loses: the same model as without the offset, on every road of a fitted model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpupipe.backends.float32_loss import NumberUnit, count_distinct
from gpupipe.errors import ArtifactError
from gpupipe.models import MODELS, fit
from gpupipe.models.composites.scaled_target import FittedScaledTarget
from gpupipe.models.context import ValidationRows
from gpupipe.models.target_scale import TargetScale
from gpupipe.tasks import TargetSpec
from tests.models.conftest import Data
from tests.models.folder_files import load_fitted

OFFSET = 1.7e9
MODEL_PARAMS: dict[str, dict[str, Any]] = {
    "xgboost": {"n_estimators": 15, "max_depth": 3},
    "lightgbm": {"n_estimators": 15},
    "catboost": {"iterations": 15, "depth": 3, "learning_rate": 0.3},
    "hist_gradient_boosting": {"max_iter": 15},
    "random_forest": {"n_estimators": 5},
    "knn": {},
    "ridge": {},
    "elastic_net": {},
}


def predicted(model: Any, X: Any) -> Any:
    """Return a prediction, whose fields depend on the task."""
    return model.predict(X)


@pytest.mark.parametrize("name", MODEL_PARAMS)
def test_an_offset_does_not_change_a_regression(name: str, tables: dict[str, Data]) -> None:
    data, model = tables["regression"], MODELS.get(name)(**MODEL_PARAMS[name])
    y = np.round(data.y)  # minutes; an offset of a whole number is subtracted exactly
    plain = fit(model, data.X, y, data.context)
    moved = fit(model, data.X, OFFSET + y, data.context)
    assert not isinstance(plain, FittedScaledTarget)
    np.testing.assert_allclose(
        predicted(moved, data.X_test).value - OFFSET, predicted(plain, data.X_test).value, rtol=2e-3, atol=0.3
    )


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
@pytest.mark.parametrize("unit", [2.0**-90, 2.0**80])
def test_a_unit_does_not_change_trees(name: str, unit: float, tables: dict[str, Data]) -> None:
    data, model = tables["regression"], MODELS.get(name)(**MODEL_PARAMS[name])
    plain, scaled = fit(model, data.X, data.y, data.context), fit(model, data.X, data.y * unit, data.context)
    np.testing.assert_allclose(
        predicted(scaled, data.X_test).value / unit, predicted(plain, data.X_test).value, rtol=1e-4, atol=1e-2
    )


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_quantiles_of_a_target_with_an_offset(name: str, tables: dict[str, Data]) -> None:
    data, model = tables["quantile"], MODELS.get(name)(**MODEL_PARAMS[name])
    fitted = (fit(model, data.X, offset + data.y, data.context) for offset in (0.0, OFFSET))
    plain, moved = (predicted(each, data.X_test) for each in fitted)
    np.testing.assert_allclose(moved.quantiles - OFFSET, plain.quantiles, rtol=2e-2, atol=1.0)
    assert (np.diff(moved.quantiles, axis=1) >= 0).all()


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_each_of_several_targets_has_its_own_scale(strategy: str, tables: dict[str, Data], tmp_path: Path) -> None:
    data = tables["regression"]
    y = np.stack([data.y, OFFSET + np.round(data.y)]).T
    context = replace(
        data.context,
        task="multioutput",
        targets=(TargetSpec("regression", name="a"), TargetSpec("regression", name="b")),
    )
    model = MODELS.get("xgboost")(n_estimators=15, max_depth=3, multi_strategy=strategy)
    fitted = fit(model, data.X, y, context)
    assert isinstance(fitted, FittedScaledTarget)
    assert fitted.units[0] == (0.0, 1.0)
    found = predicted(fitted, data.X_test).outputs
    np.testing.assert_allclose(found[:, 1] - OFFSET, found[:, 0], atol=1.0)
    loaded = load_fitted(tmp_path, fitted.save(tmp_path))
    np.testing.assert_array_equal(predicted(loaded, data.X_test).outputs, found)


def test_classes_next_to_a_number_keep_their_units(tables: dict[str, Data]) -> None:
    data = tables["regression"]
    y = np.stack([np.digitize(data.y, [100.0, 200.0]).astype(float), OFFSET + data.y]).T
    targets = (TargetSpec("multiclass", 3, "size"), TargetSpec("regression", name="time"))
    context = replace(data.context, task="multioutput", targets=targets)
    fitted = fit(MODELS.get("lightgbm")(n_estimators=5), data.X, y, context)
    found = predicted(fitted, data.X_test).outputs
    np.testing.assert_allclose(found[:, :3].sum(axis=1), 1.0)
    assert np.std(found[:, 3]) > 10
    explained = fitted.explainer(lambda: data.X[:20]).contributions(data.X_test[:5])
    np.testing.assert_allclose(explained.margins[:, 3], found[:5, 3], atol=1e-3)


def test_every_road_of_a_fitted_model_adds_the_offset(tables: dict[str, Data], tmp_path: Path) -> None:
    data = tables["regression"]
    fitted = fit(MODELS.get("xgboost")(n_estimators=15, max_depth=3), data.X, OFFSET + data.y, data.context)
    expected = predicted(fitted, data.X_test).value
    assert expected.dtype == np.float64
    assert len(np.unique(expected)) > 50
    loaded = load_fitted(tmp_path, fitted.save(tmp_path))
    for each in (loaded, fitted, loaded.with_library(), loaded.portable()):
        np.testing.assert_array_equal(predicted(each, data.X_test).value, expected)
        np.testing.assert_array_equal(each.row_estimator("numpy")(data.X_test[:1]).value, expected[:1])
    explained = loaded.explainer(lambda: data.X[:20]).contributions(data.X_test)
    np.testing.assert_allclose(explained.margins[:, 0], expected, atol=1e-3)
    inside = loaded.explainer(lambda: data.X[:20]).interactions(data.X_test[:3])
    np.testing.assert_allclose(inside.sum(axis=3), explained.values[:3], atol=1e-3)
    assert set(fitted.importances() or {}) == set(data.context.feature_names)


def test_validation_and_out_of_bag_rows_are_in_the_units_of_the_target(tables: dict[str, Data]) -> None:
    data = tables["regression"]
    held = ValidationRows(data.X_test, OFFSET + data.y_test)
    model = MODELS.get("lightgbm")(n_estimators=60, early_stopping_rounds=10)
    found: list[Any] = []
    rounds = [
        fit(model, data.X, offset + data.y, replace(data.context, validation=replace(held, y=offset + data.y_test)))
        for offset in (0.0, OFFSET)
    ]
    assert rounds[0].notes[0] == rounds[1].notes[0]  # the same best round
    forest = MODELS.get("random_forest")(n_estimators=30)
    fit(forest, data.X, OFFSET + data.y, replace(data.context, report_out_of_bag=found.append))
    assert np.corrcoef(found[0] - OFFSET, data.y)[0, 1] > 0.4


@pytest.mark.parametrize(
    ("name", "params", "invariance"),
    [
        ("xgboost", {}, "affine"),
        ("xgboost", {"gamma": 1.0}, "shift"),
        ("xgboost", {"objective": "reg:pseudohubererror"}, "shift"),
        ("xgboost", {"objective": "reg:tweedie"}, "none"),
        ("xgboost", {"objective": "count:poisson"}, "none"),
        ("xgboost", {"base_score": 0.5}, "none"),
        ("xgboost", {"eval_metric": ["rmse", "mape"]}, "none"),
        ("lightgbm", {"objective": "mape"}, "none"),
        ("lightgbm", {"objective": "huber"}, "shift"),
        ("lightgbm", {"eval_metric": "mape"}, "none"),
        ("catboost", {"loss_function": "MAPE"}, "none"),
        ("catboost", {"loss_function": "Poisson"}, "none"),
        ("hist_gradient_boosting", {"loss": "gamma"}, "none"),
        ("random_forest", {"criterion": "poisson"}, "none"),
        ("random_forest", {"ccp_alpha": 0.1}, "shift"),
        ("ridge", {}, "shift"),
        ("ridge", {"fit_intercept": False}, "none"),
    ],
)
def test_losses_that_an_offset_changes_keep_the_target(name: str, params: dict[str, Any], invariance: str) -> None:
    assert MODELS.get(name)(**params).target_invariance("regression") == invariance


@pytest.mark.parametrize(
    ("y", "unit"),
    [
        (np.arange(2000.0, 2024.0), (0.0, 1.0)),  # years: float32 has 2**13 of them apart
        (np.array([0.0] * 80 + list(range(20))), (0.0, 1.0)),  # most are 0
        (1.7e9 + 60.0 * np.arange(100), (1.7e9 + 2940.0, 1.0)),
        (np.array([1.7e9 + minute for minute in range(100)] + [0.0]), (1.7e9 + 49.0, 1.0)),  # an outlier
        (np.array([5e9] * 90 + [5e9 + 1] * 10), (5e9, 1.0)),
        (np.full(10, 7.0), (0.0, 1.0)),
        (np.array([]), (0.0, 1.0)),
    ],
)
def test_offsets_are_those_that_float32_loses(y: Any, unit: tuple[float, float]) -> None:
    assert NumberUnit.of(y, has_units=True) == unit


def test_units_are_powers_of_two(tables: dict[str, Data]) -> None:
    unit = NumberUnit.of(tables["regression"].y * 1e-9, has_units=True).unit
    assert np.log2(unit).is_integer()
    assert unit < 1e-6


@pytest.mark.parametrize("task", ["binary", "multiclass", "ranking"])
def test_codes_and_relevances_have_no_scale(task: Any, tables: dict[str, Data]) -> None:
    data = tables[task]
    assert TargetScale.of(MODELS.get("xgboost")(), data.y, data.context) is None


@pytest.mark.parametrize("units", [None, [], [[1.0]], [[0.0, 0.0]], [[0.0, -1.0]], [[float("nan"), 1.0]], [["a", 1.0]]])
def test_malformed_units_are_refused(units: Any, tables: dict[str, Data], tmp_path: Path) -> None:
    data = tables["regression"]
    fitted = fit(MODELS.get("ridge")(), data.X, OFFSET + data.y, data.context)
    description = fitted.save(tmp_path) | {"units": units}
    with pytest.raises(ArtifactError, match="units"):
        load_fitted(tmp_path, description)


def test_a_scaled_target_contains_no_other(tables: dict[str, Data], tmp_path: Path) -> None:
    data = tables["regression"]
    description = fit(MODELS.get("ridge")(), data.X, OFFSET + data.y, data.context).save(tmp_path)
    description["models"] = [description | {"task": "regression"}]
    with pytest.raises(ArtifactError):
        load_fitted(tmp_path, description)


def test_distinct_values_are_counted_in_float32() -> None:
    seconds = 1.7e9 + np.arange(600) * 0.1
    assert count_distinct(seconds) == (600, 1)
    assert count_distinct(seconds, 1.7e9) == (600, 600)
    assert count_distinct(np.array([])) == (0, 0)


def test_rounding_errors_make_no_distinct_values() -> None:
    prices = np.arange(1, 400) * 0.1
    assert len(np.unique([prices, np.arange(1, 400) / 10])) > 450
    assert count_distinct(np.concatenate([prices, np.arange(1, 400) / 10])) == (399, 399)
    assert count_distinct(2.0**52 + np.arange(10)) == (10, 1)  # integers have none
