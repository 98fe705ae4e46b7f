"""Test of the program that compares estimates without labels with the true metrics, on a small table."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import late_labels


def _load(folder: Path) -> pd.DataFrame:
    random = np.random.default_rng(0)
    x = random.normal(size=12_000)
    return pd.DataFrame({"x": x, "y": (random.random(12_000) < 1 / (1 + np.exp(1 - 2 * x))).astype(int)})


def test_each_scenario_has_its_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(late_labels, "TABLES", (late_labels.LateTable("small", 1_000, _load, lambda f: f["x"]),))
    monkeypatch.setenv("GPUPIPE_DATA", str(tmp_path))
    scenarios = ["labelled", "gradual"]
    options = {"--folder": tmp_path / "out", "--seeds": 1, "--size": 200, "--tables": "small"}
    late_labels.main([*map(str, chain.from_iterable(options.items())), "--scenarios", *scenarios])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(scenarios) * len(late_labels.METRICS)
    records = pd.read_json(tmp_path / "out" / "records.json")
    assert records.groupby("scenario").size().tolist() == [3 * len(late_labels.METRICS)] * 2
    rows = pd.read_parquet(tmp_path / "out" / "small_labelled_0.parquet").groupby("seen")["p"].mean()
    assert rows.iloc[-1] > rows.iloc[0] + 0.05
