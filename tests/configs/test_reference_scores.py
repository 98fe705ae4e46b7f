"""Scores of the public tables' configurations: as good as the best plain reference on the same folds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe import Pipeline, load_config
from gpupipe.config import Config
from gpupipe.metrics.settings import Evaluate
from gpupipe.report.settings import Report
from tests.nightly import nightly_unless

CONFIGS = Path(__file__).parents[2] / "configs"
TOLERANCE = 0.002  # tolerance for other libraries and float32

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

DAILY = ("telco", "online_retail", "bike_sharing")  # the tables that are learned in a second or two


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "model", "metric", "reference"), nightly_unless(lambda name, *_: name in DAILY, REFERENCES)
)
def test_a_configuration_reaches_the_best_plain_reference(
    name: str, model: str, metric: str, reference: float, data_dir: Path, tmp_path: Path
) -> None:
    config = load_config(CONFIGS / f"{name}.yaml")
    only = [entry for entry in config.models if entry.label == model]

    score = best_score(config.model_copy(update={"models": tuple(only)}), metric, tmp_path / "run")

    assert score >= reference - TOLERANCE
    assert score <= reference + 0.02, "too good to be true: does the target leak?"


@pytest.mark.nightly
@pytest.mark.data
def test_a_network_with_its_default_settings_reaches_the_best_plain_reference(data_dir: Path, tmp_path: Path) -> None:
    config = load_config(CONFIGS / "telco.yaml", ["models=[mlp]"])

    assert 0.8453 - 0.01 <= best_score(config, "roc_auc", tmp_path / "run") <= 0.8453 + 0.02


HAVERSINE = "{haversine: {from: [pickup_latitude, pickup_longitude], to: [dropoff_latitude, dropoff_longitude]}}"
AUTO = '{auto: {columns: "@all", max_one_hot: 128}}'

# configuration, columns dropped, model, R² of plain scikit-learn with the great-circle distance, and without it
DISTANCES = [
    ("chicago_taxi", "tips, pickup_census_tract", "ridge", 0.8661, 0.8356),
    ("nyc_taxi", "obs_id, train_id, trip_distance", "ridge", 0.5809, 0.3173),
    ("nyc_taxi", "obs_id, train_id, trip_distance", "hist_gradient_boosting", 0.7273, 0.6811),
]


@pytest.mark.data
@pytest.mark.parametrize(("name", "dropped", "model", "reference", "without"), DISTANCES)
def test_the_great_circle_distance_lifts_the_score_of_taxi_trips(
    name: str, dropped: str, model: str, reference: float, without: float, data_dir: Path, tmp_path: Path
) -> None:
    settings = [f"source.drop=[{dropped}]", f"models=[{{{model}: library}}]", f"features=[{HAVERSINE}, {AUTO}]"]
    score = best_score(load_config(CONFIGS / f"{name}.yaml", settings), "r2", tmp_path / "run")
    assert score >= reference - TOLERANCE > without + 10 * TOLERANCE  # out of reach without the distance


def best_score(config: Config, metric: str, folder: Path) -> float:
    """Return what a run of `config` scores, without the parts that take time and change nothing."""
    quick = {"evaluate": Evaluate(metrics=[metric], importance=False), "report": Report(enabled=False)}
    return Pipeline(config.model_copy(update=quick)).run(folder).metrics[metric]
