"""Truthful reports of the device: stages, bytes moved, refusals, the doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gpupipe.datasets.churn import customers

pytestmark = pytest.mark.rapids
MODELS = "[logistic_regression, xgboost]"


def run_command(command: Any, folder: Path, rows: int, *more: str) -> Path:
    """Run the benchmark's configuration on the device, and return the run directory."""
    data, out = folder / f"churn_{rows}.parquet", folder / f"run_{rows}"
    pq.write_table(customers(rows), data)
    config = Path(__file__).parents[2] / "configs" / "bench_churn.yaml"
    done = command(
        "run", str(config), "--device", "gpu", "--set", f"models={MODELS}", "--output", str(out), *more,
        CHURN_FILE=str(data),
    )  # fmt: skip
    assert done.code == 0, done.said
    return out


@pytest.fixture(scope="module")
def runs(command: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The same run on a table, and on one with twice as many rows."""
    folder = tmp_path_factory.mktemp("runs")
    return {rows: run_command(command, folder, rows) for rows in (100_000, 200_000)}


def test_every_stage_is_recorded_as_run_on_the_device(runs: dict[int, Path], stages: Any) -> None:
    for folder in runs.values():
        on_host = {stage["name"] for stage in stages(folder) if stage["device"] == "cpu"}
        assert on_host == {"split", "export", "report"}
        assert all(stage["reason"] for stage in stages(folder))


def test_the_features_ran_in_the_device_s_interpreter_and_held_device_memory(
    runs: dict[int, Path], stages: Any
) -> None:
    features = [stage for stage in stages(runs[200_000]) if stage["name"].endswith("features")]
    assert features
    assert {stage["interpreter"] for stage in features} == {"cuda"}
    assert all(stage["peak_device_bytes"] > 0 for stage in features)


def between_reading_and_training(folder: Path, stages: Any) -> int:
    """Return the bytes that came to the host in the stages after the table was read and before a model is trained."""
    found = stages(folder)
    first_train = next(i for i, stage in enumerate(found) if "train " in stage["name"])
    return sum(stage["bytes_to_host"] for stage in found[1:first_train])


def test_no_row_leaves_the_device_between_reading_and_training(runs: dict[int, Path], stages: Any) -> None:
    """Only the learned state (levels, rates, quantiles) moves, and its size does not depend on the number of rows."""
    small, large = (between_reading_and_training(folder, stages) for folder in runs.values())
    assert large - small < 100_000 // 8  # not a bit of a column of the rows that were added


def test_predictions_stay_on_the_device_until_they_are_written(runs: dict[int, Path], stages: Any) -> None:
    """Metrics move a fixed number of figures, whatever the number of rows."""
    small, large = (
        sum(stage["bytes_to_host"] for stage in stages(folder) if stage["name"].endswith(("evaluate", " xgboost")))
        for folder in runs.values()
    )
    assert large - small < 8 * 100_000 // 10  # not a tenth of the probabilities of a test part that was added


def test_two_runs_have_the_same_metrics_and_predictions(command: Any, runs: dict[int, Path], tmp_path: Path) -> None:
    again = run_command(command, tmp_path, 100_000)
    first = runs[100_000]
    assert json.loads((again / "metrics.json").read_text()) == json.loads((first / "metrics.json").read_text())
    assert pq.read_table(again / "predictions.parquet").equals(pq.read_table(first / "predictions.parquet"))


def test_a_run_with_fallbacks_reports_each_with_the_reason(command: Any, tmp_path: Path, stages: Any) -> None:
    out = run_command(command, tmp_path, 20_000, "--set", "models=[hist_gradient_boosting]", "--set", "fallback=allow")
    elsewhere = {stage["name"]: stage for stage in stages(out) if stage["device"] == "cpu"}
    assert any("train hist_gradient_boosting" in name for name in elsewhere)
    assert all("histogram gradient boosting" in stage["reason"] for stage in elsewhere.values())
    assert all(any(note.startswith("on the CPU: ") for note in stage["notes"]) for stage in elsewhere.values())


def test_the_doctor_finds_nothing_broken(command: Any) -> None:
    done = command("doctor")
    assert done.code == 0, done.said
