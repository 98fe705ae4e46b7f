"""Checks of whole runs on the device double, run by `test_on_device.py` in Numba's simulator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import BaseEstimator

from benchmarks.device.parity import stages_elsewhere
from gpupipe.backends import DeviceOptions
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.config import Config, parse_config
from gpupipe.datasets.churn import customers
from gpupipe.errors import DeviceError
from gpupipe.inference.drift.cell_counter import CellCounter
from gpupipe.inference.drift.detection import input_columns, load_reference
from gpupipe.inference.model import load_model
from gpupipe.io.device.obstacles import READ_ON_HOST
from gpupipe.io.file_formats import load_generator
from gpupipe.pipeline import run as module
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.rules import ColumnRules
from gpupipe.rules.check import find_violations
from gpupipe.table.arrange import move_table
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare
from gpupipe.timeline.safe_points import StopSignal
from gpupipe.training.checkpoints.run_checkpoints import RESUMED
from tests.backends.double import DeviceArray, DeviceDouble, uncounted, xp

ROWS = 100
# of integers that are to wrap, where Python computes: the simulator
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


class OnDevice:
    """An estimator of scikit-learn's that takes and gives arrays of the device, as cuML's do."""

    def __init__(self, estimator: BaseEstimator) -> None:
        self._estimator = estimator

    def fit(self, X: Any, *y: Any, **weights: Any) -> OnDevice:
        assert all(isinstance(array, DeviceArray) for array in (X, *y, *weights.values()))
        given = [array._ary for array in (X, *y)]
        self._estimator.fit(*given, **{name: array._ary for name, array in weights.items()})
        return self

    def predict_proba(self, X: Any) -> Any:
        assert isinstance(X, DeviceArray)
        return DeviceArray(self._estimator.predict_proba(X._ary))

    def predict(self, X: Any) -> Any:
        assert isinstance(X, DeviceArray)
        return DeviceArray(self._estimator.predict(X._ary))

    def transform(self, X: Any) -> Any:
        assert isinstance(X, DeviceArray)
        return DeviceArray(self._estimator.transform(X._ary))

    def as_sklearn(self) -> BaseEstimator:
        return self._estimator


class WithEstimators(DeviceDouble):
    """The double of a device, on which scikit-learn's linear models train."""

    def estimator(self, name: str, params: Mapping[str, Any]) -> Any:
        return OnDevice(CpuBackend().estimator(name, params))


def left_the_device() -> list[str]:
    """Return where something came to the host uncounted, except the bounds and null checks of encoding."""
    return [line for line in uncounted if "/gpupipe/" in line and "/gpupipe/table/" not in line]


def configured(device: str, models: list[Any], **more: Any) -> Config:
    return parse_config(
        {
            "name": "churn",
            "device": device,
            "source": {
                "generate": "churn",
                "rows": ROWS,
                "target": "Churn",
                "positive": "Yes",
                "drop": ["customerID"],
                "schema": {"City": "categorical"},
            },
            "features": [
                {"impute": {"columns": ["TotalCharges", "Age"], "strategy": "median", "indicator": True}},
                {"standardize": "@numeric"},
                {"encode": ["@categorical", "!City"]},
                {"target_encode": {"columns": ["City"], "folds": 3}},
                {"cyclic": {"columns": ["signup_ts"], "parts": ["hour"]}},
            ],
            "models": models,
            "evaluate": {"metrics": ["roc_auc", "log_loss"]},
            **more,
        }
    )


def run_on(backend: Any, config: Config, folder: Path, **how: Any) -> Run:
    with patch.object(module, "choose", lambda device, options: backend):
        return run_pipeline(config, folder, **how)


@pytest.fixture(scope="module")
def on_device(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[str]]:
    """Return a whole run on the device, and where something came to the host uncounted."""
    uncounted.clear()
    config = configured("auto", ["logistic_regression"])
    return run_on(WithEstimators(), config, tmp_path_factory.mktemp("device") / "run"), left_the_device()


