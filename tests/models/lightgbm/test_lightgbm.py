"""LightGBM: early stopping, progress, safe points, and errors."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.errors import ConfigError
from gpupipe.models import MODELS, FitContext, Resources, fit
from gpupipe.models.context import ValidationRows
from gpupipe.random_streams import derive_seed

MODEL_SEED = derive_seed(7, "model")

LightGBM = MODELS.get("lightgbm")


def n_rounds(model: Any) -> int:
    return len(model.estimator.trees.packed.trees)


def noise(n: int) -> tuple[Any, Any]:
    """Return rows of which one column predicts the target a little, so that more rounds soon predict worse."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.normal(size=(n, 5)), np.float32)
    return X, (X[:, 0] + 3 * rng.normal(size=n) > 0).astype(np.float64)


def test_early_stopping_trains_again_on_all_rows(backend: CpuBackend) -> None:
    X, y = noise(600)
    context = FitContext(backend, "binary", 3, 2, {}, list("abcde"))
    stopped = fit(LightGBM(n_estimators=200, early_stopping_rounds=5), X, y, context)
    n = n_rounds(stopped)
    assert 0 < n < 50
    assert f"best round {n} of {n + 5} on" in stopped.notes[-1]
    again = fit(LightGBM(n_estimators=n_rounds(stopped)), X, y, context)
    np.testing.assert_array_equal(stopped.predict(X).output, again.predict(X).output)


def test_given_validation_rows_choose_the_round_and_are_not_trained_on(backend: CpuBackend) -> None:
    X, y = noise(600)
    rows = ValidationRows(X[400:], y[400:].astype(np.int64))
    context = FitContext(backend, "binary", 3, 2, {}, list("abcde"), validation=rows)
    stopped = fit(LightGBM(n_estimators=200, early_stopping_rounds=5), X[:400], y[:400], context)
    assert 0 < n_rounds(stopped) < 50
    alone = fit(LightGBM(n_estimators=n_rounds(stopped)), X[:400], y[:400], replace(context, validation=None))
    np.testing.assert_array_equal(stopped.predict(X).output, alone.predict(X).output)


def test_dart_never_stops_early(backend: CpuBackend) -> None:
    X, y = noise(300)
    model = LightGBM(n_estimators=30, early_stopping_rounds=1, boosting_type="dart")
    assert n_rounds(fit(model, X, y, FitContext(backend, "binary", 3, 2, {}, list("abcde")))) == 30


def test_a_safe_point_after_each_round_can_stop_the_training(tables: dict[str, Any]) -> None:
    data, seen = tables["binary"], []

    def stop(where: str) -> None:
        seen.append(where)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(LightGBM(), data.X, data.y, replace(data.context, resources=Resources(safe_point=stop)))
    assert seen == ["after round 1", "after round 2", "after round 3"]


def test_class_weights_are_row_weights(tables: dict[str, Any]) -> None:
    data = tables["binary"]
    weighted = fit(LightGBM(n_estimators=5, class_weight={0: 1, 1: 3}), data.X, data.y, data.context)
    rows = fit(LightGBM(n_estimators=5), data.X, data.y, data.context, np.where(data.y == 1, 3.0, 1.0))
    np.testing.assert_array_equal(weighted.predict(data.X_test).output, rows.predict(data.X_test).output)


def test_importances_are_total_gains(tables: dict[str, Any]) -> None:
    from lightgbm import LGBMRegressor

    data = tables["regression"]
    ours = fit(LightGBM(n_estimators=8), data.X, data.y, data.context).importances()
    theirs = LGBMRegressor(
        n_estimators=8, random_state=MODEL_SEED, verbosity=-1, deterministic=True, force_col_wise=True
    )
    gains = theirs.fit(data.X, data.y).booster_.feature_importance("gain")
    assert list(ours or {}) == list(data.context.feature_names)
    np.testing.assert_allclose(list((ours or {}).values()), gains, rtol=1e-4)


def test_a_parameter_that_lightgbm_refuses_is_named(tables: dict[str, Any]) -> None:
    data = tables["regression"]
    model = LightGBM(objective="poisson")
    with pytest.raises(ConfigError, match=r"cannot train LightGBM.*poisson"):
        fit(model, data.X, 0 * data.y, data.context)


def test_a_missing_library_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupipe.models.base.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'gpupipe\[lightgbm\]'"):
        LightGBM().require_ready("binary")
    assert importlib.util.find_spec("lightgbm") is not None
