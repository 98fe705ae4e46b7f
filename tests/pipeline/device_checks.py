"""Whole runs on the double of a device: `test_on_device.py` starts them where kernels are simulated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import BaseEstimator

from gpupipe.backends import DeviceOptions
from gpupipe.backends.cpu import CpuBackend
from gpupipe.bench.device.parity import strayed
from gpupipe.config import Config, parse_config
from gpupipe.errors import DeviceError
from gpupipe.pipeline import run as module
from gpupipe.pipeline.model import load_model
from gpupipe.pipeline.run import run_pipeline
from gpupipe.readers.formats import load_generator
from gpupipe.rules import ColumnRules
from gpupipe.rules.judge import judge
from gpupipe.table.arrange import on_device
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare
from tests.backends.double import DeviceArray, DeviceDouble, uncounted

ROWS = 160


class OnDevice:
    """An estimator of scikit-learn's that takes and gives arrays of the device, as cuML's do."""

    def __init__(self, estimator: BaseEstimator) -> None:
        self._estimator = estimator

    def fit(self, X: Any, y: Any, **weights: Any) -> OnDevice:
        assert all(isinstance(array, DeviceArray) for array in (X, y, *weights.values()))
        self._estimator.fit(X._ary, y._ary, **{name: array._ary for name, array in weights.items()})
        return self

    def predict_proba(self, X: Any) -> Any:
        assert isinstance(X, DeviceArray)
        return DeviceArray(self._estimator.predict_proba(X._ary))

    def predict(self, X: Any) -> Any:
        assert isinstance(X, DeviceArray)
        return DeviceArray(self._estimator.predict(X._ary))

    def as_sklearn(self) -> BaseEstimator:
        return self._estimator


class WithEstimators(DeviceDouble):
    """The double of a device, on which scikit-learn's linear models train."""

    def estimator(self, name: str, params: Mapping[str, Any]) -> Any:
        return OnDevice(CpuBackend().estimator(name, params))


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


def run_on(backend: Any, config: Config, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "choose", lambda device, options: backend)
    return run_pipeline(config, folder)


def test_a_whole_run_on_the_device_is_that_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configured("auto", ["logistic_regression"])
    there = run_on(WithEstimators(), config, tmp_path / "there", monkeypatch)
    here = run_on(CpuBackend(), config, tmp_path / "here", monkeypatch)
    for name, value in here.metrics.items():
        assert there.metrics[name] == pytest.approx(value, abs=2e-4)
    assert strayed(there.plan(), "gpu") == []
    stages = {stage["name"]: stage for stage in there.timeline.to_json()["stages"]}
    assert {name for name, stage in stages.items() if stage["device"] == "cpu"} == {
        "split", "evaluate", "export", "report",
    }  # fmt: skip
    assert stages["features"]["interpreter"] == "cuda"
    assert stages["read"]["bytes_to_device"] > 0
    assert 0 < stages["predict logistic_regression"]["bytes_to_host"] < 100 * ROWS
    assert stages["features"]["bytes_to_host"] < 40_000  # counts of levels and folds, medians: not the rows
    assert stages["train logistic_regression"]["bytes_to_host"] == 0
    assert [line for line in uncounted if "/gpupipe/" in line] == []


def test_what_it_leaves_predicts_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_on(WithEstimators(), configured("auto", ["logistic_regression"]), tmp_path / "run", monkeypatch)
    predicted = pq.read_table(tmp_path / "run" / "predictions.parquet")
    rows = load_generator("churn")(ROWS, 7, None).take(predicted["row"])
    again = load_model(tmp_path / "run", device="cpu").predict_proba(rows)[:, 1]
    np.testing.assert_allclose(again, predicted["probability_Yes"].to_numpy(), atol=2e-5)


def test_a_model_that_the_device_lacks_falls_back_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [{"hist_gradient_boosting": {"max_iter": 3}}]
    run = run_on(WithEstimators(), configured("auto", models), tmp_path / "run", monkeypatch)
    stages = {stage.name: stage for stage in run.timeline.stages}
    train = stages["train hist_gradient_boosting"]
    assert train.device == "cpu"
    assert train.bytes_to_host > 0
    assert any("hist_gradient_boosting" in note.text for note in run.timeline.all_notes("warning"))


def test_where_fallback_is_forbidden_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configured("gpu", [{"hist_gradient_boosting": {"max_iter": 3}}])
    backend = WithEstimators(DeviceOptions(fallback=config.device_options.fallback))
    with pytest.raises(DeviceError, match="forbidden") as error:
        run_on(backend, config, tmp_path / "run", monkeypatch)
    assert "hist_gradient_boosting" in error.value.where
    assert not (tmp_path / "run").exists()


def test_rules_are_judged_where_the_columns_are() -> None:
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
    expected = judge(table, rules, host)
    uncounted.clear()
    assert judge(on_device(table, device), rules, device) == expected
    assert (len(expected), uncounted) == (16, [])
