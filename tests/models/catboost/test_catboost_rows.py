"""CatBoost's raw values, computed without CatBoost: compared with the library, bit by bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import catboost
import numpy as np
import pandas as pd
import pytest

from gpupipe.models import MODELS, FitContext, fit
from gpupipe.models.catboost.fitted import FittedCatBoost
from gpupipe.models.catboost.rows import category_hash
from tests.models.fitted.row_checks import check_rows, with_special

CATEGORIES = [1, 3, 4]
LEVELS = [4, 30, 300]
SERVE = """
import json, sys
for name in ("catboost", "xgboost", "sklearn", "skops", "scipy", "pandas", "pyarrow", "numba", "matplotlib"):
    sys.modules[name] = None  # importing it raises ImportError
from pathlib import Path
import numpy as np
from gpupipe.models import load_fitted
from tests.models.folder_files import FolderFiles
folder = Path(sys.argv[1])
description = json.loads((folder / "description.json").read_text())
model = load_fitted(FolderFiles(folder), description)
np.save(folder / "served.npy", model.predict(np.load(folder / "X.npy")).probability)
"""


def rows_of(rng: Any, n: int, levels: list[int] = LEVELS) -> Any:
    """Return rows of numbers with missing values, and of categories."""
    X = np.round(rng.normal(size=(n, 5)), 2)
    X[rng.random((n, 5)) < 0.1] = np.nan
    for column, size in zip(CATEGORIES, levels, strict=True):
        X[:, column] = rng.integers(0, size, n)
    return np.asfortranarray(X, np.float32)


def frame(X: Any) -> pd.DataFrame:
    return pd.DataFrame({j: X[:, j].astype(int) if j in CATEGORIES else X[:, j] for j in range(X.shape[1])})


@pytest.mark.parametrize("seed", range(12))
def test_sums_of_random_models_equal_catboost(seed: int) -> None:
    """Numbers, one-hot splits, and statistics of combinations; also with categories that training never saw."""
    rng = np.random.default_rng(seed)
    X, n = rows_of(rng, 400), 400
    y = ((X[:, 1] + X[:, 3]) % 3 + np.nan_to_num(X[:, 0]) > 1).astype(int)
    params: dict[str, Any] = {
        "iterations": 15, "depth": int(rng.integers(1, 8)), "random_seed": seed, "model_size_reg": 0, "thread_count": 1,
        "boosting_type": str(rng.choice(["Plain", "Ordered"])), "one_hot_max_size": int(rng.choice([2, 10])),
        "nan_mode": str(rng.choice(["Min", "Max"])), "allow_writing_files": False, "logging_level": "Silent",
    }  # fmt: skip
    task, n_classes = ("binary", "multiclass", "regression")[seed % 3], (2, 3, 0)[seed % 3]
    if task == "regression":
        estimator: Any = catboost.CatBoostRegressor(loss_function=("RMSE", "Poisson")[seed % 2], **params)
        y = y + 1
    else:
        estimator = catboost.CatBoostClassifier(**params)
        y = np.arange(n) % 3 * y if task == "multiclass" else y
    estimator.fit(frame(X), y, cat_features=CATEGORIES)
    model = FittedCatBoost.of(estimator, task, (), n_classes, tuple(range(n_classes)))  # type: ignore[arg-type]
    rows = np.concatenate([X, rows_of(rng, 200), rows_of(rng, 200, [9, 50, 9_999_999])])
    expected = estimator.predict(frame(rows), prediction_type="RawFormulaVal").reshape(len(rows), -1)
    np.testing.assert_array_equal(model.estimator.sums(rows), expected)
    if task == "regression":
        np.testing.assert_allclose(model.predict(rows).output, estimator.predict(frame(rows)), rtol=1e-12)
    assert check_rows(model, with_special(rng, rows)) == "compiled trees"


@pytest.mark.parametrize("code", [0, 1, 9, 10, 99, 255, 999, 1000, 9999, 123456, 1234567, 16777215, -1])
def test_the_hash_of_a_code_equals_catboost(code: int) -> None:
    """A model that splits one code from another by their hashes."""
    rows = pd.DataFrame({0: [code, code + 1] * 20})
    params: dict[str, Any] = {"one_hot_max_size": 10, "allow_writing_files": False, "logging_level": "Silent"}
    estimator = catboost.CatBoostRegressor(iterations=1, depth=1, **params)
    estimator.fit(rows, np.array([0.0, 1.0] * 20), cat_features=[0])
    trees = FittedCatBoost.of(estimator, "regression", (), 0, ()).estimator.trees
    assert {category_hash(code), category_hash(code + 1)} >= set(trees.category_hash.tolist()) != set()


def test_a_saved_model_predicts_without_catboost(tmp_path: Path, tables: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rows_of(rng, 300)
    y = (X[:, 3] % 2 + rng.normal(size=300) > 0.5).astype(np.int64)
    context = FitContext(tables["binary"].context.backend, "binary", 1, 2, dict(zip(CATEGORIES, LEVELS, strict=True)))
    model = fit(MODELS.get("catboost")(iterations=10), X, y, context)
    assert len(model.estimator.trees.statistic_table)
    (tmp_path / "description.json").write_text(json.dumps(model.save(tmp_path)))
    np.save(tmp_path / "X.npy", X)
    subprocess.run([sys.executable, "-c", SERVE, str(tmp_path)], check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "served.npy"), model.predict(X).output)


def test_large_tables_are_summed_by_compiled_blocks(monkeypatch: pytest.MonkeyPatch, tables: dict[str, Any]) -> None:
    data = tables["multiclass"]
    model = fit(MODELS.get("catboost")(iterations=5), data.X, data.y, data.context)
    rows = np.asfortranarray(np.tile(data.X_test, (100, 1)))
    expected = model.predict(rows).output
    monkeypatch.setattr("gpupipe.models.fitted.row_blocks.COMPILED_FROM", 1)
    again = fit(MODELS.get("catboost")(iterations=5), data.X, data.y, data.context)
    np.testing.assert_array_equal(again.predict(rows).output, expected)
