"""``gpupipe bench``, through real processes on tiny tables."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import pytest

Gpupipe = Callable[..., subprocess.CompletedProcess[str]]

# Three runs that claim 2, 3 and 1 seconds per stage.
PEER = """
import argparse, json, pathlib
ap = argparse.ArgumentParser()
for name in ("data", "model", "json"):
    ap.add_argument("--" + name, required=True)
ap.add_argument("--serve", action="store_true")
a = ap.parse_args()
log = pathlib.Path(__file__).with_suffix(".log")
with log.open("a") as lines:
    lines.write(" ".join([a.model, pathlib.Path(a.data).name, "serve" * a.serve]).strip() + "\\n")
unit = {1: 2.0, 2: 3.0, 3: 1.0}.get(len(log.read_text().splitlines()), 2.0)
names = ["imports", "read", "split", "features_fit", "features_transform_train", "features_transform_test"]
stages = {name: unit for name in [*names, *(["train"] if a.model != "none" else [])]}
stages |= {"serve_transform_all": 7.0} if a.serve else {}
total = sum(v for k, v in stages.items() if k not in ("imports", "serve_transform_all"))
pathlib.Path(a.json).write_text(json.dumps({"stages_s": stages, "stages_cpu_s": stages, "total_s": total,
    "features_total_s": 3 * unit, "peak_rss_mib": 4096, "auc": 0.75}))