def test_a_whole_run_on_the_device_matches_the_host(tmp_path: Path, on_device: tuple[Run, list[str]]) -> None:
    there, left = on_device
    here = run_on(CpuBackend(), configured("auto", ["logistic_regression"]), tmp_path / "here")
    for name, value in here.metrics.items():
        assert there.metrics[name] == pytest.approx(value, abs=2e-4)
    assert stages_elsewhere(there.plan(), "gpu") == []
    stages = {stage["name"]: stage for stage in there.timeline.to_json()["stages"]}
    assert {name for name, stage in stages.items() if stage["device"] == "cpu"} == {
        "split", "export", "report",
    }  # fmt: skip
    assert stages["features"]["interpreter"] == "cuda"
    assert stages["read"]["bytes_to_device"] > 0
    n_test = ROWS // 5
    assert stages["predict logistic_regression"]["bytes_to_host"] == 0
    assert stages["evaluate"]["bytes_to_host"] < 8 * n_test  # figures, not rows
    assert stages["evaluate"]["bytes_to_device"] == 8 * n_test  # the target
    assert stages["export"]["bytes_to_host"] >= 8 * n_test
    assert stages["features"]["bytes_to_host"] < 40_000  # counts of levels and folds, medians: not the rows
    assert stages["train logistic_regression"]["bytes_to_host"] == 0
    assert left == []
    known = [json.loads((run.path / "model" / "training_summary.json").read_text()) for run in (there, here)]
    assert known[0] == known[1]


def test_its_model_predicts_on_the_host(on_device: tuple[Run, list[str]]) -> None:
    path = on_device[0].path
    predicted = pq.read_table(path / "predictions.parquet")
    rows = load_generator("churn")(ROWS, 7, None).take(predicted["row"])
    model = load_model(path, device="cpu")
    again = model.predict_proba(rows)[:, 1]
    np.testing.assert_allclose(again, predicted["probability_Yes"].to_numpy(), atol=2e-5)
    there = replace(model, backend=WithEstimators())
    np.testing.assert_allclose(there.predict_proba(rows)[:, 1], again, atol=2e-5)
    assert there.last_prediction_report == model.last_prediction_report
    assert there.last_prediction_report is not None
    assert any(column.n_unseen for column in there.last_prediction_report.columns)
    np.testing.assert_allclose(there.explain(rows).values, model.explain(rows).values, atol=2e-5)
    assert not isinstance(there.transform(rows), np.ndarray)
    np.testing.assert_allclose(there.transform(rows, as_frame=True), model.transform(rows), atol=1e-5)


# Two columns and no random draws, to save time in the simulator.
KEPT = ("tenure", "MonthlyCharges", "Churn")
SMALL: dict[str, Any] = {
    "source": {
        "generate": "churn", "rows": ROWS, "target": "Churn", "positive": "Yes",
        "drop": [name for name in load_generator("churn")(1, 7, None).column_names if name not in KEPT],
    },
    "features": [{"standardize": "@numeric"}],
    "report": {"enabled": False},
}  # fmt: skip


def test_drift_has_the_counts_of_the_host(on_device: tuple[Run, list[str]], tmp_path: Path) -> None:
    here = run_on(CpuBackend(), configured("auto", ["logistic_regression"]), tmp_path / "here").model
    there, device = load_model(on_device[0].path, "cpu"), WithEstimators()
    references = [load_reference(each) for each in (there, here)]
    for first, second in zip(*(each.columns for each in references), strict=True):
        np.testing.assert_array_equal(first.counts, second.counts)
        assert first.levels == second.levels and (first.edges is None or np.array_equal(first.edges, second.edges))
    rows = customers(50, 3)
    columns = input_columns(references[0], there)
    on_host, found = (CellCounter(columns, backend, 50).count(rows) for backend in (CpuBackend(), device))
    np.testing.assert_array_equal(found, on_host)


def test_a_model_without_a_device_version_falls_back_with_a_note(tmp_path: Path) -> None:
    models = [{"hist_gradient_boosting": {"max_iter": 3}}]
    run = run_on(WithEstimators(), configured("auto", models, **SMALL), tmp_path / "run")
    stages = {stage.name: stage for stage in run.timeline.stages}
    train = stages["train hist_gradient_boosting"]
    assert train.device == "cpu"
    assert train.bytes_to_host > 0
    assert any("hist_gradient_boosting" in note.text for note in run.timeline.all_notes("warning"))


CHOSEN = {"evaluate": {"threshold": "best_f1", "calibrate": "isotonic", "importance": False}}


