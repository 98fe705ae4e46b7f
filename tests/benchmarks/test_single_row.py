"""Time of single rows: equal probabilities of scorer and model, and a table of percentiles and targets."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks.single_row.__main__ import text_of
from benchmarks.single_row.child import measure_calls, measure_threads
from benchmarks.single_row.implementations import EQUAL, MODEL, NUMBA, NUMPY, implementations
from gpupipe import Pipeline

ROWS = [{"age": 20 + i % 60, "plan": "abc"[i % 3]} for i in range(60)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("workload")
    frame = pd.DataFrame(ROWS).assign(left=[i % 7 < 2 for i in range(60)])
    Pipeline(frame, target="left", models=["logistic_regression"]).run(found / "run", quiet=True)
    (found / "rows.pkl").write_bytes(pickle.dumps(ROWS))
    return found


def test_implementations_predict_the_same_rows_from_the_offset_on(folder: Path) -> None:
    found = {name: measure_calls(folder, name, 70, 60.0, 65) for name in (*EQUAL, MODEL)}
    reference = found[MODEL]["probabilities"]
    assert len(reference) == len(found[NUMBA]["microseconds"]) == 70
    assert reference[:10] == reference[60:] != reference[1:11]
    assert all(found[name]["probabilities"] == reference for name in EQUAL)
    assert found[NUMBA]["probabilities"][0] == measure_calls(folder, MODEL, 1, 60.0, 5)["probabilities"][0]


def test_a_round_ends_with_its_time(folder: Path) -> None:
    assert len(measure_calls(folder, NUMPY, 70, 0.0, 0)["microseconds"]) == 1


def test_threads_give_the_results_of_one(folder: Path) -> None:
    found = measure_threads(folder, NUMBA, 100, 4)
    assert found["equal"]
    assert found["rows_per_second"] > 0


def test_the_table_has_ratios_targets_and_differences() -> None:
    def times(p50: float, p99: float) -> dict[str, Any]:
        best = {"p50": p50, "p90": p50, "p99": p99, "p99.9": p99}
        return {"calls": 20_000, "best_round": best, "all_rounds": best, "rounds": [best], "roc_auc": 0.84}

    first = {"first_microseconds": {"cold": 900.0, "warm": 160.0}, "load_seconds": {"cold": 3.0, "warm": 1.0}}
    found = {
        "load_average": [0.5, 1.0], "implementations": {NUMBA: times(20.0, 300.0), MODEL: times(3000.0, 4000.0)},
        "equal_to_model": {NUMBA: False}, "first_calls": {NUMBA: first},
    }  # fmt: skip
    text = text_of({"machine": {"cpu": "X", "cores": 2, "python": "3.11"}, "workloads": {"churn-xgboost": found}})
    assert "| Model | 20,000 | 3,000.0 | 4,000.0 | 3,000.0 | 4,000.0 | 150.0 | 0.8400 |" in text
    assert "bits equal to Model: False" in text
    assert "target p50 <= 60 us: met (20.0 us)" in text
    assert "target p99 <= 250 us: missed (300.0 us)" in text
    assert "first call 160 us, 0.5 x the steady p99, 900 us without cached code" in text


def test_only_boosted_trees_are_measured_alone() -> None:
    assert set(implementations("telco")) - set(implementations("churn-logistic")) == {
        "XGBoost, trees only",
        "ONNX Runtime, trees only",
    }
