"""CatBoost: early stopping, progress, safe points, and errors."""

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

CatBoost = MODELS.get("catboost")


def n_rounds(model: Any) -> int:
    return len(model.estimator.trees.tree_depth)


def noise(n: int) -> tuple[Any, Any]:
    """Return rows of which one column predicts the target a little, so that more rounds soon predict worse."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.normal(size=(n, 5)), np.float32)
    return X, (X[:, 0] + 3 * rng.normal(size=n) > 0).astype(np.float64)


def test_early_stopping_trains_again_on_all_rows(backend: CpuBackend) -> None:
    X, y = noise(600)
    context = FitContext(backend, "binary", 3, 2, {}, list("abcde"))
    stopped = fit(CatBoost(iterations=200, learning_rate=0.1, early_stopping_rounds=5), X, y, context)
    assert 0 < n_rounds(stopped) < 50
    again = fit(CatBoost(iterations=200, learning_rate=0.1).with_rounds(n_rounds(stopped)), X, y, context)
    np.testing.assert_array_equal(stopped.predict(X).output, again.predict(X).output)


def test_the_second_training_has_the_learning_rate_of_all_rounds(backend: CpuBackend) -> None:
    """CatBoost derives it from the maximum number of rounds: with fewer rounds, the steps would be longer."""
    X, y = noise(600)
    context = FitContext(backend, "binary", 3, 2, {}, list("abcde"))
    settings = CatBoost(iterations=100)
    few, all_rounds = fit(settings.with_rounds(3), X, y, context), fit(settings, X, y, context)
    assert n_rounds(few) == 3
    np.testing.assert_array_equal(
        few.estimator.trees.leaf, all_rounds.estimator.trees.leaf[: len(few.estimator.trees.leaf)]
    )


def test_given_validation_rows_choose_the_round_and_are_not_trained_on(backend: CpuBackend) -> None:
    X, y = noise(600)
    rows = ValidationRows(X[400:], y[400:].astype(np.int64))
    context = FitContext(backend, "binary", 3, 2, {}, list("abcde"), validation=rows)
    stopped = fit(CatBoost(iterations=200, learning_rate=0.1, early_stopping_rounds=5), X[:400], y[:400], context)
    assert 0 < n_rounds(stopped) < 50
    settings = CatBoost(iterations=200, learning_rate=0.1).with_rounds(n_rounds(stopped))
    alone = fit(settings, X[:400], y[:400], replace(context, validation=None))
    np.testing.assert_array_equal(stopped.predict(X).output, alone.predict(X).output)


def test_a_safe_point_after_each_round_can_stop_the_training(tables: dict[str, Any]) -> None:
    data, seen = tables["binary"], []

    def stop(where: str) -> None:
        seen.append(where)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(CatBoost(iterations=9), data.X, data.y, replace(data.context, resources=Resources(safe_point=stop)))
    assert seen == ["after round 1", "after round 2", "after round 3"]


def test_class_weights_are_row_weights(tables: dict[str, Any]) -> None:
    data = tables["binary"]
    weighted = fit(CatBoost(iterations=5, class_weight={0: 1, 1: 3}), data.X, data.y, data.context)
    rows = fit(CatBoost(iterations=5), data.X, data.y, data.context, np.where(data.y == 1, 3.0, 1.0))
    np.testing.assert_array_equal(weighted.predict(data.X_test).output, rows.predict(data.X_test).output)


def test_a_parameter_that_catboost_refuses_is_named(tables: dict[str, Any]) -> None:
    data = tables["regression"]
    model = CatBoost(eval_metric="Applause", early_stopping_rounds=1, iterations=2)
    with pytest.raises(ConfigError, match="cannot train CatBoost"):
        fit(model, data.X, data.y, data.context)


@pytest.mark.needs("catboost")
def test_a_missing_library_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupipe.models.base.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'gpupipe\[catboost\]'"):
        CatBoost().require_ready("binary")
    assert importlib.util.find_spec("catboost") is not None


def test_row_weights_count_in_exact_losses(backend: CpuBackend) -> None:
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(400, 2)), np.float32)
    y = np.where(np.arange(400) % 2, 0.0, 100.0)
    weight = np.where(y > 0, 0.7, 0.3)
    context = FitContext(backend, "regression", 3, 0, {}, ["a", "b"], weights=weight)
    fitted = fit(CatBoost(iterations=60, depth=2, learning_rate=0.3, loss_function="MAE"), X, y, context)
    assert np.median(fitted.predict(X).output) > 90


@pytest.mark.parametrize(("task", "n_steps"), [("binary", 10), ("regression", None)])
def test_the_note_about_threads_has_the_steps_that_catboost_chose(
    task: str, n_steps: int | None, tables: dict[str, Any]
) -> None:
    data = tables[task]
    notes = " ".join(fit(CatBoost(defaults="library", iterations=2), data.X, data.y, data.context).notes)
    assert ("depends on the number of threads" in notes) == (n_steps is not None)
    assert n_steps is None or f"leaf_estimation_iterations: {n_steps}," in notes