@pytest.mark.parametrize("more", [CHOSEN, CHOSEN | {"split": {"cv": 2}}], ids=["held out", "folds"])
def test_thresholds_and_calibrations_are_chosen_on_the_device(more: dict[str, Any], tmp_path: Path) -> None:
    models = ["logistic_regression", {"hist_gradient_boosting": {"max_iter": 3}}]  # one is there, one is on the host
    there = run_on(WithEstimators(), configured("auto", models, **SMALL, **more), tmp_path / "there")
    here = run_on(CpuBackend(), configured("cpu", models, **SMALL, **more), tmp_path / "here")
    for mine, others in zip(there.candidates, here.candidates, strict=True):
        assert mine.label == others.label
        assert mine.metrics == pytest.approx(others.metrics, abs=2e-4)
    stages = [stage for stage in there.timeline.stages if stage.name.endswith("evaluate")]
    assert {stage.device for stage in stages} == {"gpu"}
    assert any("calibration is fitted on the host" in note.text for note in stages[0].notes)
    assert left_the_device() == []


def test_quantiles_are_learned_and_measured_on_the_device(tmp_path: Path) -> None:
    source = SMALL["source"] | {"target": "MonthlyCharges", "positive": None, "task": "quantile"}
    more: dict[str, Any] = SMALL | {"source": source, "evaluate": {"intervals": 0.8, "importance": False}}
    models = [{"hist_gradient_boosting": {"max_iter": 5}}, {"mlp": {"epochs": 2, "width": 8}}]
    there = run_on(WithEstimators(), configured("auto", models, **more), tmp_path / "there")
    here = run_on(CpuBackend(), configured("cpu", models, **more), tmp_path / "here")
    for mine, others in zip(there.candidates, here.candidates, strict=True):
        assert mine.label == others.label
        assert mine.metrics == pytest.approx(others.metrics, rel=1e-3)
    assert left_the_device() == []


@pytest.mark.parametrize("targets", [["MonthlyCharges", "tenure"], ["Churn", "Contract"]])
def test_several_targets_are_learned_and_measured_on_the_device(targets: list[str], tmp_path: Path) -> None:
    kept = {"tenure", "MonthlyCharges", "SupportCalls", *targets}
    drop = [name for name in load_generator("churn")(1, 7, None).column_names if name not in kept]
    more: dict[str, Any] = SMALL | {
        "source": SMALL["source"] | {"target": targets, "positive": None, "drop": drop},
        "evaluate": {"intervals": 0.8, "importance": {"repeats": 1}},
    }
    linear = "ridge" if "tenure" in targets else "logistic_regression"
    models = [linear, {"mlp": {"epochs": 2, "width": 8}}]
    there = run_on(WithEstimators(), configured("auto", models, **more), tmp_path / "there")
    here = run_on(CpuBackend(), configured("cpu", models, **more), tmp_path / "here")
    for mine, others in zip(there.candidates, here.candidates, strict=True):
        assert mine.label == others.label
        assert mine.metrics == pytest.approx(others.metrics, rel=1e-3, abs=2e-4)
    assert left_the_device() == []


def test_rankings_are_learned_on_the_device_and_measured_on_the_host(tmp_path: Path) -> None:
    source = SMALL["source"] | {
        "target": "SupportCalls",
        "positive": None,
        "task": "ranking",
        "schema": {"City": "categorical"},
    }
    source["drop"] = [name for name in source["drop"] if name not in ("SupportCalls", "City")]
    entry = {
        "xgboost": {"n_estimators": 20, "early_stopping_rounds": 5, "max_depth": 3},
        "tune": {"trials": 2, "folds": 2},
    }
    more: dict[str, Any] = SMALL | {"source": source, "split": {"group": "City", "test_size": 0.4}, "evaluate": {}}
    there = run_on(WithEstimators(), configured("auto", [entry], **more), tmp_path / "there")
    here = run_on(CpuBackend(), configured("cpu", [entry], **more), tmp_path / "here")
    assert there.metrics == pytest.approx(here.metrics, rel=1e-3)
    stage = next(stage for stage in there.timeline.stages if stage.name == "evaluate")
    assert (stage.device, stage.reason) == ("cpu", "NumPy computes the metrics of ranked groups")


def test_clusters_are_scored_on_the_host_and_the_reason_is_reported(tmp_path: Path) -> None:
    source = SMALL["source"] | {"target": None, "positive": None}
    config = configured("auto", ["pca"], **SMALL | {"source": source, "evaluate": {}})
    run = run_on(WithEstimators(), config, tmp_path / "run")
    stage = next(stage for stage in run.timeline.stages if stage.name == "evaluate")
    assert (stage.device, "scikit-learn computes" in stage.reason) == ("cpu", True)
    assert stages_elsewhere(run.plan(), "gpu") == []


