"""Continuation of a training with further rows: trees that are added, and sums of rows that are merged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpupipe.backends import choose
from gpupipe.errors import ConfigError, DataError
from gpupipe.models import MODELS, FitContext, fit
from gpupipe.models.continuation import StartingModel
from gpupipe.typing import HostArray
from tests.models.folder_files import FolderFiles, load_fitted

N = 1_200
TASKS = {"binary": 2, "multiclass": 3, "regression": 0, "large": 0}


def rows(task: str) -> tuple[HostArray, HostArray, FitContext]:
    """Return columns, a target and the context of their training."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.normal(size=(N, 4)), np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=N)
    y = {
        "binary": score > 0,
        "multiclass": np.digitize(score, [-1, 1]),
        "regression": score,
        "large": 1.7e9 + 60 * score,  # float32 would lose its differences
    }[task]
    kind: Any = "regression" if task == "large" else task
    return X, y.astype(np.float64), FitContext(choose("cpu"), kind, 0, TASKS[task], feature_names=list("abcd"))


def first_trees(name: str, model: Any, n_rounds: int) -> Any:
    """Return the first trees of a model as its library describes them."""
    if name == "xgboost":
        return model.estimator[:n_rounds].get_dump(with_stats=True)
    import lightgbm

    return lightgbm.Booster(model_str=model.estimator.data.decode()).dump_model(num_iteration=n_rounds)["tree_info"]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_trees_are_added_for_the_new_rows_and_the_others_stay(name: str, task: str) -> None:
    if name == "lightgbm":
        pytest.importorskip("lightgbm")
    X, y, context = rows(task)
    settings = MODELS.get(name)(n_estimators=10)
    old = fit(settings, X[:800], y[:800], context)
    start = StartingModel(old, 800)
    start.require_continuable(name)
    new = fit(settings, X[800:], y[800:], replace(context, start=start))
    before, after = (getattr(model, "model", model) for model in (old, new))
    assert (before.n_rounds, after.n_rounds) == (10, 15)
    assert first_trees(name, after, 10) == first_trees(name, before, 10)
    if task == "large":
        assert StartingModel(new, N).units == start.units
    assert np.abs(new.predict(X).output - old.predict(X).output).max() > 0


def test_new_rows_with_other_classes_are_refused() -> None:
    X, y, context = rows("multiclass")
    settings = MODELS.get("xgboost")(n_estimators=3)
    start = StartingModel(fit(settings, X, y, context), N)
    kept = y < 2
    with pytest.raises(DataError, match=r"2 classes of the target, the model has 3\n(.*\n)*.*--with OLD"):
        fit(settings, np.asfortranarray(X[kept]), y[kept], replace(context, start=start))


@pytest.mark.parametrize("name", ["random_forest", "hist_gradient_boosting", "dart"])
def test_other_families_are_refused(name: str) -> None:
    X, y, context = rows("regression")
    settings = MODELS.get("xgboost")(n_estimators=3, booster="dart") if name == "dart" else MODELS.get(name)()
    start = StartingModel(fit(settings, X, y, context), N)
    with pytest.raises(ConfigError, match="cannot continue"):
        start.require_continuable(name)


LINEAR: dict[str, tuple[dict[str, Any], str]] = {
    "linear_regression": ({}, "large"),
    "ridge": ({"alpha": 3.0}, "large"),
    "lasso": ({"alpha": 0.05}, "regression"),
    "elastic_net": ({"alpha": 0.05, "fit_intercept": False}, "regression"),
}


@pytest.mark.parametrize("name", LINEAR)
def test_least_squares_continued_twice_are_those_of_all_rows(name: str, tmp_path: Path) -> None:
    params, task = LINEAR[name]
    X, y, context = rows(task)
    settings, weights = MODELS.get(name)(**params), np.random.default_rng(1).uniform(0.5, 2.0, N)
    fitted = fit(settings, X[:500], y[:500], replace(context, weights=weights[:500]))
    for low, high in ((500, 503), (503, N)):  # the first part has fewer rows than columns
        folder = tmp_path / str(low)
        description = fitted.save(folder)
        loaded = load_fitted(folder, description).with_seen_rows(FolderFiles(folder))  # the sums are those of the file
        start = StartingModel(loaded, low)
        start.require_continuable(name)
        part = replace(context, start=start, weights=weights[low:high])
        fitted = fit(settings, X[low:high], y[low:high], part)
    whole = fit(settings, X, y, replace(context, weights=weights))
    np.testing.assert_allclose(fitted.predict(X).output, whole.predict(X).output, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_a_continued_logistic_regression_is_near_that_of_all_rows(task: str) -> None:
    X, y, context = rows(task)
    settings = MODELS.get("logistic_regression")(C=0.5, tol=1e-8)
    old = fit(settings, X[:800], y[:800], context)
    new = fit(settings, X[800:], y[800:], replace(context, start=StartingModel(old, 800)))
    whole = fit(settings, X, y, context)
    away, left = (np.abs(model.predict(X).output - whole.predict(X).output).max() for model in (old, new))
    assert left < 0.1 * away
    # With no other rows it stays where it was: the expansion has its minimum there.
    few = replace(context, start=StartingModel(old, 800), weights=np.full(60, 1e-9))
    same = fit(settings, X[:60], y[:60], few)
    np.testing.assert_allclose(same.predict(X).output, old.predict(X).output, atol=1e-6)
