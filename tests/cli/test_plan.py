"""``gpupipe plan`` on the command line."""

from __future__ import annotations

import json

import pytest

CHURN = """\
source: {generate: churn, rows: 30000, target: Churn, positive: "Yes", drop: [customerID]}
features:
  - impute: "@numeric"
  - encode: ["@categorical", "!City"]
models: [logistic_regression, xgboost]
"""
GPU_LIBRARIES = ("cudf", "cupy", "cuml", "rmm", "torch", "dask_cuda", "xgboost")


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "churn.yaml"
    path.write_text(CHURN)
    return path


def test_a_plan_shows_stages_and_the_peak(gpupipe, config):
    done = gpupipe("plan", config, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "train logistic_regression" in done.stdout and "asked for" in done.stdout
    assert "30,000 rows; peak 0." in done.stdout
    assert not list(config.parent.glob("runs*"))


def test_the_json_has_every_stage_with_its_bytes(gpupipe, config):
    document = json.loads(gpupipe("plan", config, "--assume-gpu", "16GiB", "--json").stdout)
    assert document["fits"] and document["device_limit"] == 16 << 30
    assert {"name", "device", "reason", "rows", "peak_host_bytes", "peak_device_bytes", "parts", "notes"} == set(
        document["stages"][0]
    )
    assert document["peak_device_bytes"] == max(stage["peak_device_bytes"] for stage in document["stages"])


def test_a_run_that_does_not_fit_is_planned_and_ends_with_code_3(gpupipe, config):
    done = gpupipe("plan", config, "--assume-gpu", "2GiB", "--set", "source.rows=90000000")
    assert done.returncode == 3
    assert "train xgboost" in done.stdout
    assert "Does not fit" in done.stderr and "use about" in done.stderr
    document = json.loads(
        gpupipe("plan", config, "--assume-gpu", "2GiB", "--set", "source.rows=90000000", "--json").stdout
    )
    assert document["fits"] is False and "which has 2.00" in document["error"]


def test_an_invalid_size_is_a_usage_error(gpupipe, config):
    done = gpupipe("plan", config, "--assume-gpu", "16 bananas")
    assert done.returncode == 2 and "expected a size such as 20GiB" in done.stderr


def test_no_library_of_a_gpu_is_imported(gpupipe_process, config):
    done = gpupipe_process("plan", config, "--assume-gpu", "16GiB", python=("-X", "importtime"))
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "gpupipe" in imported
    assert not imported.intersection(GPU_LIBRARIES)
