"""LightGBM's predictions, computed without LightGBM: compared with the library, bit by bit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.models import MODELS, fit
from gpupipe.models.files.description import Description
from gpupipe.models.lightgbm.fitted import FittedLightGBM
from gpupipe.models.lightgbm.rows import tree_outputs
from gpupipe.models.lightgbm.settings import OBJECTIVES
from gpupipe.models.lightgbm.trees import read_trees
from gpupipe_kernels.rows.links import Link, apply_float64_link
from gpupipe_kernels.rows.trees_numba import transform_float64
from tests.models.fitted.row_checks import SPECIAL, check_rows, with_special

CATEGORIES = [1, 3]
SERVE = """
import json, sys
for name in ("lightgbm", "xgboost", "sklearn", "skops", "scipy", "pandas", "pyarrow", "numba", "matplotlib"):
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
STUMP = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=0
objective=regression
feature_names=x
feature_infos=none
tree_sizes={size}

"""
ONE_SPLIT = """Tree=0
num_leaves=2
num_cat={n_sets}
split_feature=0
split_gain=1
threshold={threshold!r}
decision_type={decision}
left_child=-1
right_child=-2
leaf_value=1 2
leaf_weight=1 1
leaf_count=1 1
internal_value=0
internal_weight=2
internal_count=2
{sets}is_linear=0
shrinkage=1


"""


def rows_of(rng: Any, n: int, special: bool = False) -> Any:
    """Return rows of numbers on a coarse grid with missing values, and categories in the columns 1 and 3.

    Numbers between -1 and 0 are not codes: LightGBM takes them for the category 0, gpupipe for an unknown one.
    """
    X = np.round(rng.normal(size=(n, 5)), 1)
    X[rng.random((n, 5)) < 0.1] = np.nan
    X[:, 1], X[:, 3] = rng.integers(0, 6, n), rng.integers(0, 90, n)
    if special:
        X = with_special(rng, X)
        codes = X[:, CATEGORIES]
        X[:, CATEGORIES] = np.where((codes > -1) & (codes < 0), -2, codes)
    return np.asfortranarray(X, np.float32)


@pytest.mark.parametrize("seed", range(22))
def test_a_walk_of_random_models_equals_lightgbm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    objective = [*OBJECTIVES["binary"], *OBJECTIVES["multiclass"], *OBJECTIVES["regression"]][seed % 11]
    X = rows_of(rng, 300)
    score = np.nan_to_num(X).sum(axis=1) + rng.normal(size=len(X))
    params: dict[str, Any] = {
        "n_estimators": int(rng.integers(1, 20)), "min_child_samples": int(rng.integers(1, 9)), "cat_smooth": 1,
        "boosting_type": "gbdt" if seed % 3 else "dart", "max_cat_to_onehot": int(rng.choice([1, 100])),
        "min_data_per_group": 2, "random_state": seed, "verbosity": -1, "n_jobs": 1,
    }  # fmt: skip
    task, n_classes, y = "regression", 0, np.abs(score) + 0.1
    if objective == "multiclass":
        task, n_classes, y = objective, 7, np.arange(len(X)) % 7
    elif objective == "binary":
        task, n_classes, y = objective, 2, score > np.median(score)
    kind = lightgbm.LGBMClassifier if n_classes else lightgbm.LGBMRegressor
    estimator = kind(objective=objective, **params).fit(X, y, categorical_feature=CATEGORIES)
    model = FittedLightGBM.of(estimator, task, (), n_classes, tuple(range(n_classes)))  # type: ignore[arg-type]
    rows = np.concatenate([X, rows_of(rng, 200), rows_of(rng, 200, special=True)])
    expected = estimator.predict_proba(rows) if isinstance(estimator, lightgbm.LGBMClassifier) else None
    if expected is None:
        expected = estimator.predict(rows)
    found = model.predict(rows).output
    np.testing.assert_array_equal(found, expected[:, 1] if task == "binary" else expected)
    assert check_rows(model, rows) == "compiled trees"


@given(
    threshold=st.one_of(
        st.floats(width=32, allow_nan=False), st.floats(-1e-34, 1e-34), st.sampled_from([1.0000000180025095e-35, 0.0])
    ),
    decision=st.sampled_from([0, 2, 8, 10]),
    numbers=st.lists(st.floats(width=32), max_size=20),
)
@settings(max_examples=80, deadline=None)
def test_a_numeric_split_decides_as_lightgbm(threshold: float, decision: int, numbers: list[float]) -> None:
    check_split(ONE_SPLIT.format(n_sets=0, threshold=threshold, decision=decision, sets=""), [*numbers, threshold])


@given(
    words=st.lists(st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 2**32 - 1])), min_size=1, max_size=4),
    codes=st.lists(st.integers(0, 200), max_size=20),
)
@settings(max_examples=50, deadline=None)
def test_a_split_by_categories_decides_as_lightgbm(words: list[int], codes: list[int]) -> None:
    texts = " ".join(map(str, words))
    sets = f"cat_boundaries=0 {len(words)}\ncat_threshold={texts}\n"
    check_split(ONE_SPLIT.format(n_sets=1, threshold=0, decision=1, sets=sets), codes, least=0)


def check_split(tree: str, numbers: Sequence[float], least: float = -np.inf) -> None:
    """Compare the leaf of each number with LightGBM's."""
    text = f"{STUMP.format(size=len(tree))}{tree}end of trees\n"
    with np.errstate(over="ignore"):
        near = np.array(numbers, np.float32)
        near = np.concatenate([near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))])
    rows = np.concatenate([SPECIAL, near])[:, None]
    rows = rows[(rows[:, 0] >= least) | np.isnan(rows[:, 0])]
    expected = lightgbm.Booster(model_str=text).predict(rows)
    outputs = tree_outputs(read_trees(text.encode(), Description("regression", (), 0, ())), "numpy")
    np.testing.assert_array_equal(outputs(rows)[:, 0], expected)