def test_predictions_that_were_kept_join_those_of_the_device(tmp_path: Path) -> None:
    config = configured("auto", ["logistic_regression"], **SMALL, **CHOSEN, split={"cv": 2})
    whole = run_on(WithEstimators(), config, tmp_path / "whole")
    stop_signal = StopSignal()

    def watch(where: str) -> None:
        if where == "before fold 2 of 2: train logistic_regression":
            raise InterruptedError

    stop_signal.watch(watch)
    with pytest.raises(InterruptedError):
        run_on(WithEstimators(), config, tmp_path / "run", stop_signal=stop_signal)
    run = run_on(WithEstimators(), config, tmp_path / "run", resume=True)
    taken_up = next(stage for stage in run.timeline.stages if stage.name == "fold 1 of 2: train logistic_regression")
    assert (RESUMED in [note.text for note in taken_up.notes], taken_up.bytes_to_device) == (True, 8 * ROWS // 2)
    assert run.metrics == whole.metrics


@pytest.mark.parametrize("is_file", [False, True])
def test_a_frame_or_csv_is_encoded_on_the_host_under_a_forbidden_fallback(tmp_path: Path, is_file: bool) -> None:
    frame = load_generator("churn")(ROWS, 7, list(KEPT)).to_pandas()
    source = {"frame": frame, "target": "Churn", "positive": "Yes"}
    if is_file:
        frame.to_csv(tmp_path / "churn.csv", index=False)
        source = source | {"frame": None, "path": str(tmp_path / "churn.csv")}
    backend = WithEstimators(DeviceOptions(fallback="forbid"))
    config = configured("gpu", ["logistic_regression"], **SMALL | {"source": source})
    run = run_on(backend, config, tmp_path / "run")
    generated = configured("gpu", ["logistic_regression"], **SMALL)
    expected = run_on(WithEstimators(), generated, tmp_path / "expected")
    assert run.metrics == pytest.approx(expected.metrics, abs=1e-6)
    read = run.plan()[0]
    assert (read["name"], read["device"], read["reason"]) == ("read", "cpu", READ_ON_HOST)
    assert read["bytes_to_device"] > 0


class WithoutLog:
    """The array namespace of a device that has no room for a logarithm."""

    def __getattr__(self, name: str) -> Any:
        if name == "log":
            raise MemoryError("std::bad_alloc: out_of_memory: CUDA error")
        return getattr(xp, name)


class Full(WithEstimators):
    """A device that has no room to measure the logarithmic loss."""

    @property
    def xp(self) -> Any:
        return WithoutLog()


@pytest.mark.parametrize("fallback", ["allow", "forbid"])
def test_metrics_that_the_device_has_no_room_for_are_the_host_s_or_refused(
    fallback: Literal["allow", "forbid"], tmp_path: Path
) -> None:
    backend, config = Full(DeviceOptions(fallback=fallback)), configured("auto", ["logistic_regression"], **SMALL)
    if fallback == "forbid":
        with pytest.raises(DeviceError, match="out of device memory while sorting"):
            run_on(backend, config, tmp_path / "run")
        return
    run = run_on(backend, config, tmp_path / "run")
    stage = next(stage for stage in run.timeline.stages if stage.name == "evaluate")
    assert (stage.device, "out of device memory" in stage.reason, stage.bytes_to_host > 16 * ROWS // 5) == (
        "cpu",
        True,
        True,
    )
    expected = run_on(WithEstimators(), config, tmp_path / "expected")
    assert run.metrics == expected.metrics


def test_where_fallback_is_forbidden_nothing_is_left(tmp_path: Path) -> None:
    config = configured("gpu", [{"hist_gradient_boosting": {"max_iter": 3}}], **SMALL)
    backend = WithEstimators(DeviceOptions(fallback=config.device_options.fallback))
    with pytest.raises(DeviceError, match="forbidden") as error:
        run_on(backend, config, tmp_path / "run")
    assert "hist_gradient_boosting" in error.value.where
    assert not (tmp_path / "run").exists()


def test_rules_are_checked_where_the_columns_are() -> None:
    columns = pa.table(
        {
            "x": [1.5, None, 200.0, 1.5], "n": [1, 2, 3, 300], "c": ["a", "b", None, "z"],
            "b": [True, None, False, True],
            "t": pa.array([0, None, 10**15, 10**15], pa.timestamp("us")), "s": ["a@b", "x", None, "x"],
        }
    )  # fmt: skip
    rules = {
        "x": [ColumnRules(range=(0, 100), nulls=False, unique=True), ColumnRules(dtype="bool")],
        "n": [ColumnRules(dtype="uint8", set=(1, 2, 300), unique=True)],
        "c": [ColumnRules(set=("a", "b"), nulls=False), ColumnRules(dtype="float")],
        "b": [ColumnRules(set=(True,), nulls=False)],
        "t": [ColumnRules(range=("1971-01-01", None), nulls=False, unique=True)],
        "s": [ColumnRules(regex=".+@.+", unique=True)],
    }
    host, device = CpuBackend(), DeviceDouble()
    table = encode(columns, host, {"s": declare("text")})
    expected = find_violations(table, rules, host)
    uncounted.clear()
    assert find_violations(move_table(table, device), rules, device) == expected
    assert (len(expected), uncounted) == (16, [])


def test_histories_of_tables_read_by_the_host_are_computed_on_the_device(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    visits = pa.table({"who": rng.integers(0, 9, 60), "at": pa.array(rng.integers(0, 10**12, 60), pa.timestamp("us"))})
    paid = rng.normal(20, 5, 60)
    visits = visits.append_column("paid", pa.array(paid)).append_column("left", pa.array(np.where(paid > 20, "y", "n")))
    pq.write_table(visits, tmp_path / "visits.parquet")
    (tmp_path / "hook.py").write_text("def as_it_is(frame):\n    return frame\n")
    source = {"path": str(tmp_path / "visits.parquet"), "target": "left", "positive": "y", "cache": False}
    own = {"key": "who", "time": "at", "columns": "paid"}
    settings = {
        "source": source | {"prepare": f"{tmp_path / 'hook.py'}:as_it_is"},
        "features": [{"lag": own}, {"rolling": own | {"windows": 3}}, {"standardize": "@numeric"}],
        "models": ["logistic_regression"],
        "evaluate": {"metrics": ["roc_auc"], "importance": False},
        "report": {"enabled": False},
    }
    uncounted.clear()
    there = run_on(WithEstimators(), parse_config(settings), tmp_path / "there")
    here = run_on(CpuBackend(), parse_config(settings), tmp_path / "here")
    assert there.metrics["roc_auc"] == pytest.approx(here.metrics["roc_auc"], abs=2e-4)
    stages = {stage["name"]: stage for stage in there.timeline.to_json()["stages"]}
    assert [note.partition(" (")[0] for note in stages["read"]["notes"] if note.startswith("on the CPU")] == [
        "on the CPU: a prepare hook needs a pandas.DataFrame"
    ]
    derived = stages["derive"]
    assert (derived["device"], derived["interpreter"], derived["bytes_to_host"]) == ("gpu", "cuda", 0)
    assert derived["bytes_to_device"] < 8 * 60  # the codes of the keys
    assert left_the_device() == []


def test_histories_of_rows_built_from_events_are_computed_on_the_device(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    at = pa.array(rng.integers(0, 10**13, 120), pa.timestamp("us"))  # 115 days
    pq.write_table(pa.table({"who": rng.integers(0, 25, 120), "at": at, "n": np.arange(120)}), tmp_path / "v.parquet")
    visits = {"path": str(tmp_path / "v.parquet"), "on": "who", "time": "at", "cardinality": "one_to_many"}
    entities = {"table": "visits", "as_of": ["1970-02-20", "1970-03-20"], "label": {"any": "visits", "within": "20d"}}
    settings = {
        "source": {"entities": entities, "target": "back"},
        "tables": {"visits": visits | {"compute": {"odd": "n * 3"}}},
        "features": [{"rfm": {"table": "visits", "amount": "odd"}}, {"standardize": "@numeric"}],
        "models": ["logistic_regression"],
        "evaluate": {"metrics": ["roc_auc"], "importance": False},
        "split": {"group": "who"},
        "report": {"enabled": False},
    }
    uncounted.clear()
    there = run_on(WithEstimators(), parse_config(settings), tmp_path / "there")
    here = run_on(CpuBackend(), parse_config(settings), tmp_path / "here")
    assert there.metrics["roc_auc"] == pytest.approx(here.metrics["roc_auc"], abs=2e-4)
    stages = {stage["name"]: stage for stage in there.timeline.to_json()["stages"]}
    assert [note.partition(" (")[0] for note in stages["read"]["notes"] if note.startswith("on the CPU")] == [
        "on the CPU: building rows and labels from events is not supported on the GPU"
    ]
    assert (stages["derive"]["device"], stages["derive"]["bytes_to_host"]) == ("gpu", 0)
    assert left_the_device() == []
