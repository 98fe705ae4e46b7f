"""Parity between a simulated device and the host, run by `test_parity` in Numba's simulator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpupipe.backends import choose
from gpupipe.backends.gpu.translation import EstimatorRefusal
from gpupipe.config import load_config
from gpupipe.datasets.churn import customers
from gpupipe.inference.model import load_model
from gpupipe.model_parts.decision import Decision
from gpupipe.models.device.fitted import DeviceNeighbors, HostModel
from gpupipe.pipeline.records import trial_rows as parity_rows
from gpupipe.pipeline.records.export import export_model
from gpupipe.pipeline.records.trial_rows import make_trial_rows
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import TrainedModel, train
from gpupipe.training.preparation.preparation import open_job
from tests.backends.double import DeviceArray, DeviceDouble, uncounted

# the simulator computes in Python, which warns about arithmetic with infinities
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
CONFIG = """\
source: {generate: churn, rows: 150, target: Churn, positive: "Yes", schema: {City: categorical},
  columns: [TotalCharges, Contract, City, signup_ts, Churn]}
features:
  - impute: {columns: TotalCharges, indicator: true}
  - log1p: TotalCharges
  - standardize: TotalCharges
  - target_encode: City
  - cyclic: {columns: signup_ts, parts: [month]}
models: [logistic_regression]
"""


def test_a_record_of_a_device_is_replayed_on_host_and_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity_rows, "RUN_ROWS", 20)  # every thread of the simulator is a Python thread
    monkeypatch.setattr(parity_rows, "LEVELS", 4)
    (tmp_path / "config.yaml").write_text(CONFIG)
    config = load_config(tmp_path / "config.yaml")
    host, device = choose("cpu"), DeviceDouble()
    on_host = open_job(config, host, Timeline())
    on_device = open_job(config, device, Timeline())
    uncounted.clear()  # encoding queries whether a column has nulls, and its bounds
    everything = np.ones(on_host.table.n_rows, bool)
    trained = train(config.models[0], on_host.rows(everything), on_host.goal, config, host)
    refusal = EstimatorRefusal("it is a double", "none")
    model = HostModel(trained.model, "binary", trained.model.feature_names, 2, (0, 1), backend=device, refusal=refusal)
    there = TrainedModel(trained.entry, trained.features, model)
    trial = make_trial_rows(on_device, there.features)
    export_model(tmp_path / "model", there, on_device, Decision(), {}, trial)

    parity = json.loads((tmp_path / "model" / "parity.json").read_text())
    assert parity["trained_on"]["device"] == "gpu" and parity["trained_on"]["interpreter"] == "cuda"
    assert parity["replayed"]["device"] == "cpu" and parity["replayed"]["passed"]
    again = replace(load_model(tmp_path / "model", "cpu"), backend=device).verify()
    assert again.passed and (again.device, again.interpreter) == ("gpu", "cuda")
    assert not uncounted  # all transfers to the host went through the backend
    rows = customers(5, 1).to_pandas()
    served = replace(load_model(tmp_path / "model", "cpu"), backend=device).predict_proba(rows)
    np.testing.assert_allclose(served, load_model(tmp_path / "model", "cpu").predict_proba(rows), rtol=1e-5)


class Float32Neighbors:
    """Nearest neighbours of a scikit-learn estimator, weighted by distances as in cuML."""

    def __init__(self, twin: Any) -> None:
        self._twin = twin

    def as_sklearn(self) -> Any:
        return self._twin

    def predict_proba(self, X: Any) -> Any:
        x, a, y = X._ary, np.asarray(self._twin._fit_X, np.float32), self._twin._y
        squares = (x * x).sum(axis=1, keepdims=True) + (a * a).sum(axis=1) - 2 * (x @ a.T)
        distance = np.sqrt(np.maximum(squares, 1e-7))  # the distance of a row to itself is not exactly 0
        found = np.argsort(distance, axis=1, kind="stable")[:, : self._twin.n_neighbors]
        weights = 1 / np.take_along_axis(distance, found, axis=1)
        positive = (weights * y[found]).sum(axis=1) / weights.sum(axis=1)
        return DeviceArray(np.column_stack([1 - positive, positive]))


NEIGHBORS = """\
source: {generate: churn, rows: 150, target: Churn, positive: "Yes", columns: [tenure, MonthlyCharges, Churn]}
features: [{standardize: "@numeric"}]
models: [{knn: {weights: distance}}]
"""


def test_neighbours_of_a_device_are_recorded_without_predictions_that_depend_on_rounding(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(NEIGHBORS)
    config = load_config(tmp_path / "config.yaml")
    host, device = choose("cpu"), DeviceDouble()
    on_host = open_job(config, host, Timeline())
    trained = train(config.models[0], on_host.rows(np.ones(on_host.table.n_rows, bool)), on_host.goal, config, host)
    model = DeviceNeighbors(
        Float32Neighbors(trained.model.estimator), "binary", trained.model.feature_names, 2, (0, 1),
        backend=device, name="KNeighborsClassifier",
    )  # fmt: skip
    there = TrainedModel(trained.entry, trained.features, model)
    on_device = open_job(config, device, Timeline())
    trial = make_trial_rows(on_device, there.features)
    export_model(tmp_path / "model", there, on_device, Decision(), {}, trial)
    parity = json.loads((tmp_path / "model" / "parity.json").read_text())
    (note,) = [note for note in parity["not_covered"] if "float32 rounding" in note]
    assert int(note.split()[2]) > 100  # the rows of the run are their own nearest neighbours
    assert load_model(tmp_path / "model", "cpu").verify().passed