"""
ROWS = ["imports", "read", "split", "features fit", "features transform", "features total", "train", "evaluate", "save",
        "total", "total without train", "whole process"]  # fmt: skip


@pytest.fixture
def peer(tmp_path: Path) -> Path:
    path = tmp_path / "peer_fake.py"
    path.write_text(PEER)
    return path


@pytest.fixture
def generated(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "source: {generate: churn, rows: 2000, target: Churn, positive: 'Yes', drop: [customerID]}\n"
        "features: [{impute: '@numeric'}, {standardize: '@numeric'}, {encode: ['@categorical', '!City']}]\n"
        "models: [logistic_regression]\n"
    )
    return path


def row(text: str, label: str) -> list[str]:
    lines = ([cell.strip() for cell in line.split("|")] for line in text.splitlines())
    return next(cells[1:] for cells in lines if cells[0] == label)


@pytest.mark.nightly
def test_ours_and_a_peer_run_in_turn_and_medians_are_compared(gpupipe: Gpupipe, generated: Path, peer: Path) -> None:
    out = generated.with_name("out.json")
    done = gpupipe("bench", generated, "--repeat", 3, "--peer", peer, "--json", out)
    assert done.returncode == 0, done.stderr
    turns = [line for line in done.stderr.splitlines() if line.startswith("turn") and "serving" not in line]
    assert turns == [f"turn {i} of 3: {name}" for i in (1, 2, 3) for name in ("gpupipe", "peer_fake")]
    assert peer.with_suffix(".log").read_text().splitlines() == ["lr churn_2000.parquet"] * 3

    document = json.loads(out.read_text())
    (table,) = document["tables"]
    ours, theirs = table["runners"]["gpupipe"], table["runners"]["peer_fake"]
    check_medians(ours)
    assert (theirs["seconds"]["read"], theirs["seconds"]["features transform"]) == (2.0, 4.0)
    assert (theirs["seconds"]["total"], theirs["seconds"]["total without train"]) == (12.0, 10.0)
    for label in ("read", "features total", "train", "total", "whole process"):
        assert theirs["ratio"][label] == pytest.approx(theirs["seconds"][label] / ours["seconds"][label])

    assert [label for label in ROWS if row(done.stdout, label)] == ROWS
    assert row(done.stdout, "read")[1] == "2.000 (2.000)"
    assert row(done.stdout, "read")[2] == f"{theirs['ratio']['read']:.2f}x"
    assert row(done.stdout, "roc_auc")[1] == "0.75000"
    assert float(row(done.stdout, "roc_auc")[0]) > 0.6
    assert "GPU: not measured" in done.stdout
    assert document["device"]["gpu"].startswith("not measured: ")
    assert document["machine"]["libraries"]["scikit-learn"]


def check_medians(runner: dict[str, Any]) -> None:
    """Compare the medians with the runs in the document, and the stages of each run with its total."""
    runs = runner["runs"]
    assert len(runs) == 3
    assert runner["seconds"]["train"] == median(run["stages_s"]["train"] for run in runs)
    assert runner["seconds"]["total"] == median(run["total_s"] for run in runs)
    assert runner["peak_rss_mib"] == median(run["peak_rss_mib"] for run in runs)
    for run in runs:
        counted = [seconds for name, seconds in run["stages_s"].items() if name != "imports"]
        assert run["total_s"] == pytest.approx(sum(counted))
        assert run["total_s"] + run["stages_s"]["imports"] < run["process_s"]


def test_it_needs_no_peer_and_measures_regression_from_csv(gpupipe: Gpupipe, tmp_path: Path) -> None:
    values = [float(i % 17) for i in range(400)]
    pd.DataFrame({"a": values, "b": values[::-1], "bill": [v * 2 + i % 3 for i, v in enumerate(values)]}).to_csv(
        tmp_path / "t.csv", index=False
    )
    config = tmp_path / "t.yaml"
    config.write_text("source: {path: t.csv, target: bill}\nmodels: [ridge]\n")
    done = gpupipe("bench", config, "--repeat", 1, "--quiet", "--device", "cpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(row(done.stdout, "total")) == 1
    assert float(row(done.stdout, "r2")[0]) > 0.9
    assert "device: cpu (asked for)" in done.stdout
    assert row(done.stdout, "read (encoded cache): later runs, map and one pass")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.yaml"]


@pytest.mark.nightly
def test_warm_runs_and_sizes(gpupipe: Gpupipe, generated: Path, peer: Path) -> None:
    out = generated.with_name("out.json")
    done = gpupipe(
        "bench", generated, "--repeat", 1, "--steady", "--rows", "2000,1_000", "--peer", peer, "--serve",
        "--json", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(out.read_text())
    assert [table["rows"] for table in document["tables"]] == [1000, 2000]
    for table in document["tables"]:
        assert list(table["runners"]) == ["gpupipe, steady", "gpupipe", "peer_fake"]
        assert set(table["runners"]["gpupipe, steady"]["ratio"].values()) == {1.0, None}
        assert table["runners"]["gpupipe, steady"]["seconds"]["whole process"] is None
        assert table["extras"]["peers"]["peer_fake"]["seconds"] == 7.0
    log = peer.with_suffix(".log").read_text().splitlines()
    assert log == [
        f"{what}" for n in (1000, 2000) for what in (f"lr churn_{n}.parquet", f"none churn_{n}.parquet serve")
    ]
    assert set(document["break_even_rows"]) == {"peer_fake"}
    assert row(done.stdout, "rows")[0] == "gpupipe"
    assert row(done.stdout, "2,000")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--peer", "missing.py"], 2, "there is no script missing.py"),
        (["--rows", "many"], 2, "expected positive whole numbers"),
        (["--rows", "0"], 2, "expected positive whole numbers"),
        (["--model", "xgbost"], 2, "did you mean 'xgboost'"),
        (["--json", "no/such/folder/out.json"], 2, "no such folder"),
        (["--repeat", "0"], 2, "--repeat"),
        (["--data", "no.csv"], 2, "there is no file no.csv"),
        (["--set", "source.target=Chrun"], 5, "did you mean 'Churn'"),
    ],
)
def test_an_error_is_one_screen(gpupipe: Gpupipe, generated: Path, options: list[str], code: int, said: str) -> None:
    done = gpupipe("bench", generated, "--quiet", "--repeat", options[-1] if "--repeat" in options else 1, *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in " ".join(done.stderr.split())
    assert len(done.stderr.splitlines()) < 12
    assert "Traceback" not in done.stderr


def test_a_gpu_that_is_demanded_is_never_replaced(gpupipe: Gpupipe, generated: Path) -> None:
    done = gpupipe("bench", generated, "--device", "gpu")
    assert (done.returncode, done.stdout) == (4, "")
    assert "device: gpu" in done.stderr


def test_the_help_imports_nothing_heavy(gpupipe_process: Gpupipe) -> None:
    done = gpupipe_process("bench", "--help", python=("-X", "importtime"))
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert done.returncode == 0
    assert not imported & {"numpy", "pandas", "pyarrow", "sklearn", "scipy", "matplotlib", "rich"}
