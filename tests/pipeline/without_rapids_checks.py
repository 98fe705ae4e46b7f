"""Checks of runs on the device double without RAPIDS, run by `test_on_device.py` in Numba's simulator.

cuDF, cuML and RMM cannot be imported here, as with the extra ``cuda13-lite``: see `tests.gpu.rehearsal`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpupipe.backends import choose
from gpupipe.config import Config, parse_config
from gpupipe.datasets.churn import write
from gpupipe.errors import DeviceError
from gpupipe.model_parts.goal import Goal
from gpupipe.pipeline.run import run_pipeline
from gpupipe.plan.run_plan import make_plan
from gpupipe.training.preparation.preparation import choose_entries
from tests.backends.double import DeviceArray
from tests.gpu.rehearsal import install

ROWS = 100
# of integers that are to wrap, where Python computes: the simulator
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
install(without_rapids=True)


BOOSTING: dict[str, Any] = {"xgboost": {"n_estimators": 5, "early_stopping_rounds": None}}
LINEAR = "logistic_regression"
NEEDS_CUML = "on the GPU needs cuML, which is not installed"


def configured(models: list[Any], **more: Any) -> Config:
    source = {"generate": "churn", "rows": ROWS, "target": "Churn", "positive": "Yes", "drop": ["customerID"]}
    return parse_config(
        {
            "name": "churn",
            "device": "gpu",
            "fallback": more.pop("fallback", "forbid"),
            "source": {**source, "cache": False, **more.pop("source", {})},
            "features": [{"impute": "@numeric"}, {"standardize": "@numeric"}, {"encode": ["@categorical", "!City"]}],
            "evaluate": {"importance": False},
            "report": {"enabled": False},
            **({"models": models} if models else {}),
            **more,
        }
    )


def of_file(path: Path, models: list[Any], **more: Any) -> Config:
    write(path, rows=ROWS)
    return configured(models, source={"generate": None, "path": str(path)}, **more)


def stages(folder: Path) -> dict[str, dict[str, Any]]:
    return {stage["name"]: stage for stage in json.loads((folder / "timeline.json").read_text())["stages"]}


NETWORK = {"mlp": {"epochs": 1, "depth": 1, "width": 8, "precision": "float32"}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the stages of a run of generated customers, with fallbacks forbidden."""
    folder = tmp_path_factory.mktemp("generated") / "run"
    run_pipeline(configured([BOOSTING, NETWORK]), folder)
    return stages(folder)


def test_no_package_of_rapids_can_be_imported() -> None:
    for name in ("cudf", "cuml", "rmm"):
        with pytest.raises(ImportError):
            __import__(name)


def test_xgboost_and_a_network_run_on_the_gpu_from_end_to_end(run: dict[str, dict[str, Any]]) -> None:
    on_gpu = {name for name, stage in run.items() if stage["device"] == "gpu"}
    assert set(run) - on_gpu == {"split", "export"}
    assert {"read", "features", "train xgboost", "predict xgboost", "train mlp", "predict mlp", "evaluate"} <= on_gpu
    assert not any(note.startswith("on the CPU:") for stage in run.values() for note in stage["notes"])
    assert run["features"]["interpreter"] == "cuda"


def test_the_peak_of_each_stage_comes_from_the_pool(run: dict[str, dict[str, Any]]) -> None:
    matrix = 4 * ROWS * 20  # bytes of at least 20 columns
    assert all(stage["peak_device_bytes"] > 0 for stage in run.values())
    assert run["train xgboost"]["peak_device_bytes"] > matrix
    assert DeviceArray.pool is not None and DeviceArray.pool.threshold == 2**64 - 1


def test_a_file_is_read_on_the_host_with_the_reason(tmp_path: Path) -> None:
    config = of_file(tmp_path / "churn.parquet", [BOOSTING, LINEAR], fallback="allow")
    run_pipeline(config, tmp_path / "run")
    found = stages(tmp_path / "run")
    reasons = {name: stage["reason"] for name, stage in found.items() if stage["device"] == "cpu"}
    assert reasons["read"] == "cudf, which reads files on the GPU, is not installed (read: source.path)"
    assert reasons["train logistic_regression"] == f"LogisticRegression {NEEDS_CUML} (models: logistic_regression)"
    assert reasons["read"] not in [reason for name, reason in reasons.items() if name != "read"]
    assert found["train xgboost"]["device"] == "gpu"
    plan = make_plan(config)
    assert plan.error is None
    planned = {stage.name: stage.reason for stage in plan.stages if stage.device == "cpu"}
    assert planned["read"] == "cudf, which reads files on the GPU, is not installed"
    assert planned.keys() == reasons.keys()


@pytest.mark.parametrize("models", [[BOOSTING], [LINEAR]], ids=["file", "cuML"])
def test_what_needs_rapids_is_refused_if_fallback_is_forbidden(tmp_path: Path, models: list[Any]) -> None:
    if models == [BOOSTING]:
        config, what, where = (
            of_file(tmp_path / "churn.parquet", models),
            "cudf, which reads files on the GPU",
            "read: ",
        )
    else:
        config, what, where = configured(models), f"LogisticRegression {NEEDS_CUML}", "models: logistic_regression"
    with pytest.raises(DeviceError, match=what) as caught:
        run_pipeline(config, tmp_path / "run")
    assert caught.value.exit_code == 4
    assert caught.value.where.startswith(where)
    assert "pip install 'gpupipe[cuda13]'" in caught.value.fix
    planned = make_plan(config).error
    assert isinstance(planned, DeviceError)
    assert what in planned.what


def test_the_default_models_are_those_that_can_be_trained(tmp_path: Path) -> None:
    config = configured([])
    backend = choose("gpu", config.device_options)
    entries = choose_entries(config, Goal("binary", "Churn"), backend)
    assert [entry.name for entry in entries] == ["xgboost"]
    assert backend.take_notes() == [f"default models without logistic_regression: LogisticRegression {NEEDS_CUML}"]
