"""The table of estimators on a GPU: it covers every model, fully, or refuses it with a reason and a remedy."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
from pydantic import ValidationError

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.backends.cpu.estimators import ESTIMATORS as ON_HOST
from gpupipe.backends.gpu.estimators import ESTIMATORS, NO_TWIN, create, refusal
from gpupipe.errors import ConfigError, DeviceError
from gpupipe.models import MODELS, FitContext, early_refusal
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.training import keyword_arguments
from gpupipe.random_streams import derive_seed

MODEL_SEED = derive_seed(7, "model")

# Networks use PyTorch on every device, so they have no device estimator.
CASES = [
    (name, task)
    for name, model in MODELS.items()
    if name not in ("best", "estimator") and not issubclass(model, NeuralSettings)
    for task in sorted(model.tasks)
]
ON_DEVICE = [(name, task) for name, task in CASES if MODELS.get(name)().estimator_name(task) in ESTIMATORS]
X = np.zeros((5, 2), np.float32)


def _given(name: str, task: Any, **fields: Any) -> tuple[str, dict[str, Any]]:
    model = MODELS.get(name)(**fields)
    n_classes = {"binary": 2, "multiclass": 3}.get(task, 0)
    context = FitContext(CpuBackend(), task, 7, n_classes, {0: 3}, ["a", "b"])
    return model.estimator_name(task), keyword_arguments(model, X, context, 1)


def _choices(annotation: Any) -> Iterator[Any]:
    """Yield the values that a field's type names."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif get_origin(annotation) not in (dict, list):
        for part in get_args(annotation):
            yield from _choices(part)


def test_every_host_estimator_is_in_the_table_or_has_a_reason() -> None:
    assert {*ON_HOST, "OwnEstimator", "PluginEstimator"} == set(ESTIMATORS) | set(NO_TWIN)
    assert not set(ESTIMATORS) & set(NO_TWIN)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_row_states_each_fact_once(name: str) -> None:
    row = ESTIMATORS[name]
    module, _, class_name = row.path.partition(":")
    assert row.library in ("cuml", "xgboost", "gpupipe")
    assert module.startswith(row.library)
    assert class_name == {"LinearRegression": "LeastSquares"}.get(name, name)
    if row.library == "gpupipe":  # the others are in the snapshots of `tools/gpu_api`
        assert row.passed <= set(inspect.signature(getattr(import_module(module), class_name)).parameters)
    targets = [param.name for param in row.params.values() if param.name]
    assert len(targets) + len(row.fixed) == len(row.passed)
    for param in row.params.values():
        assert param.name or param.why  # what is dropped has its reason
        assert param.why or (param.allowed is None and not param.refused_types)  # so has what is refused


