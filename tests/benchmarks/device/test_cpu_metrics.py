"""CPU metrics computed in advance: found for the same work wherever its tables are stored, and for no other work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.device import comparisons, cpu_metrics, parity, recorded_metrics
from gpupipe.config import Config, load_config

MODELS = "models=[logistic_regression]"


@pytest.fixture
def config(binary: Path) -> Config:
    return load_config(binary, [MODELS])


@pytest.fixture
def file(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recorded metrics of `config`."""
    path = tmp_path / "cpu_metrics.json"
    assert cpu_metrics.record(path, iter([("binary", config)])) == 1
    monkeypatch.setenv(recorded_metrics.VARIABLE, str(path))
    recorded_metrics.load.cache_clear()
    return path


def test_the_key_depends_on_the_work_and_the_bytes_of_its_table(config: Config, binary: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in (binary, tmp_path / "table.parquet"):
        shutil.copy(path, elsewhere)
    there = elsewhere / binary.name
    key = recorded_metrics.key_of(config)
    assert recorded_metrics.key_of(load_config(there, [MODELS, "device=gpu", "fallback=forbid", "name=other"])) == key
    assert recorded_metrics.key_of(load_config(binary, [MODELS, "seed=2"])) != key
    assert recorded_metrics.key_of(load_config(binary, ["models=[{logistic_regression: {C: 2}}]"])) != key
    with (elsewhere / "table.parquet").open("ab") as table:
        table.write(b"x")
    assert recorded_metrics.key_of(load_config(there, [MODELS])) != key


def test_recorded_metrics_match_the_run_and_nothing_is_recomputed(
    config: Config, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = parity.compute_metrics(config, "cpu")
    monkeypatch.setattr(parity, "compute_metrics", None)
    assert parity.metrics_of(config, devices=("cpu",))["cpu"] == expected
    assert cpu_metrics.record(file, iter([("binary", config)])) == 1


def test_metrics_missing_from_the_file_are_computed_with_a_warning(binary: Path, file: Path) -> None:
    other = load_config(binary, [MODELS, "seed=2"])
    with pytest.warns(UserWarning, match="no CPU metrics in the file named by GPUPIPE_CPU_METRICS"):
        assert parity.metrics_of(other, devices=("cpu",))["cpu"]["f1"] > 0


def test_other_versions_are_reported(file: Path) -> None:
    assert recorded_metrics.version_differences() == []
    document = json.loads(file.read_text())
    document["libraries"]["scikit-learn"], document["sources"] = "0.1", "other"
    file.write_text(json.dumps(document))
    recorded_metrics.load.cache_clear()
    versions, sources = recorded_metrics.version_differences()
    assert versions.startswith("CPU metrics: scikit-learn 0.1 when recorded, 1.")
    assert "different sources of gpupipe" in sources


def test_without_public_tables_the_steps_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPIPE_DATA", "")
    document = comparisons.compare_models(lambda found: None)
    assert document["failed"] == ["GPUPIPE_DATA is not set: no public table was compared"]
    monkeypatch.setenv("GPUPIPE_DATA", "/no/such/folder")
    assert "is not a folder" in comparisons.without_tables()[0]


def test_a_comparison_names_the_source_of_the_cpu_metrics(
    config: Config, binary: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parity, "compute_metrics", lambda config, device: {"f1": 0.5 if device == "gpu" else 0.7})
    document: dict[str, Any] = {"models": {}, "lines": [], "failed": []}
    comparisons._compare_model("here", load_config(binary, [MODELS, "seed=2"]), document)
    comparisons._compare_model("in advance", config, document)
    here, in_advance = document["lines"]
    assert here == "here: f1 0.50000 on the GPU, 0.70000 on the CPU (computed here)"
    assert in_advance.endswith("on the CPU (computed in advance)")
    assert document["models"]["in advance"]["cpu"]["f1"] != 0.7
    assert len(document["failed"]) == 2


@pytest.mark.data
def test_a_model_that_fails_is_noted_and_the_others_are_still_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(config: Config, device: str) -> dict[str, float]:
        if config.models[0].name == "knn" and device == "gpu":
            raise MemoryError("out of memory")
        return {"roc_auc": 0.9}

    monkeypatch.delenv(recorded_metrics.VARIABLE, raising=False)
    monkeypatch.setattr(parity, "compute_metrics", compute)
    saved: list[int] = []
    document = comparisons.compare_models(lambda found: saved.append(len(found["models"])))
    assert document["failed"] == [f"{name}, knn: MemoryError: out of memory" for name in comparisons.PUBLIC]
    assert len(document["models"]) == len(comparisons.PUBLIC) * (len(comparisons.MODELS) - 1)
    assert saved == sorted(saved)


@pytest.mark.data
def test_everything_that_a_step_compares_is_recorded_in_advance() -> None:
    titles = {title for step in cpu_metrics.CONFIGURATIONS.values() for title, _ in step()}
    assert {"telco, knn", "adult, xgboost", "churn, mlp", "churn, 1,000,000 rows, xgboost"} <= titles
