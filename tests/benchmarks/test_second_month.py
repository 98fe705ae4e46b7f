"""Test of the monthly replay, on a small table whose rule changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import second_month


def _load(_data: Path, _tables: Path) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x, month = rng.normal(size=1_500), np.arange(1_500) // 300
    when = pd.to_datetime({"year": 2026, "month": month + 1, "day": rng.integers(1, 29, 1_500)})
    return pd.DataFrame({"x": x, "when": when.to_numpy(), "y": x * (1 - month / 2) + rng.normal(0, 0.1, 1_500)})


def test_each_way_has_its_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(second_month, "TABLES", (second_month.ReplayTable("small", "y", 2, _load),))
    monkeypatch.setenv("GPUPIPE_DATA", str(tmp_path))
    second_month.main(["--folder", str(tmp_path / "out"), "--models", "linear"])
    table, model, periods, never, continued, again, *_ = (
        capsys.readouterr().out.splitlines()[-1].strip("| ").split(" | ")
    )
    assert (table, model, periods) == ("small", "ridge", "2")
    assert float(never) < float(again) - 0.1
    assert float(continued) == pytest.approx(float(again), abs=0.05)
