from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpupipe.errors import ArtifactError
from gpupipe.models import MODELS, fit
from gpupipe.models.context import ValidationRows
from gpupipe.models.xgboost import fitted as fitted_models
from gpupipe.models.xgboost.settings import OBJECTIVES
from tests.models.folder_files import load_fitted

SERVE = """
import json, sys
for name in ("sklearn", "skops"):
    sys.modules[name] = None  # importing it raises ImportError
import numpy as np
from tests.models.folder_files import load_fitted
folder = sys.argv[1]
model = load_fitted(folder, json.load(open(folder + "/description.json")))
np.save(folder + "/served.npy", model.predict(np.load(folder + "/X.npy")).probability)
"""


def test_a_model_predicts_without_scikit_learn(tables: dict[str, Any], tmp_path: Path) -> None:
    data = tables["multiclass"]
    fitted = fit(MODELS.get("xgboost")(n_estimators=10), data.X, data.y, data.context)
    (tmp_path / "description.json").write_text(json.dumps(fitted.save(tmp_path)))
    np.save(tmp_path / "X.npy", data.X_test)
    done = subprocess.run([sys.executable, "-c", SERVE, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "served.npy"), fitted.predict(data.X_test).probability)


def test_early_stopping_keeps_the_best_round_through_save_and_load(tables: dict[str, Any], tmp_path: Path) -> None:
    data = tables["regression"]
    params = {"n_estimators": 300, "early_stopping_rounds": 5}
    context = replace(data.context, validation=ValidationRows(data.X_test, data.y_test))
    fitted = fit(MODELS.get("xgboost")(**params), data.X, data.y, context)
    rounds = fitted.estimator.num_boosted_rounds()
    assert rounds < 300
    best = int(fitted.estimator.attr("best_iteration"))
    expected = fitted.estimator.inplace_predict(data.X_test, iteration_range=(0, best + 1))
    loaded = load_fitted(tmp_path, fitted.save(tmp_path))
    np.testing.assert_array_equal(loaded.predict(data.X_test).value, expected.astype(np.float64))


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
@pytest.mark.parametrize(
    ("task", "objective"),
    [(task, name) for task, names in OBJECTIVES.items() if task != "quantile" for name in names],
)
def test_every_objective_is_read_back_bit_for_bit(
    task: Any, objective: str, booster: str, tables: dict[str, Any], tmp_path: Path
) -> None:
    """Only checked fields reach XGBoost: they must be all that it predicts from, and all that it writes."""
    data = tables[task]
    params: dict[str, Any] = {"objective": objective} if task in ("regression", "ranking") else {}
    params |= {"num_parallel_tree": 2, "tree_method": "approx", "gamma": 0.01}  # pruning removes nodes
    y = np.abs(data.y) + 0.1 if task == "regression" else np.minimum(data.y, 1) if objective == "rank:map" else data.y
    fitted = fit(MODELS.get("xgboost")(n_estimators=5, booster=booster, **params), data.X, y, data.context)
    loaded = load_fitted(tmp_path, fitted.save(tmp_path)).with_library()
    assert loaded.estimator.save_raw("ubj") == (tmp_path / "estimator.ubj").read_bytes()
    expected = fitted.estimator.inplace_predict(data.X_test)
    np.testing.assert_array_equal(loaded.estimator.inplace_predict(data.X_test), expected)


def test_xgboost_reads_a_model_once_walks_of_its_trees_would_take_as_long(
    tables: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tables["multiclass"]
    fitted = fit(MODELS.get("xgboost")(n_estimators=4), data.X, data.y, data.context)
    description = fitted.save(tmp_path)
    n_trees, expected = 4 * fitted.n_classes, fitted.predict(data.X_test).probability
    monkeypatch.setattr(fitted_models, "WALKED", 2 * n_trees * len(data.X_test))
    loaded = load_fitted(tmp_path, description)
    for n_earlier in range(4):
        is_read = "booster" in vars(loaded.estimator)
        assert is_read == (n_earlier > 2)  # two tables are walked
        np.testing.assert_array_equal(loaded.predict(data.X_test).probability, expected)
        copied = pickle.loads(pickle.dumps(loaded))
        np.testing.assert_array_equal(copied.predict(data.X_test).probability, expected)
    assert loaded.importances() == fitted.importances()


@pytest.mark.parametrize("content", [b"", b"{}", b"garbage"])
def test_a_damaged_file_is_a_model_error(content: bytes, tables: dict[str, Any], tmp_path: Path) -> None:
    data = tables["binary"]
    fitted = fit(MODELS.get("xgboost")(n_estimators=2), data.X, data.y, data.context)
    description = fitted.save(tmp_path)
    (tmp_path / "estimator.ubj").write_bytes(content)
    with pytest.raises(ArtifactError, match="not a valid estimator"):
        load_fitted(tmp_path, description)
