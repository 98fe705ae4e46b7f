"""Parity between the double of a device and the host: run by `test_parity`, in Numba's simulator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpupipe.backends import choose
from gpupipe.backends.gpu_translation import Refusal
from gpupipe.config import load_config
from gpupipe.models.fitted_device import HostModel
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.export import export_model
from gpupipe.pipeline.model import load_model
from gpupipe.pipeline.parity import rows as parity_rows
from gpupipe.pipeline.parity.rows import trial_rows
from gpupipe.pipeline.preparation import prepare
from gpupipe.pipeline.timeline import Timeline
from gpupipe.pipeline.training import Trained, train
from gpupipe.readers.churn import customers
from tests.backends.double import DeviceDouble, uncounted

# of arithmetic on infinities, where Python computes: the simulator
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


def test_what_a_device_has_recorded_the_host_and_the_device_itself_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parity_rows, "RUN_ROWS", 20)  # a thread of the simulator is one of Python's
    monkeypatch.setattr(parity_rows, "LEVELS", 4)
    (tmp_path / "config.yaml").write_text(CONFIG)
    config = load_config(tmp_path / "config.yaml")
    host, device = choose("cpu"), DeviceDouble()
    on_host = prepare(config, host, Timeline())
    on_device = prepare(config, device, Timeline())
    uncounted.clear()  # whether a column has nulls, and its bounds: that is asked of it while it is encoded
    everything = np.ones(on_host.table.n_rows, bool)
    trained = train(config.models[0], on_host.rows(everything), on_host.goal, config, host)
    refusal = Refusal("it is a double", "none")
    model = HostModel(trained.model, "binary", trained.model.feature_names, 2, (0, 1), backend=device, refusal=refusal)
    there = Trained(trained.entry, trained.features, model)
    trial = trial_rows(on_device, there.features)
    export_model(tmp_path / "model", there, on_host.goal, Decision(), config, {}, trial, device)

    said = json.loads((tmp_path / "model" / "parity.json").read_text())
    assert said["trained_on"]["device"] == "gpu" and said["trained_on"]["interpreter"] == "cuda"
    assert said["replayed"]["device"] == "cpu" and said["replayed"]["passed"]
    again = replace(load_model(tmp_path / "model", "cpu"), backend=device).verify()
    assert again.passed and (again.device, again.interpreter) == ("gpu", "cuda")
    assert not uncounted  # nothing has come to the host but by the backend
    rows = customers(5, 1).to_pandas()
    served = replace(load_model(tmp_path / "model", "cpu"), backend=device).predict_proba(rows)
    np.testing.assert_allclose(served, load_model(tmp_path / "model", "cpu").predict_proba(rows), rtol=1e-5)
