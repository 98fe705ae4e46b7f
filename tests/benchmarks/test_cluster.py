"""Benchmark of several processes on one machine: equal features, a memory limit, and runs with a killed worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.cluster.__main__ import text_of, unequal
from benchmarks.cluster.child import ALONE, DASK, SHARED
from benchmarks.cluster.workload import N_FEATURES, OF_BUCKETS, document, summary

pytest.importorskip("distributed", reason="Dask is not installed: it comes with the extra 'cluster'")

MACHINE = {"machine": {"load_average": [0.5, 0, 0]}, "rows": 1000, "workers": 2}


def bench(tmp_path: Path, *options: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "benchmarks.cluster", *options, "--json", str(tmp_path / "figures.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done, json.loads((tmp_path / "figures.json").read_text())


@pytest.mark.nightly
def test_all_implementations_make_the_same_features(tmp_path: Path) -> None:
    done, figures = bench(tmp_path, "--rows", "3000", "--turns", "1")
    assert set(figures["implementations"]) == {SHARED, ALONE, DASK} and figures["unequal"] == []
    assert set(figures["ours_of"]) == {ALONE, DASK}
    names = [figures["samples"][name][0]["names"] for name in (ALONE, SHARED, DASK)]
    assert names[0] == names[1] and [len(own) for own in names] == [N_FEATURES] * 3
    assert {figures["samples"][name][0]["rows"] for name in (ALONE, SHARED)} == {2400}
    assert "equal: gpupipe bit for bit" in done.stdout


def test_peak_worker_memory_under_a_limit_is_reported(tmp_path: Path) -> None:
    done, figures = bench(tmp_path, "--rows", "3000", "--memory", "1GiB", "--format", "parquet")
    uses = figures["limited"]["workers"]
    assert len(uses) == 2 and figures["limited"]["lost"] == 0
    assert all(10 << 20 < use["peak_bytes"] < 1 << 30 for use in uses)
    assert "2,400 training rows, 0 workers lost" in done.stdout


@pytest.mark.nightly
def test_a_run_with_a_killed_worker_succeeds_or_ends_with_an_error(tmp_path: Path) -> None:
    _, figures = bench(tmp_path, "--rows", "3000", "--kills", "1", "--seed", "3")
    (ended,) = figures["kills"]["ended"]
    assert ended["outcome"] in ("right", "refused") and ended["left"] == 0
    assert sum(figures["kills"]["counts"].values()) == 1


def test_a_summary_can_be_added_up_and_is_another_one_for_every_bit() -> None:
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(50, 3)).astype("float32"))
    whole = document([summary(X, 0)])
    assert document([summary(X[:20], 0), summary(X[20:], 20)])["marks"] == whole["marks"]
    assert whole["means"] == pytest.approx(X.mean(axis=0, dtype="float64"))
    swapped, changed = X[::-1], X.copy()
    changed[7, 1] = np.nextafter(changed[7, 1], np.float32(9))
    assert all(a != b for a, b in zip(document([summary(swapped, 0)])["marks"], whole["marks"], strict=True))
    marks = document([summary(changed, 0)])["marks"]
    assert [a == b for a, b in zip(marks, whole["marks"], strict=True)] == [True, False, True]


def test_features_that_are_not_equal_are_named() -> None:
    ours: dict[str, Any] = {"rows": 100_000, "names": [f"f{j}" for j in range(N_FEATURES)], "marks": ["0"] * N_FEATURES}
    ours["means"] = [0.25] * N_FEATURES
    peer = {"means": [0.25] * N_FEATURES}
    assert unequal(ours, ours, peer) == []
    other = {**ours, "marks": ["0", "1", *ours["marks"][2:]]}
    assert unequal(other, ours, peer) == ["f1: bits differ on workers"]
    peer["means"][0] = peer["means"][OF_BUCKETS[0]] = 0.5
    assert unequal(ours, ours, peer) == ["f0: mean 0.5000 in dask.dataframe, 0.2500 in gpupipe"]
    assert unequal({**ours, "rows": 9}, ours, peer) == ["the shapes of the matrices differ"]


def test_the_table_shows_ratios_to_gpupipe() -> None:
    seconds = {SHARED: {"total": 3.0}, ALONE: {"total": 2.5}, DASK: {"total": 6.0}}
    said = text_of({**MACHINE, "implementations": seconds, "ours_of": {ALONE: 1.2, DASK: 0.5}, "unequal": ["x"]})
    assert said.splitlines()[0] == "1,000 rows, 2 workers, load 0.5"
    assert said.splitlines()[3].split() == ["gpupipe,", "one", "process", "2.50", "1.20", "x"]
    assert said.endswith("not equal: x")


def test_the_table_of_kills_shows_the_error_of_a_refused_run() -> None:
    ended = {"moment": 1.5, "stage": "read", "seconds": 4.0, "killed": True, "left": 0}
    runs = [{**ended, "outcome": "right", "said": ""}, {**ended, "outcome": "refused", "said": "Cluster error: gone"}]
    counts = {"right": 1, "refused": 1, "wrong": 0, "hung": 0}
    kills = {"undisturbed_seconds": 3.0, "seed": 0, "runs": 2, "left_behind": 0, "counts": counts, "ended": runs}
    lines = text_of({**MACHINE, "kills": kills}).splitlines()
    assert lines[3].split() == ["1", "1.5", "s", "read", "right", "4.0"]
    assert lines[5].strip() == "Cluster error: gone"
    assert lines[-1] == "2 runs: 1 right, 1 refused, 0 wrong, 0 hung; 0 leftover processes"
