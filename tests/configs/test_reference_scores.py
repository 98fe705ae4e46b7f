"""The configurations of the public tables reach the best plain reference, on the very same folds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe import Pipeline, load_config
from gpupipe.metrics.settings import Evaluate
from gpupipe.report.settings import Report

CONFIGS = Path(__file__).parents[2] / "configs"
TOLERANCE = 0.002  # what other libraries and float32 may cost

# configuration, its model, metric, mean over the folds of the best plain scikit-learn model
REFERENCES = [
    ("telco", "logistic_regression", "roc_auc", 0.8453),
    ("telco", "xgboost", "roc_auc", 0.8453),
    ("adult", "xgboost", "roc_auc", 0.9293),
    ("online_retail", "logistic_regression", "roc_auc", 0.7418),
    ("chicago_taxi", "xgboost", "r2", 0.9467),
    ("nyc_taxi", "hist_gradient_boosting", "r2", 0.7755),
    ("bike_sharing", "xgboost", "r2", 0.9482),
    ("diamonds", "xgboost", "r2", 0.9813),
]


@pytest.mark.data
@pytest.mark.parametrize(("name", "model", "metric", "reference"), REFERENCES)
def test_a_configuration_reaches_the_best_plain_reference(
    name: str, model: str, metric: str, reference: float, data_dir: Path, tmp_path: Path
) -> None:
    config = load_config(CONFIGS / f"{name}.yaml")
    only = [entry for entry in config.models if entry.label == model]
    quick = {"models": tuple(only), "evaluate": Evaluate(metrics=[metric], importance=False)}
    pipeline = Pipeline(config.model_copy(update=quick | {"report": Report(enabled=False)}))

    scores = pipeline.run(tmp_path / "run").metrics

    assert scores[metric] >= reference - TOLERANCE
    assert scores[metric] <= reference + 0.02, "too good to be true: does the target leak?"
