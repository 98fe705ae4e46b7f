"""Models of the task ranking: each against its library, early stopping by whole groups, and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost

from gpupipe.artifact.untrusted.ubjson import UbjsonReader, render
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.errors import ArtifactError, ConfigError, DataError
from gpupipe.models import MODELS, FitContext, FittedModel, fit
from gpupipe.random_streams import derive_seed
from tests.models.folder_files import load_fitted

MODEL_SEED = derive_seed(7, "model")

RNG = np.random.default_rng(3)
X = np.asfortranarray(RNG.normal(size=(1_500, 4)), dtype=np.float32)
GROUP = RNG.integers(0, 60, len(X))
Y = np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.5 * RNG.normal(size=len(X)), [0.3, 1.2, 2.0]).astype(float)
CASES: dict[str, dict[str, Any]] = {
    "xgboost": {"n_estimators": 20, "max_depth": 3},
    "lightgbm": {"n_estimators": 20, "num_leaves": 7},
}


def fitted(name: str, rows: Any = slice(None), **params: Any) -> FittedModel:
    context = FitContext(CpuBackend(), "ranking", 7, feature_names=list("abcd"), groups=GROUP[rows])
    return fit(MODELS.get(name)(**CASES[name] | params), np.asfortranarray(X[rows]), Y[rows], context)


def alone(name: str) -> Any:
    """Return the scores of the library itself, for rows in the order of their groups."""
    order = np.argsort(GROUP, kind="stable")
    if name == "xgboost":
        model = xgboost.XGBRanker(objective="rank:ndcg", random_state=MODEL_SEED, **CASES[name])
        return model.fit(X[order], Y[order], qid=GROUP[order]).predict(X)
    settings = {"deterministic": True, "force_col_wise": True, "verbosity": -1, "random_state": MODEL_SEED, "n_jobs": 1}
    model = lightgbm.LGBMRanker(**settings, **CASES[name])
    return model.fit(X[order], Y[order], group=np.bincount(GROUP)).predict(X)


@pytest.mark.parametrize("name", CASES)
def test_scores_are_those_of_the_library(name: str) -> None:
    np.testing.assert_allclose(fitted(name).predict(X).output, alone(name), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_order_of_the_groups_does_not_matter(name: str) -> None:
    order = np.argsort(GROUP, kind="stable")
    np.testing.assert_array_equal(fitted(name).predict(X).output, fitted(name, order).predict(X).output)


@pytest.mark.parametrize("name", CASES)
def test_early_stopping_holds_out_whole_groups(name: str) -> None:
    found = fitted(name, n_estimators=200, early_stopping_rounds=5, validation_fraction=0.3)
    (note,) = found.notes
    n_held = int(note.split(" on ")[1].split()[0])
    sizes = np.bincount(GROUP)
    reachable = {0}
    for size in sizes:
        reachable |= {total + int(size) for total in reachable}
    assert n_held in reachable and 0.25 < n_held / len(X) < 0.35
    assert f"trained again on all {len(X):,} rows" in note


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_files_and_walks_have_the_scores_of_the_model(name: str, engine: Any, tmp_path: Path) -> None:
    model = fitted(name)
    loaded = load_fitted(tmp_path, model.save(tmp_path))
    expected = model.predict(X).output
    np.testing.assert_array_equal(loaded.predict(X).output, expected)
    np.testing.assert_array_equal(loaded.row_estimator(engine)(X[:20]).output, expected[:20])


def test_a_file_with_the_loss_of_another_task_is_refused(tmp_path: Path) -> None:
    description = fitted("xgboost").save(tmp_path)
    path = tmp_path / "estimator.ubj"
    document = UbjsonReader(path.read_bytes()).document()
    document["learner"]["objective"] = {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}
    path.write_bytes(render(document))
    with pytest.raises(ArtifactError, match="'reg:squarederror' does not match the task ranking"):
        load_fitted(tmp_path, description)
    with pytest.raises(ArtifactError, match="'rank:ndcg' does not match the task regression"):
        load_fitted(tmp_path, fitted("xgboost").save(tmp_path) | {"task": "regression"})


def test_other_models_and_losses_are_refused() -> None:
    with pytest.raises(ConfigError, match="Ridge cannot learn the task ranking"):
        fit(MODELS.get("ridge")(), X, Y, FitContext(CpuBackend(), "ranking", 7, groups=GROUP))
    with pytest.raises(ConfigError, match="a ranking needs the group of each row"):
        fit(MODELS.get("xgboost")(), X, Y, FitContext(CpuBackend(), "ranking", 7))
    with pytest.raises(ConfigError, match="reg:gamma"):
        fitted("xgboost", objective="reg:gamma")
    with pytest.raises(ConfigError, match="rank:map is for relevances of 0 and 1; use rank:ndcg"):
        fitted("xgboost", objective="rank:map")
    many = FitContext(CpuBackend(), "ranking", 7, groups=np.zeros(10_001))
    with pytest.raises(DataError, match="LightGBM ranks groups of at most 10,000 rows; one has 10,001"):
        fit(MODELS.get("lightgbm")(), np.zeros((10_001, 1), np.float32), np.arange(10_001) % 2.0, many)
    weighted = FitContext(CpuBackend(), "ranking", 7, groups=GROUP, weights=np.ones(len(X)))
    with pytest.raises(ConfigError, match="XGBoost takes no sample weights"):
        fit(MODELS.get("xgboost")(), X, Y, weighted)
