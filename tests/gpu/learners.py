"""The models that a device can train, each for each of its tasks, on the customers of Telco."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpupipe.backends.gpu_estimators import NO_TWIN
from gpupipe.config import Config, parse_config
from gpupipe.models import MODELS

TARGETS = {"binary": "Churn", "multiclass": "Contract", "regression": "MonthlyCharges"}
PARAMS: dict[str, dict[str, Any]] = {
    "xgboost": {"n_estimators": 60, "max_depth": 3},
    "random_forest": {"n_estimators": 200, "max_depth": 8, "min_samples_leaf": 5},
    **{name: {"precision": "float32"} for name in ("mlp", "resnet", "ft_transformer")},  # as on the host
    "kmeans": {"n_clusters": 4, "n_init": 10},
    "pca": {"n_components": 5},
}
TASKS = [(name, task) for name, model in MODELS.items() for task in sorted(model.tasks)]
REFUSED = [(name, task) for name, task in TASKS if MODELS.get(name)().estimator_name(task) in NO_TWIN]
LEARNERS = [one for one in TASKS if one not in REFUSED]


def of_task(path: Path, model: str, task: str, **split: Any) -> Config:
    source: dict[str, Any] = {"path": str(path), "drop": ["customerID"], "schema": {"TotalCharges": "float"}}
    if task in TARGETS:
        source["target"] = TARGETS[task]
    return parse_config(
        {
            "seed": 0,
            "source": {**source, "cache": False},
            "split": split,
            "features": [
                {"impute": {"columns": ["TotalCharges"], "strategy": "median"}},
                {"standardize": "@numeric"},
                {"encode": "@categorical"},
            ],
            "models": [{model: PARAMS.get(model, {})}],
        }
    )
