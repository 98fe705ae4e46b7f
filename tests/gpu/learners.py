"""Configurations of the models that a GPU can train: every task on Telco's customers, some on adult."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupipe.backends.gpu.estimators import ESTIMATORS, NO_TWIN
from gpupipe.config import Config, load_config, parse_config
from gpupipe.models import MODELS

TARGETS: dict[str, str | list[str]] = {
    "binary": "Churn",
    "multiclass": "Contract",
    "regression": "MonthlyCharges",
    "quantile": "MonthlyCharges",
    "multioutput": ["MonthlyCharges", "tenure"],
    "ranking": "SeniorCitizen",
}
PARAMS: dict[str, dict[str, Any]] = {
    "xgboost": {"n_estimators": 60, "max_depth": 3},
    "random_forest": {"n_estimators": 200, "max_depth": 8, "min_samples_leaf": 5},
    **{name: {"precision": "float32"} for name in ("mlp", "tabm", "ft_transformer")},  # as on the host
    "kmeans": {"n_clusters": 4, "n_init": 10},
    "pca": {"n_components": 5},
}
ALONE = ("best", "estimator")
JOINT = ("xgboost", "mlp")  # of several targets
TASKS = [(name, task) for name, model in MODELS.items() for task in sorted(model.tasks) if name not in ALONE]
LARGER = ("logistic_regression", "random_forest", "xgboost")  # on adult, too
REFUSED = [(name, task) for name, task in TASKS if MODELS.get(name)().estimator_name(task) in NO_TWIN]
LEARNERS = [*(one for one in TASKS if one not in REFUSED), *((name, "multioutput") for name in JOINT)]


def marks(model: str, task: Any) -> tuple[Any, ...]:
    """Return the marker of a model that cuML trains."""
    name = MODELS.get(model)().estimator_name("regression" if task == "multioutput" else task)
    return (pytest.mark.rapids,) if name in ESTIMATORS and ESTIMATORS[name].library == "cuml" else ()


MARKED_LEARNERS = [pytest.param(*one, marks=marks(*one)) for one in LEARNERS]


def of_task(path: Path, model: str, task: str, **split: Any) -> Config:
    source: dict[str, Any] = {"path": str(path), "drop": ["customerID"], "schema": {"TotalCharges": "float"}}
    if task in TARGETS:
        source["target"] = TARGETS[task]
    if task in ("quantile", "ranking"):
        source["task"] = task
    if task == "ranking":
        split = {**split, "group": "tenure"}
    params = PARAMS.get(model, {})
    if task == "multioutput":
        # no categorical columns: joint trees of XGBoost before 3.4 have none
        source["columns"] = ["customerID", "SeniorCitizen", "TotalCharges", *TARGETS[task]]
        params = params | ({"multi_strategy": "multi_output_tree"} if model == "xgboost" else {})
    return parse_config(
        {
            "seed": 0,
            "source": {**source, "cache": False},
            "split": split,
            "features": [
                {"impute": {"columns": ["TotalCharges"], "strategy": "median"}},
                {"standardize": "@numeric"},
                *([{"encode": "@categorical"}] if task != "multioutput" else []),
            ],
            "models": [{model: params}],
        }
    )


def telco_file(data_dir: Path) -> Path:
    return data_dir / "telco-churn" / "Telco-Customer-Churn.csv"


def on_telco(path: Path, model: str, task: str) -> Config:
    return of_task(path, model, task, **({"cv": 5, "shuffle": True} if task in TARGETS else {"test_size": 0.2}))


def on_adult(data_dir: Path, model: str) -> Config:
    path = Path(__file__).parents[2] / "configs" / "adult.yaml"
    adult = load_config(path, ["source.cache=false"], environment={"GPUPIPE_DATA": str(data_dir)})
    entries = tuple(entry for entry in adult.models if entry.name == model)
    one = parse_config({"source": {"path": "unused", "target": "unused"}, "models": [model]}).models
    return adult.model_copy(update={"models": entries or one})