def test_a_tree_without_a_split_equals_lightgbm(tables: dict[str, Any]) -> None:
    data = tables["regression"]
    estimator = lightgbm.LGBMRegressor(n_estimators=3, min_child_samples=1000, verbosity=-1).fit(data.X, data.y)
    model = FittedLightGBM.of(estimator, "regression", (), 0, ())
    np.testing.assert_array_equal(model.predict(data.X_test).output, estimator.predict(data.X_test))


def test_large_tables_are_predicted_by_compiled_blocks(monkeypatch: pytest.MonkeyPatch, tables: dict[str, Any]) -> None:
    data = tables["binary"]
    model = fit(MODELS.get("lightgbm")(n_estimators=5), data.X, data.y, data.context)
    rows = np.asfortranarray(np.tile(data.X_test, (40, 1)))
    expected = model.predict(rows).output
    monkeypatch.setattr("gpupipe.models.fitted.row_blocks.COMPILED_FROM", 1)
    with monkeypatch.context() as without_numba:
        without_numba.setattr("gpupipe.models.fitted.row_blocks.find_spec", lambda name: None)
        np.testing.assert_array_equal(model.predict(rows).output, expected)
        assert "_compiled" not in vars(model.estimator.outputs)
    np.testing.assert_array_equal(model.predict(rows).output, expected)
    assert "_compiled" in vars(model.estimator.outputs)
    np.testing.assert_array_equal(expected[: len(data.X_test)], model.row_estimator("numba")(data.X_test).output)


@pytest.mark.parametrize("link", Link)
def test_both_engines_transform_any_sum_alike(link: Link) -> None:
    rng = np.random.default_rng(0)
    sums = rng.normal(size=(2000, 9)) * 10.0 ** rng.integers(-3, 3, (2000, 1))
    out = sums.copy()
    transform_float64(int(link), out)
    np.testing.assert_array_equal(out, apply_float64_link(link, sums))


def test_two_classes_of_three_get_the_others_probability(tables: dict[str, Any]) -> None:
    """A multiclass target may have had two classes in the training rows."""
    data = tables["multiclass"]
    y = np.where(data.y == 1, 2, data.y)
    model = fit(MODELS.get("lightgbm")(n_estimators=3), data.X, y, data.context)
    probability = model.predict(data.X_test).output
    assert (probability[:, 1] == 0).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    check_rows(model, data.X_test)


def test_a_saved_model_predicts_without_lightgbm(tmp_path: Path, tables: dict[str, Any]) -> None:
    data = tables["binary"]
    model = fit(MODELS.get("lightgbm")(n_estimators=10), data.X, data.y, data.context)
    description = model.save(tmp_path)
    (tmp_path / "description.json").write_text(json.dumps(description))
    np.save(tmp_path / "X.npy", data.X_test)
    subprocess.run([sys.executable, "-c", SERVE, str(tmp_path)], check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "served.npy"), model.predict(data.X_test).output)
    booster = lightgbm.Booster(model_file=tmp_path / "estimator.txt")  # the file is LightGBM's own format
    np.testing.assert_array_equal(np.load(tmp_path / "served.npy"), booster.predict(data.X_test))
