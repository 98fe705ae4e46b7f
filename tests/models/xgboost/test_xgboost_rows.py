from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpupipe.models import MODELS, fit
from gpupipe.models.files.description import Description
from gpupipe.models.xgboost.document import read_model
from gpupipe.models.xgboost.fitted import FittedXGBoost
from gpupipe.models.xgboost.settings import OBJECTIVES
from gpupipe.models.xgboost.trees import XGBoostTrees
from gpupipe_kernels.rows.links import Link, apply_link
from gpupipe_kernels.rows.trees_numba import add_float32
from tests.models.fitted.row_checks import check_rows, with_special

SERVE = """
import json, sys
for name in ("xgboost", "sklearn", "skops", "scipy", "pandas", "pyarrow", "numba", "matplotlib"):
    sys.modules[name] = None  # importing it raises ImportError
from pathlib import Path
import numpy as np
from gpupipe.models import load_fitted
from tests.models.folder_files import FolderFiles
folder = Path(sys.argv[1])
description = json.loads((folder / "description.json").read_text())
model = load_fitted(FolderFiles(folder), description)
np.save(folder / "served.npy", model.row_estimator("numpy")(np.load(folder / "X.npy")).probability)
"""


def columns(rng: Any, n: int, sizes: dict[int, int], d: int) -> Any:
    """Return rows of numbers on a coarse grid, and categories in the columns of `sizes`."""
    X = np.round(rng.normal(size=(n, d)), 1)
    for j, size in sizes.items():
        X[:, j] = rng.integers(0, size, n)
    return np.where(rng.random((n, d)) < 0.05, np.nan, X).astype(np.float32)


@pytest.mark.parametrize("seed", range(20))
def test_a_walk_of_random_models_equals_xgboost(seed: int) -> None:
    import xgboost

    rng = np.random.default_rng(seed)
    objectives = ["binary:logistic", "multi:softprob", *OBJECTIVES["regression"]]
    objective = objectives[seed % len(objectives)]
    k, d, n = 9, 6, 150
    sizes = {1: 5, 3: int(rng.integers(20, 90))}
    X = columns(rng, n, sizes, d)
    score = np.nan_to_num(X).sum(axis=1) + rng.normal(size=n)
    params: dict[str, Any] = {
        "objective": objective, "max_depth": int(rng.integers(1, 8)), "eta": float(rng.choice([0.1, 1])),
        "num_parallel_tree": int(rng.integers(1, 3)), "gamma": float(rng.choice([0, 0.1])), "seed": seed, "nthread": 1,
        "max_cat_to_onehot": int(rng.choice([1, 10])), "booster": "dart" if seed % 3 == 0 else "gbtree",
    }  # fmt: skip
    task, n_classes, y = "regression", 0, np.abs(score) + 0.1
    if objective == "reg:quantileerror":
        params["quantile_alpha"] = 0.3
    if objective == "multi:softprob":
        task, n_classes, y = "multiclass", k, np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
        params["num_class"] = k
    elif objective == "binary:logistic":
        task, n_classes, y = "binary", 2, score > 0
    if params["booster"] == "dart":
        params["rate_drop"] = 0.5
    kinds = ["c" if j in sizes else "float" for j in range(d)]
    data = xgboost.DMatrix(X, y, feature_types=kinds, enable_categorical=True)
    booster = xgboost.train(params, data, int(rng.integers(1, 20)))
    if seed % 4 == 0:
        booster.set_attr(best_iteration=str(booster.num_boosted_rounds() // 2))
    classes = tuple(range(n_classes))
    model = FittedXGBoost(booster, task, (), n_classes, classes)  # type: ignore[arg-type]
    assert check_rows(model, with_special(rng, columns(rng, 100, sizes, d))) == "compiled trees"


def test_deep_trees_and_a_single_leaf_equal_xgboost(tables: dict[str, Any]) -> None:
    import xgboost

    data = tables["regression"]
    matrix = xgboost.DMatrix(data.X, data.y)
    for params in ({"max_depth": 0, "max_leaves": 200, "grow_policy": "lossguide"}, {"gamma": 1e12}):
        booster = xgboost.train({**params, "min_child_weight": 0}, matrix, 3)
        check_rows(FittedXGBoost(booster, "regression"), data.X_test)


def test_two_classes_of_three_get_the_others_probability(tables: dict[str, Any]) -> None:
    """A multiclass target may have had two classes in the training rows."""
    data = tables["multiclass"]
    y = np.where(data.y == 1, 2, data.y)
    check_rows(fit(MODELS.get("xgboost")(n_estimators=3), data.X, y, data.context), data.X_test)


@pytest.mark.parametrize("link", [Link.SIGMOID, Link.EXP, Link.SOFTMAX])
def test_the_transform_of_any_margin_equals_xgboost(link: Link) -> None:
    """A tree of one leaf, and the margin of each row as its base margin."""
    import xgboost

    rng = np.random.default_rng(0)
    k = 9 if link == Link.SOFTMAX else 1
    objective = {Link.SIGMOID: "binary:logistic", Link.EXP: "count:poisson", Link.SOFTMAX: "multi:softprob"}[link]
    bits = rng.integers(0, 1 << 32, (30_000, k), np.uint32).view(np.float32)
    margin = np.concatenate([bits, rng.normal(size=(30_000, k)).astype(np.float32) * 30])
    margin = margin[np.isfinite(margin).all(axis=1)]
    rows = np.zeros((len(margin), 1), np.float32)
    params: dict[str, Any] = {"objective": objective} | ({"num_class": k} if k > 1 else {})
    booster = xgboost.train(params, xgboost.DMatrix(rows[:k], np.arange(k)), 0)
    expected = booster.inplace_predict(rows, base_margin=margin)
    np.testing.assert_array_equal(apply_link(link, margin), expected.reshape(-1, k))
    description = Description("binary" if k == 1 else "multiclass", (), k + 1, tuple(range(k + (k == 1))))
    if link == Link.EXP:
        description = Description("regression", (), 0, ())
    trees = XGBoostTrees.of(read_model(bytes(booster.save_raw("ubj")), description))
    out, packed = margin.astype(np.float64), trees.packed
    table = np.empty(packed.width, np.int32)
    add_float32(rows, packed.nodes, packed.trees, packed.words, packed.values, table, int(link), out)
    np.testing.assert_array_equal(out, expected.reshape(-1, k))


def test_a_row_is_predicted_with_numpy_alone(tables: dict[str, Any], tmp_path: Path) -> None:
    data = tables["multiclass"]
    np.save(tmp_path / "X.npy", data.X_test)
    for model in (MODELS.get("xgboost")(n_estimators=5), MODELS.get("logistic_regression")()):
        fitted = fit(model, data.X, data.y, data.context)
        (tmp_path / "description.json").write_text(json.dumps(fitted.save(tmp_path)))
        done = subprocess.run([sys.executable, "-c", SERVE, str(tmp_path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(np.load(tmp_path / "served.npy"), fitted.predict(data.X_test).probability)
