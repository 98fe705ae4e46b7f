"""Parameters of every model, compared with the class that it wraps."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.errors import ConfigError
from gpupipe.models import MODELS, FitContext, fit
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.random_streams import derive_seed

MODEL_SEED = derive_seed(7, "model")

# Parameters that no configuration should set: see `gpupipe.models.base.Model`.
NEVER = {"random_state", "n_jobs", "copy", "copy_X", "copy_x", "verbose", "warm_start"}
# Parameters of the class that a model does not have, with the reason.
LEFT_OUT = {
    "logistic_regression": {"penalty": "deprecated by scikit-learn: C and l1_ratio say it all"},
    "random_forest": {"oob_score": "the run measures on held-out rows"},
    "extra_trees": {"oob_score": "the run measures on held-out rows"},
    "hist_gradient_boosting": {"categorical_features": "known from the feature program"},
    "knn": {"metric_params": "arrays that no YAML should hold"},
}
# Fields that the class does not have, with the reason.
ADDED = {
    "gaussian_nb": {"class_weight": "as row weights"},
    "xgboost": {"class_weight": "as row weights", "validation_fraction": "rows for early stopping"},
    "lightgbm": {"class_weight": "as row weights", "validation_fraction": "rows for early stopping"},
}
# Defaults that differ, with the reason; the docstrings say it to users.
OTHER_DEFAULTS = {
    "logistic_regression": {"solver": "auto: by size", "max_iter": "enough to converge"},
    "linear_regression": {"tol": "drops no small column"},
    "lasso": {"precompute": "many more rows than columns"},
    "elastic_net": {"precompute": "many more rows than columns"},
    "random_forest": {"criterion": "auto: by task", "max_features": "auto: by task"},
    "extra_trees": {"criterion": "auto: by task", "max_features": "auto: by task"},
    "hist_gradient_boosting": {"loss": "auto: by task", "early_stopping": "gives no rows away"},
}
# Networks are our own: no class elsewhere has their parameters.
SCIKIT_LEARN = [
    name
    for name, model in MODELS.items()
    if name not in ("xgboost", "lightgbm", "catboost", "best", "estimator") and not issubclass(model, NeuralSettings)
]


def _signature(name: str, task: str) -> dict[str, Any]:
    model = MODELS.get(name)()
    estimator = CpuBackend().estimator(model.estimator_name(task), {})  # type: ignore[arg-type]
    parameters = inspect.signature(type(estimator).__init__).parameters
    return {key: p.default for key, p in parameters.items() if key not in NEVER | {"self"}}


@pytest.mark.parametrize("name", MODELS.names())
def test_a_model_and_its_fields_are_described(name: str) -> None:
    """The reference page of a model is generated from its docstring and its fields."""
    model = MODELS.get(name)
    summary, _, details = inspect.cleandoc(model.__doc__ or "").partition("\n")
    assert summary.endswith(".") and "CPU" in details  # the devices that run it
    assert [key for key, field in model.model_fields.items() if not (field.description or "").endswith(".")] == []


@pytest.mark.parametrize("name", SCIKIT_LEARN)
def test_every_field_is_a_parameter_of_the_class_with_its_default(name: str) -> None:
    fields = {key: field.default for key, field in MODELS.get(name).model_fields.items()}
    expected: dict[str, Any] = {}
    for task in MODELS.get(name).tasks:
        expected |= _signature(name, task)
    assert set(fields) - {"defaults"} - set(ADDED.get(name, {})) == set(expected) - set(LEFT_OUT.get(name, {}))
    for key in set(fields) & set(expected) - set(OTHER_DEFAULTS.get(name, {})):
        assert fields[key] == expected[key], key


def test_every_field_of_xgboost_is_a_parameter_of_its_class() -> None:
    from xgboost import XGBModel

    known = set(inspect.signature(XGBModel.__init__).parameters)
    known |= {"quantile_alpha"}  # of the objective, and passed on
    assert set(MODELS.get("xgboost").model_fields) - {"defaults"} - set(ADDED["xgboost"]) <= known


def test_every_field_of_lightgbm_is_a_parameter_with_its_default(tables: dict[str, Any]) -> None:
    """The class takes any keyword; LightGBM's own names and values are written in the text of a model."""
    import lightgbm

    data, settings = tables["regression"], MODELS.get("lightgbm")
    text = lightgbm.LGBMRegressor(n_estimators=1, verbosity=-1).fit(data.X, data.y).booster_.model_to_string()
    known = dict(re.findall(r"\[(\w+): (.*)\]", text))
    of_class = _signature("lightgbm", "regression")
    ours = {*ADDED["lightgbm"], "defaults", "objective", "early_stopping_rounds", "eval_metric"}
    for name, field in settings.model_fields.items():
        if name in of_class and name not in ours:
            assert field.default == of_class[name], name
        elif name not in ours and field.default is not None:
            text = field.default if isinstance(field.default, str) else f"{float(field.default):g}"
            assert known[name] == text, name