@pytest.mark.parametrize(("name", "task"), ON_DEVICE)
def test_what_a_model_passes_by_default_is_translated_or_dropped(
    name: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupipe.backends.gpu.estimators._xgboost_knows_cuda", lambda: True)
    estimator, params = _given(name, task)
    assert refusal(estimator, params) is None
    assert set(ESTIMATORS[estimator].translate(params)) <= ESTIMATORS[estimator].passed


@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_model_without_a_device_version_is_refused_before_any_data_is_read(
    name: str, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupipe.backends.gpu.estimators._xgboost_knows_cuda", lambda: True)
    assert (early_refusal(MODELS.get(name)(), task) is None) == ((name, task) in ON_DEVICE)


@pytest.mark.parametrize(("name", "task"), ON_DEVICE)
def test_every_choice_of_every_field_is_taken_or_refused_by_name(
    name: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupipe.backends.gpu.estimators._xgboost_knows_cuda", lambda: True)
    for field, info in MODELS.get(name).model_fields.items():
        for value in _choices(info.annotation):
            try:
                estimator, params = _given(name, task, **{field: value})
            except (ConfigError, ValidationError):  # of another task, or only with values of other fields
                continue
            refused = refusal(estimator, params)
            assert refused is None or (field in refused.what and field in refused.fix), (field, value)


REFUSED: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("random_forest", "binary", {"monotonic_cst": {"a": 1}}, "monotonic_cst: [1, 0]", "remove monotonic_cst"),
    ("random_forest", "binary", {"max_samples": 100}, "max_samples: 100", "max_samples: a fraction between 0 and 1"),
    ("random_forest", "binary", {"class_weight": "balanced_subsample"}, "every tree", "class_weight: balanced"),
    ("random_forest", "regression", {"criterion": "absolute_error"}, "absolute errors", "criterion: squared_error"),
    ("random_forest", "regression", {"min_impurity_decrease": 0.1}, "within the node", "min_impurity_decrease: 0"),
    ("logistic_regression", "binary", {"solver": "liblinear"}, "penalise the intercept", "solver: lbfgs"),
    ("linear_regression", "regression", {"positive": True}, "sign constraint", "positive: false"),
    ("linear_regression", "regression", {"tol": 1e-6}, "by a fixed threshold", "tol: 1e-10"),
    ("ridge", "regression", {"solver": "lbfgs", "positive": True}, "sign constraint", "solver: auto; positive: false"),
    ("lasso", "regression", {"selection": "random"}, "has no seed", "selection: cyclic"),
    ("knn", "binary", {"metric": "hamming"}, "not support this distance", "metric: minkowski"),
    ("pca", "embedding", {"n_components": 0.9}, "fraction of the variance", "n_components: a whole number"),
    ("pca", "embedding", {"n_components": "mle"}, "fraction of the variance", "n_components: a whole number"),
    ("hist_gradient_boosting", "binary", {}, "no histogram gradient boosting", "use the model xgboost"),
    ("linear_svc", "binary", {}, "calibrates", "use the model logistic_regression"),
]


@pytest.mark.parametrize(("name", "task", "fields", "what", "fix"), REFUSED)
def test_what_the_device_cannot_do_is_refused_with_the_nearest_legal_value(
    name: str, task: str, fields: dict[str, Any], what: str, fix: str
) -> None:
    estimator, params = _given(name, task, **fields)
    refused = refusal(estimator, params)
    assert refused is not None
    assert what in refused.what
    assert fix in refused.fix
    with pytest.raises(DeviceError, match="not supported on the GPU") as error:
        create(estimator, params)
    assert error.value.exit_code == 4
    assert error.value.fix == refused.fix


TRANSLATED: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("random_forest", "binary", {"max_leaf_nodes": 9}, {"split_criterion": "gini", "max_leaves": 9, "n_streams": 1}),
    ("random_forest", "regression", {}, {"split_criterion": "mse", "max_leaves": -1, "max_samples": 1.0}),
    ("random_forest", "binary", {"criterion": "log_loss"}, {"split_criterion": "entropy", "random_state": MODEL_SEED}),
    ("logistic_regression", "binary", {"l1_ratio": 1.0}, {"penalty": "elasticnet", "l1_ratio": 1.0, "C": 1.0}),
    ("lasso", "regression", {"tol": 1e-4}, {"tol": 1e-3, "selection": "cyclic"}),
    ("ridge", "regression", {"solver": "lsqr"}, {"solver": "lsmr", "copy_X": False}),
    ("knn", "binary", {"algorithm": "kd_tree"}, {"algorithm": "brute", "metric": "minkowski", "p": 2}),
    ("pca", "embedding", {"svd_solver": "randomized", "n_components": 2}, {"svd_solver": "full", "n_components": 2}),
    ("kmeans", "clustering", {}, {"init": "k-means++", "n_init": "auto", "random_state": MODEL_SEED}),
    ("xgboost", "binary", {}, {"device": "cuda", "tree_method": "hist", "feature_types": ["c", "q"]}),
]


@pytest.mark.parametrize(("name", "task", "fields", "expected"), TRANSLATED)
def test_parameters_get_the_names_and_values_of_the_device(
    name: str, task: str, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    estimator, params = _given(name, task, **fields)
    translated = ESTIMATORS[estimator].translate(params)
    assert {key: translated[key] for key in expected} == expected


def test_notes_name_the_differences() -> None:
    row = ESTIMATORS["RandomForestClassifier"]
    assert row.notes_on({"max_leaf_nodes": None}) == row.notes
    assert "soft limit" in row.notes_on({"max_leaf_nodes": 9})[-1]


def test_all_refusals_are_reported_together() -> None:
    refused = refusal(*_given("random_forest", "binary", ccp_alpha=0.1, min_weight_fraction_leaf=0.1))
    assert refused is not None
    assert refused.fix == "min_weight_fraction_leaf: 0; ccp_alpha: 0"


def test_true_is_not_the_number_one() -> None:
    assert refusal("LogisticRegression", {"intercept_scaling": 1}) is None
    assert refusal("LogisticRegression", {"intercept_scaling": True}) is not None
    assert refusal("LogisticRegression", {"dual": 0}) is not None


def test_an_xgboost_that_was_built_without_cuda_is_refused() -> None:
    xgboost = pytest.importorskip("xgboost", reason="xgboost comes with the extra 'cpu'")
    refused = refusal("XGBClassifier", {})
    if xgboost.build_info()["USE_CUDA"]:
        assert refused is None
    else:
        assert refused is not None
        assert "without CUDA" in refused.what


def test_an_unknown_estimator_is_refused_with_the_known_ones() -> None:
    refused = refusal("Perceptron", {})
    assert refused is not None
    assert "RandomForestClassifier" in refused.fix
