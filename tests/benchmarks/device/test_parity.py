"""The comparison of two devices, with the host as both: it finds every difference and reports no false ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.device.parity import (
    FeatureMatrices,
    column_errors,
    config_for,
    errors_by_op,
    fit_matrices,
    job_of,
    metric_gap,
    metrics_of,
    stages_elsewhere,
)
from gpupipe.config import load_config
from gpupipe.metrics.clustering import ON_THE_HOST


@pytest.fixture
def made(binary: Path) -> FeatureMatrices:
    return fit_matrices(job_of(load_config(binary), "cpu"), "dense")


def test_equal_matrices_have_no_difference(made: FeatureMatrices) -> None:
    assert set(column_errors(made, made).values()) == {0.0}
    assert set(errors_by_op(made, made)) == {feature.op for feature in made.features.features}


def test_a_cell_that_differs_is_the_error_of_its_column_and_op(made: FeatureMatrices) -> None:
    served = made.served.copy()
    served[3, 1] += 0.5
    errors = column_errors(made, replace(made, served=served))
    off = made.features.features[1]
    expected = 0.5 / (1 + abs(float(made.served[3, 1])))
    assert {name for name, error in errors.items() if error} == {off.name}
    assert errors[off.name] == pytest.approx(expected, rel=1e-5)
    assert errors_by_op(made, replace(made, served=served))[off.op] == errors[off.name]


def test_a_number_against_nan_is_an_infinite_error_and_two_nans_are_equal(
    made: FeatureMatrices,
) -> None:
    training = made.training.copy()
    training[0, 0] = np.nan
    broken = replace(made, training=training)
    assert column_errors(made, broken)[made.features.names[0]] == np.inf
    assert set(column_errors(broken, broken).values()) == {0.0}


@pytest.mark.parametrize(("lacks_cudf", "by_default"), [(False, "forbid"), (True, "allow")])
def test_nothing_falls_back_unless_it_has_to_or_the_configuration_allows_it(
    binary: Path, monkeypatch: pytest.MonkeyPatch, lacks_cudf: bool, by_default: str
) -> None:
    monkeypatch.setattr("gpupipe.backends.probe.lacks_package", lambda library: lacks_cudf)
    assert config_for(load_config(binary), "gpu").device_options.fallback == by_default
    assert config_for(load_config(binary, ["fallback=allow"]), "gpu").device_options.fallback == "allow"


def test_metrics_come_from_a_run_and_their_gap_is_relative_above_one(binary: Path) -> None:
    config = load_config(binary, ["models=[logistic_regression]"])
    found = metrics_of(config, devices=("cpu",))
    assert 0.5 < found["cpu"]["f1"] <= 1
    assert metric_gap({"cpu": {"auc": 0.80}, "gpu": {"auc": 0.81}}, "auc") == pytest.approx(0.01)
    assert metric_gap({"cpu": {"rmse": 200.0}, "gpu": {"rmse": 201.0}}, "rmse") == pytest.approx(0.005)


def test_only_stages_the_device_should_have_run_count_as_fallbacks() -> None:
    names = ["read", "split", "features", "train xgboost", "fold 1: predict xgboost", "evaluate", "export", "report"]
    stages = [{"name": name, "device": "cpu", "reason": "no NVIDIA driver"} for name in names]
    assert stages_elsewhere(stages, "cpu") == []
    assert stages_elsewhere(stages, "gpu") == ["features", "train xgboost", "fold 1: predict xgboost", "evaluate"]
    assert stages_elsewhere([{"name": "evaluate", "device": "cpu", "reason": ON_THE_HOST}], "gpu") == []