def test_every_field_of_catboost_is_a_parameter_with_its_default(tables: dict[str, Any]) -> None:
    """CatBoost writes the values that it used; those that depend on the rows are null here."""
    from catboost import CatBoostRegressor

    data, settings = tables["regression"], MODELS.get("catboost")
    estimator = CatBoostRegressor(iterations=1, allow_writing_files=False, logging_level="Silent")
    used = estimator.fit(data.X, data.y).get_all_params()
    known = set(inspect.signature(CatBoostRegressor.__init__).parameters)
    ours = {"class_weight", "defaults", "quantile", "validation_fraction"}
    assert set(settings.model_fields) - ours <= known
    for name, field in settings.model_fields.items():
        if name not in ours | {"iterations", "loss_function"} and field.default is not None and name in used:
            assert used[name] == field.default, name


def test_the_defaults_match_those_of_catboost(tables: dict[str, Any]) -> None:
    from catboost import CatBoostClassifier

    data = tables["binary"]
    ours = fit(MODELS.get("catboost")(iterations=20), data.X, data.y, data.context).predict(data.X_test)
    theirs = CatBoostClassifier(
        random_seed=MODEL_SEED, iterations=20, allow_writing_files=False, logging_level="Silent"
    )
    expected = theirs.fit(data.X, data.y.astype("i8")).predict_proba(data.X_test)[:, 1]
    assert ours.probability == pytest.approx(expected, rel=1e-12)


def test_the_defaults_match_those_of_lightgbm(tables: dict[str, Any]) -> None:
    from lightgbm import LGBMClassifier

    data = tables["binary"]
    ours = fit(MODELS.get("lightgbm")(), data.X, data.y, data.context).predict(data.X_test)
    theirs = LGBMClassifier(random_state=MODEL_SEED, verbosity=-1, deterministic=True, force_col_wise=True)
    assert (ours.probability == theirs.fit(data.X, data.y).predict_proba(data.X_test)[:, 1]).all()


def test_the_defaults_match_those_of_xgboost(tables: dict[str, Any]) -> None:
    from xgboost import XGBClassifier

    data = tables["binary"]
    ours = fit(MODELS.get("xgboost")(), data.X, data.y, data.context).predict(data.X_test)
    theirs = XGBClassifier(random_state=MODEL_SEED).fit(data.X, data.y).predict_proba(data.X_test)[:, 1]
    assert (ours.probability == theirs.astype("float64")).all()


@pytest.mark.parametrize("name", MODELS.names())
def test_an_unknown_parameter_is_an_error(name: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        MODELS.get(name)(no_such_parameter=1)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("logistic_regression", "C", 0),
        ("logistic_regression", "solver", "newton"),
        ("random_forest", "max_depth", 0),
        ("random_forest", "max_features", 1.5),
        ("hist_gradient_boosting", "max_bins", 256),
        ("xgboost", "subsample", 0),
        ("knn", "n_neighbors", 0),
        ("pca", "n_components", -1),
    ],
)
def test_a_value_that_the_class_would_refuse_is_refused_by_the_settings(name: str, field: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        MODELS.get(name)(**{field: value})


@pytest.mark.parametrize(
    ("name", "field", "value", "task"),
    [
        ("random_forest", "criterion", "gini", "regression"),
        ("hist_gradient_boosting", "loss", "squared_error", "binary"),
        ("xgboost", "objective", "multi:softprob", "binary"),
    ],
)
def test_a_value_of_another_task_is_refused_with_the_ones_that_fit(
    name: str, field: str, value: str, task: str
) -> None:
    with pytest.raises(ConfigError, match=f"{field}.*not available for the task {task}"):
        MODELS.get(name)(**{field: value}).estimator_params(task)  # type: ignore[arg-type]


def test_a_model_refuses_a_task_that_it_cannot_learn(backend: CpuBackend, tables: dict[str, Any]) -> None:
    data = tables["regression"]
    context = FitContext(backend, "regression", 0)
    with pytest.raises(ConfigError, match="GaussianNB cannot learn the task regression"):
        fit(MODELS.get("gaussian_nb")(), data.X, data.y, context)


def test_importing_the_models_imports_no_library_that_computes() -> None:
    code = (
        "import sys, gpupipe.models, gpupipe.metrics, gpupipe.splits;"
        "heavy = {'numpy', 'pandas', 'pyarrow', 'scipy', 'sklearn', 'skops', 'xgboost', 'matplotlib', 'fsspec'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
