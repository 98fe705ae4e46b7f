"""The table of estimators that a GPU cluster trains: it covers the table of one GPU or refuses with a remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.backends.gpu import estimators as gpu_estimators
from gpupipe.dask.cuml_estimators import ESTIMATORS, NO_TWIN, refusal
from gpupipe.models import MODELS, FitContext
from gpupipe.models.training import keyword_arguments
from gpupipe.random_streams import derive_seed

MODEL_SEED = derive_seed(7, "model")

SHAPE = (500, 2)
CASES = [
    (name, task)
    for name in MODELS.names()
    if name not in ("best", "estimator")
    for task in sorted(MODELS.get(name).tasks)
    if name not in ("mlp", "tabm", "ft_transformer", "xgboost")  # trained without cuml.dask
]
TOGETHER = [(name, task) for name, task in CASES if MODELS.get(name)().estimator_name(task) in ESTIMATORS]


def given(name: str, task: Any, **fields: Any) -> tuple[str, dict[str, Any]]:
    model = MODELS.get(name)(**fields)
    context = FitContext(CpuBackend(), task, 7, 2, {}, ["a", "b"])
    return model.estimator_name(task), keyword_arguments(model, np.zeros(SHAPE, np.float32), context, 1)


def test_every_estimator_of_one_gpu_is_in_the_table_or_has_a_reason() -> None:
    on_one = {name for name, row in gpu_estimators.ESTIMATORS.items() if row.library != "xgboost"}
    assert on_one | set(gpu_estimators.NO_TWIN) == set(ESTIMATORS) | set(NO_TWIN)
    assert not set(ESTIMATORS) & set(NO_TWIN)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_row_states_each_fact_once(name: str) -> None:
    row = ESTIMATORS[name]
    module, _, class_name = row.path.partition(":")
    assert (module.rpartition(".")[0], class_name) == ("cuml.dask", name)
    targets = [param.name for param in row.params.values() if param.name and param.name not in row.fixed]
    assert len(targets) + len(row.fixed) == len(row.passed)
    for param in row.params.values():
        assert param.name or param.why  # what is dropped has its reason


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_parameters_are_passed_that_cuml_dask_sets_or_warns_about(name: str) -> None:
    assert not ESTIMATORS[name].passed & {"client", "output_type", "n_streams", "handle"}


@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_default_model_is_trained_or_refused_with_a_fix(name: str, task: str) -> None:
    estimator, params = given(name, task)
    refused = refusal(estimator, params, SHAPE, weighted=False)
    assert (refused is None) == ((name, task) in TOGETHER)
    assert refused is None or (refused.what and refused.fix.startswith("use the model "))


@pytest.mark.parametrize(("name", "task"), TOGETHER)
def test_nothing_of_the_solver_s_own_defaults_is_left(name: str, task: str) -> None:
    """Those of coordinate descent, for example, differ from scikit-learn's."""
    row = ESTIMATORS[given(name, task)[0]]
    assert set(row.translate(given(name, task)[1])) == row.passed


REFUSED: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("ridge", "regression", {"solver": "lbfgs", "positive": True}, "sign constraints", "solver: auto"),
    ("lasso", "regression", {"selection": "random"}, "has no seed", "selection: cyclic"),
    ("logistic_regression", "binary", {"solver": "liblinear"}, "penalise the intercept", "solver: lbfgs"),
    ("random_forest", "binary", {"class_weight": "balanced_subsample"}, "no sample weights", "remove class_weight"),
    ("random_forest", "regression", {"criterion": "absolute_error"}, "absolute errors", "criterion: squared_error"),
    ("pca", "embedding", {"n_components": 0.9}, "fraction of the variance", "n_components: a whole number"),
    ("linear_regression", "regression", {}, "unstable on one-hot", "ridge with a small alpha"),
    ("knn", "binary", {}, "no model to export", "use the model random_forest"),
    ("gaussian_nb", "binary", {}, "no Gaussian", "use the model logistic_regression"),
    ("linear_svc", "binary", {}, "calibrates", "use the model logistic_regression"),
]


@pytest.mark.parametrize(("name", "task", "fields", "what", "fix"), REFUSED)
def test_what_it_cannot_do_is_refused_with_the_nearest_legal_value(
    name: str, task: str, fields: dict[str, Any], what: str, fix: str
) -> None:
    refused = refusal(*given(name, task, **fields), SHAPE, weighted=False)
    assert refused is not None
    assert what in refused.what
    assert fix in refused.fix


def test_sample_weights_are_refused_and_not_ignored() -> None:
    refused = refusal(*given("logistic_regression", "binary"), SHAPE, weighted=True)
    assert refused == ("cuml.dask's LogisticRegression has no sample weights", "remove class_weight and source.weight")


def test_ridge_refuses_a_single_column_which_would_crash_it() -> None:
    refused = refusal(*given("ridge", "regression"), (500, 1), weighted=False)
    assert refused is not None
    assert "at least 2 features" in refused.what


TRANSLATED: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("lasso", "regression", {"tol": 1e-4}, {"tol": 1e-3, "l1_ratio": 1.0, "alpha": 1.0, "max_iter": 1000}),
    ("elastic_net", "regression", {}, {"l1_ratio": 0.5, "alpha": 1.0}),
    ("ridge", "regression", {"solver": "lsqr", "alpha": 3.0}, {"solver": "eig", "alpha": 3.0}),
    ("kmeans", "clustering", {}, {"init": "scalable-k-means++", "n_init": "auto", "random_state": MODEL_SEED}),
    ("kmeans", "clustering", {"init": "random"}, {"init": "random"}),
    ("pca", "embedding", {"svd_solver": "arpack", "n_components": 2}, {"svd_solver": "full", "n_components": 2}),
    ("random_forest", "binary", {"max_leaf_nodes": 9}, {"max_leaves": 9, "random_state": MODEL_SEED, "n_bins": 128}),
    ("logistic_regression", "binary", {"l1_ratio": 1.0}, {"penalty": "elasticnet", "l1_ratio": 1.0, "C": 1.0}),
]


@pytest.mark.parametrize(("name", "task", "fields", "expected"), TRANSLATED)
def test_parameters_get_the_names_and_values_of_cuml_dask(
    name: str, task: str, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    estimator, params = given(name, task, **fields)
    translated = ESTIMATORS[estimator].translate(params)
    assert {key: translated[key] for key in expected} == expected


@pytest.mark.parametrize("name", ["Ridge", "Lasso", "ElasticNet", "PCA"])
def test_estimators_that_centre_in_place_get_a_copy(name: str) -> None:
    assert ESTIMATORS[name].dtype_for({}) == "float64"  # gpupipe's matrices are float32
