"""Models trained on a device: they predict the same without one, and unsupported models are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.device.parity import run_on
from tests.gpu.learners import MARKED_LEARNERS, REFUSED, TARGETS, marks, of_task

PREDICTION_GAP = 1e-4  # tolerance of float32 sums in another order
# cuML finds neighbours by float32 distances, scikit-learn by float64: of rows that are nearly as near, another one is
# taken. Computed with NumPy on these matrices, with ties broken in three ways: at most 5 of 1,409 rows of the two
# classes differ, 50 of the numbers, and the mean difference is 7e-4 and 9e-5 of the largest prediction.
NEIGHBOR_ROWS = 0.05
NEIGHBOR_MEAN = 2e-3
RECORDED = ("logistic_regression", "random_forest", "xgboost", "gaussian_nb")


@pytest.mark.data
@pytest.mark.parametrize(("model", "task"), MARKED_LEARNERS)
def test_what_was_trained_on_the_device_predicts_the_same_without_one(
    telco: Path, command: Any, tmp_path: Path, model: str, task: str
) -> None:
    run = run_on(of_task(telco, model, task, test_size=0.2), "gpu", tmp_path / "run")
    scores = tmp_path / "scores.parquet"
    done = command("predict", str(run.path), str(telco), "-o", str(scores), "--device", "cpu", CUDA_VISIBLE_DEVICES="")
    assert done.code == 0, done.said
    there, here = pq.read_table(run.path / "predictions.parquet"), pq.read_table(scores)
    rows = there["row"].to_numpy()
    of_numbers = ("probability", "embedding", "distance", "quantile", "prediction_")
    names = [name for name in here.column_names if name.startswith(of_numbers)]
    for name in names or ["prediction"]:
        expected = there[name].to_numpy().astype(float)
        found = here[name].to_numpy()[rows].astype(float)
        if model == "knn":
            gap, largest = np.abs(found - expected), np.abs(expected).max()
            assert (gap > PREDICTION_GAP * largest).mean() <= NEIGHBOR_ROWS, name
            assert gap.mean() <= NEIGHBOR_MEAN * largest, name
        else:
            np.testing.assert_allclose(found, expected, rtol=PREDICTION_GAP, atol=PREDICTION_GAP, err_msg=name)


@pytest.mark.data
@pytest.mark.parametrize("model", [pytest.param(model, marks=marks(model, "binary")) for model in RECORDED])
def test_recorded_predictions_are_reproduced_on_both(telco: Path, command: Any, tmp_path: Path, model: str) -> None:
    """Nulls, unseen levels, empty strings, infinities and extremes among the rows."""
    run = run_on(of_task(telco, model, "binary", test_size=0.2), "gpu", tmp_path / "run")
    without = command("verify", str(run.path), "--device", "cpu", CUDA_VISIBLE_DEVICES="")
    assert without.code == 0, without.said
    there = command("verify", str(run.path), "--device", "gpu")
    assert there.code == 0, there.said


@pytest.mark.data
@pytest.mark.rapids
@pytest.mark.parametrize(("model", "task"), REFUSED)
def test_a_model_without_a_device_version_is_refused_by_name_with_exit_code_4(
    telco: Path, command: Any, tmp_path: Path, model: str, task: str
) -> None:
    path = tmp_path / "config.yaml"
    source = f"{{path: {telco}, target: {TARGETS[task]}, drop: [customerID], schema: {{TotalCharges: float}}}}"
    path.write_text(f"source: {source}\nmodels: [{model}]\n")
    done = command("run", str(path), "--device", "gpu", "--output", str(tmp_path / "run"))
    assert done.code == 4, done.said
    assert model in done.said
    assert "to do:" in done.said
    assert not (tmp_path / "run").exists()
