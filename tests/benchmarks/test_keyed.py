"""Keyed features compared with pandas and polars: equal results, and a table of time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.keyed.__main__ import main, text_of
from benchmarks.keyed.event_log import read, write

EVENTS = 20_000


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.data
def test_all_implementations_make_the_same_columns(data_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("polars", reason="polars, a peer, is not installed")
    file = tmp_path / "figures.json"
    command = ["--events", str(EVENTS), "--turns", "1", "--repeat", "1", "--json", str(file)]
    done = run_python("-m", "benchmarks.keyed", *command)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(file.read_text())
    assert figures["unequal"] == []
    assert {name: len(columns) for name, columns in figures["largest_errors"].items()} == {
        "pandas": 19,
        "pandas, as documented": 9,
        "polars": 19,
    }
    assert set(figures["seconds"]["polars"]) == {"ordering", "running", "windows", "joined back", "total"}
    assert "all columns equal" in done.stdout


@pytest.mark.data
def test_copies_of_the_log_have_distinct_customers(data_dir: Path, tmp_path: Path) -> None:
    shop = 541_909
    write(data_dir, 2 * shop, tmp_path)
    events = read(tmp_path)
    assert (np.diff(events.time) >= 0).all()
    first, second = (events.key[events.key // 4372 == copy] % 4372 for copy in range(2))
    np.testing.assert_array_equal(np.bincount(first), np.bincount(second))
    assert events.n_keys == 2 * 4372
    assert (events.key == -1).sum() == 2 * 135_080


def test_a_column_that_is_not_equal_is_named() -> None:
    figures = {
        "events": 2, "load": 0.0, "seconds": {"gpupipe": {"total": 1.0}, "polars": {"total": 2.5}},
        "ratios": {"gpupipe": {"total": 1.0}, "polars": {"total": 2.5}}, "unequal": ["polars: running, std (1.0e-02)"],
    }  # fmt: skip
    said = text_of(figures)
    assert "2.500    2.5 x" in said
    assert said.endswith("not equal: polars: running, std (1.0e-02)")


def test_missing_tables_are_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("GPUPIPE_DATA", raising=False)
    assert main([]) == 2
    assert "GPUPIPE_DATA is not set" in capsys.readouterr().err
