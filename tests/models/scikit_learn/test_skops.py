from __future__ import annotations

import json
import pickle
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from gpupipe.errors import ArtifactError
from gpupipe.models import MODELS, fit
from gpupipe.models.scikit_learn.skops import read_skops, write_skops
from tests.models.folder_files import load_fitted

DESCRIPTION = {
    "library": "scikit-learn", "files": ["estimator.skops"], "task": "binary", "feature_names": [], "n_classes": 2,
    "classes": [0, 1],
}  # fmt: skip


def test_an_estimator_of_a_type_that_is_not_allowed_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "estimator.skops"
    skops.io.dump(make_pipeline(SVC()).fit([[0], [1]], [0, 1]), path)  # skops itself would trust it
    with pytest.raises(ArtifactError, match=r"not allowed: sklearn\.svm\._classes\.SVC"):
        read_skops(path.read_bytes(), str(path))


def test_a_type_smuggled_into_a_good_file_is_found(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.skops", tmp_path / "estimator.skops"
    write_skops(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), good)
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                system = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "content": {}}
                schema["content"]["content"]["coef_"] = system
                content = json.dumps(schema).encode()
            target.writestr(name, content)
    with pytest.raises(ArtifactError, match=r"not allowed: os\.system"):
        load_fitted(tmp_path, DESCRIPTION)


def test_a_way_of_building_that_our_models_do_not_need_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "estimator.skops"
    skops.io.dump({"methodcaller": Counter().update}, path)
    with pytest.raises(ArtifactError, match="not allowed"):
        read_skops(path.read_bytes(), str(path))


@pytest.mark.parametrize("content", [b"", b"not a zip", pickle.dumps({"a": 1})])
def test_a_file_that_is_not_skops_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "estimator.skops").write_bytes(content)
    with pytest.raises(ArtifactError, match="not a skops file"):
        load_fitted(tmp_path, DESCRIPTION)


def test_a_damaged_array_is_a_model_error(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.skops", tmp_path / "estimator.skops"
    write_skops(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), good)
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w") as target:
        for name in source.namelist():
            target.writestr(name, b"zeros" if name.endswith(".npy") else source.read(name))
    with pytest.raises(ArtifactError, match="not a skops file"):
        load_fitted(tmp_path, DESCRIPTION)


def test_a_missing_file_and_an_unknown_library_are_model_errors(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="missing"):
        load_fitted(tmp_path, DESCRIPTION)
    with pytest.raises(ArtifactError, match="unknown library"):
        load_fitted(tmp_path, DESCRIPTION | {"library": "pickle"})


@pytest.mark.parametrize(
    ("name", "task", "params"),
    [
        *(
            ("hist_gradient_boosting", "regression", {"loss": loss, "quantile": 0.5 if loss == "quantile" else None})
            for loss in ("squared_error", "absolute_error", "gamma", "poisson", "quantile")
        ),
        ("hist_gradient_boosting", "binary", {"early_stopping": True, "interaction_cst": "no_interactions"}),
        *(("random_forest", "regression", {"criterion": c, "n_estimators": 3}) for c in ("absolute_error", "poisson")),
        *(("knn", "binary", {"algorithm": a}) for a in ("ball_tree", "kd_tree", "brute")),
        *(
            ("knn", "regression", {"algorithm": "ball_tree", "metric": m})
            for m in ("minkowski", "euclidean", "manhattan", "chebyshev", "canberra", "braycurtis", "hamming")
        ),
        ("knn", "regression", {"algorithm": "ball_tree", "p": 3}),
        ("knn", "regression", {"metric": "cosine"}),
        *(("ridge", "regression", {"solver": s}) for s in ("svd", "cholesky", "lsqr", "sag", "saga")),
        ("ridge", "regression", {"positive": True}),
        ("logistic_regression", "binary", {"solver": "liblinear"}),
        ("logistic_regression", "binary", {"l1_ratio": 0.5, "max_iter": 5000}),
        ("gaussian_nb", "binary", {"priors": [0.5, 0.5]}),
        ("kmeans", "clustering", {"init": "random", "algorithm": "elkan", "n_init": 2}),
        ("pca", "embedding", {"n_components": 0.9, "whiten": True}),
        ("pca", "embedding", {"n_components": 2, "svd_solver": "randomized"}),
    ],
)
def test_every_choice_of_parameters_can_be_saved_and_read_back(
    name: str, task: str, params: dict[str, Any], tables: dict[str, Any], tmp_path: Path
) -> None:
    data = tables[task]
    fitted = fit(MODELS.get(name)(**params), data.X, data.y, data.context)
    load_fitted(tmp_path, fitted.save(tmp_path)).predict(data.X_test)
