"""Integer codes as categories of gradient boosting: 0 null, 1 unseen, 2 rare, levels from 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_info

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.errors import ConfigError
from gpupipe.models import MODELS, FitContext, fit
from gpupipe.random_streams import derive_seed

BOOSTED = ["catboost", "hist_gradient_boosting", "lightgbm", "xgboost"]
WITH_LEAF_SIZES = BOOSTED[1:]  # CatBoost has neither a minimum of rows per leaf nor interaction constraints
FEW = {
    "catboost": {"iterations": 3, "depth": 2},
    "hist_gradient_boosting": {"max_iter": 3, "max_leaf_nodes": 4},
    "lightgbm": {"n_estimators": 3, "num_leaves": 4, "min_data_per_group": 1, "cat_smooth": 1},
    "xgboost": {"n_estimators": 3, "max_depth": 2},
}


def _codes(n_rows: int, n_levels: int, seed: int) -> Any:
    """Return codes whose positive levels alternate: no order of the numbers tells that."""
    codes = 3 + np.random.default_rng(seed).integers(0, n_levels, n_rows)
    return np.asfortranarray(codes[:, None], dtype=np.float32), (codes % 2).astype(np.float64)


@pytest.mark.parametrize("name", BOOSTED)
def test_a_category_is_split_as_a_set_and_not_as_a_number(name: str, backend: CpuBackend) -> None:
    X, y = _codes(4000, 60, seed=0)
    scores = {}
    for categorical in ({}, {0: 63}):
        context = FitContext(backend, "binary", 0, 2, categorical, ("code",))
        scores[len(categorical)] = roc_auc_score(
            y, fit(MODELS.get(name)(**FEW[name]), X, y, context).predict(X).probability
        )
    assert scores[1] == 1.0
    assert scores[0] < 0.9


@pytest.mark.parametrize("name", BOOSTED)
def test_codes_that_training_never_saw_are_predicted(name: str, backend: CpuBackend) -> None:
    X, y = _codes(500, 5, seed=1)
    fitted = fit(MODELS.get(name)(), X, y, FitContext(backend, "binary", 0, 2, {0: 10}, ("code",)))
    probability = fitted.predict(np.array([[0], [1], [2], [9]], np.float32)).output
    assert ((probability > 0) & (probability < 1)).all()


def test_a_column_of_more_codes_than_bins_is_a_number_to_hist_gradient_boosting(backend: CpuBackend) -> None:
    X, y = _codes(4000, 300, seed=2)
    context = FitContext(backend, "binary", 0, 2, {0: 303}, ("code",))
    assert fit(MODELS.get("hist_gradient_boosting")(), X, y, context).estimator.is_categorical_ is None


@pytest.mark.parametrize(
    ("name", "n_cells", "expected"),
    [
        *(("xgboost", 100_000, 1), ("xgboost", 200_000, 2), ("lightgbm", 200_000, 1), ("lightgbm", 400_000, 2)),
        *(("hist_gradient_boosting", 1_000_000, 1), ("hist_gradient_boosting", 2_000_000, 2), ("catboost", 1_000, 2)),
    ],
)
def test_a_small_matrix_is_trained_on_one_thread(
    name: str, n_cells: int, expected: int, backend: CpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, Any]] = []

    def train(settings: Any, estimator: Any, *rows: Any) -> None:
        openmp = [found["num_threads"] for found in threadpool_info() if found["user_api"] == "openmp"]
        asked.append((estimator.get_params().get("n_jobs", estimator.get_params().get("thread_count")), openmp))
        raise ConfigError("the threads are known")

    settings = MODELS.get(name)(**FEW[name])
    monkeypatch.setattr(type(settings), "train", train)
    X = np.zeros((n_cells // 5, 5), np.float32, order="F")
    y = np.arange(len(X)) % 2.0
    with pytest.raises(ConfigError, match="the threads are known"):
        fit(settings, X, y, FitContext(backend, "binary", 0, 2, {}, list("abcde")), n_threads=2)
    ((n_jobs, openmp),) = asked
    assert n_jobs in (None, expected)
    assert set(openmp) == {expected}


@pytest.mark.parametrize("name", WITH_LEAF_SIZES)
@pytest.mark.parametrize("n_values", [0, 1, 19])
def test_a_column_that_hardly_any_row_has_a_value_of_changes_nothing(
    name: str, n_values: int, backend: CpuBackend
) -> None:
    rng = np.random.default_rng(4)
    X = np.asfortranarray(rng.normal(size=(500, 3)), dtype=np.float32)
    y = (X[:, 0] > 0).astype(np.float64)
    X[n_values:, 2] = np.nan
    params = {"max_iter": 5} if name == "hist_gradient_boosting" else {"n_estimators": 5}
    params |= {"min_child_weight": 19} if name == "xgboost" else {}
    with_it, without = (
        fit(MODELS.get(name)(**params), X[:, :n], y, FitContext(backend, "binary", 0, 2, {}, ("a", "b", "c")[:n]))
        for n in (3, 2)
    )
    np.testing.assert_array_equal(with_it.predict(X).probability, without.predict(X[:, :2]).probability)


@pytest.mark.parametrize(
    ("name", "field"),
    [(name, "monotonic_cst" if name.startswith("hist") else "monotone_constraints") for name in BOOSTED],
)
def test_a_monotone_column_is_named_and_kept_monotone(name: str, field: str, tables: dict[str, Any]) -> None:
    data = tables["regression"]
    rounds = {"iterations" if name == "catboost" else "max_iter" if name.startswith("hist") else "n_estimators": 30}
    fitted = fit(MODELS.get(name)(**{field: {"bmi": -1}}, **rounds), data.X, data.y, data.context)
    place = list(data.context.feature_names).index("bmi")
    X = np.repeat(data.X_test[:20], 9, axis=0)
    X[:, place] = np.tile(np.linspace(-3, 3, 9), 20)
    assert (np.diff(fitted.predict(X).output.reshape(20, 9), axis=1) <= 1e-4).all()
    with pytest.raises(ConfigError, match="did you mean 'bmi'"):
        fit(MODELS.get(name)(**{field: {"bmj": 1}}), data.X, data.y, data.context)


@pytest.mark.parametrize(
    ("name", "field"),
    [(name, "interaction_cst" if name.startswith("hist") else "interaction_constraints") for name in WITH_LEAF_SIZES],
)
def test_columns_of_different_groups_do_not_interact(name: str, field: str, tables: dict[str, Any]) -> None:
    data = tables["regression"]
    names = list(data.context.feature_names)
    fitted = fit(MODELS.get(name)(**{field: [["bmi"], [n for n in names if n != "bmi"]]}), data.X, data.y, data.context)
    rows = data.X_test[:10].copy()
    low, high = rows.copy(), rows.copy()
    low[:, names.index("bmi")], high[:, names.index("bmi")] = -1, 1
    effect = fitted.predict(high).output - fitted.predict(low).output
    np.testing.assert_allclose(effect, effect[0], atol=1e-3)


@pytest.mark.data
def test_hist_gradient_boosting_equals_scikit_learn_on_the_adult_table(data_dir: Path, backend: CpuBackend) -> None:
    frame = pd.read_csv(data_dir / "adult-income" / "adult.data", header=None, skipinitialspace=True, na_values="?")
    y = (frame[14] == ">50K").to_numpy(np.float64)
    frame = frame.drop(columns=14)
    X = np.empty(frame.shape, np.float32, order="F")
    categorical = {}
    for place, name in enumerate(frame):
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            X[:, place] = column
        else:
            codes = column.astype("category").cat.codes.to_numpy()
            X[:, place] = np.where(codes < 0, 0, codes + 3)
            categorical[place] = int(codes.max()) + 4
    train = np.arange(len(X)) < 25_000
    context = FitContext(backend, "binary", 3, 2, categorical, [f"c{name}" for name in frame])
    ours = fit(MODELS.get("hist_gradient_boosting")(max_iter=30), X[train], y[train], context).predict(X[~train])
    native = frame.astype({name: "category" for place, name in enumerate(frame) if place in categorical})
    reference = HistGradientBoostingClassifier(
        max_iter=30, early_stopping=False, categorical_features="from_dtype", random_state=derive_seed(3, "model")
    ).fit(native[train], y[train])
    theirs = reference.predict_proba(native[~train])[:, 1]
    assert roc_auc_score(y[~train], ours.probability) == pytest.approx(roc_auc_score(y[~train], theirs), abs=2e-3)
    xgboost = fit(MODELS.get("xgboost")(n_estimators=60, learning_rate=0.2), X[train], y[train], context).predict(
        X[~train]
    )
    assert roc_auc_score(y[~train], xgboost.probability) > 0.92
