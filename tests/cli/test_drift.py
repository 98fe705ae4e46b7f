"""Tests of ``gpupipe drift``: a report on one screen, JSON, and exit codes for schedulers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from unittest.mock import patch

import pytest

from gpupipe.datasets.churn import write

CONFIG = """\
source: {generate: churn, rows: 1500, target: Churn, positive: "Yes", drop: [customerID]}
models: [logistic_regression]
report: {enabled: false}
evaluate: {importance: {repeats: 1}}
"""


@pytest.fixture(scope="module")
def folder(gpupipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, rows like those of the training, and rows with a doubled charge."""
    import pandas as pd

    path = tmp_path_factory.mktemp("drift")
    (path / "config.yaml").write_text(CONFIG)
    write(path / "same.parquet", 1_500, 8)
    frame = pd.read_parquet(path / "same.parquet").drop(columns="Churn")
    frame.assign(MonthlyCharges=frame["MonthlyCharges"] * 2, Contract="weekly").to_csv(path / "moved.csv", index=False)
    done = gpupipe("run", "config.yaml", "--output", "run", "--quiet", "--device", "cpu", cwd=path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize(
    ("data", "level", "code"), [("same.parquet", "low", 0), ("moved.csv", "high", 5), ("moved.csv", None, 0)]
)
def test_the_exit_code_tells_a_scheduler(gpupipe, folder: Path, data: str, level: str | None, code: int) -> None:
    options = [] if level is None else ["--fail-on", level]
    done = gpupipe("drift", "run", data, "--device", "cpu", *options, cwd=folder)
    assert done.returncode == code, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 160
    assert lines[-1].startswith("drift none" if data == "same.parquet" else "drift high")
    assert (data == "moved.csv") == any("MonthlyCharges" in line and "median" in line for line in lines)


def test_the_report_on_an_untrusted_model_is_the_same(gpupipe, folder: Path) -> None:
    options = ["--by", "month:signup_ts", "--json", "--html"]
    trusted = gpupipe("drift", "run", "moved.csv", *options, "trusted.html", cwd=folder)
    found = gpupipe(
        "drift", "run", "moved.csv", *options, "found.html", "--untrusted", "--limit", "time=2min", cwd=folder
    )
    assert (found.returncode, found.stdout) == (0, trusted.stdout)
    pages = [(folder / name).read_text() for name in ("trusted.html", "found.html")]
    assert re.sub(r"\d\d:\d\d", "", pages[0]) == re.sub(r"\d\d:\d\d", "", pages[1])
    refused = gpupipe("drift", "run", "moved.csv", "--untrusted", "--cluster", "local", cwd=folder)
    assert refused.returncode == 2 and "--untrusted is not supported with --cluster" in refused.stderr


def test_json_has_all_that_a_page_needs(gpupipe, folder: Path) -> None:
    done = gpupipe(
        "drift", "run/model", "moved.csv", "--by", "month:signup_ts", "--json", "--fail-on", "low", cwd=folder
    )
    found = json.loads(done.stdout)
    assert done.returncode == found["exit_code"] == 5
    charges = next(column for column in found["columns"] if column["name"] == "MonthlyCharges")
    assert len(charges["cells"]) == len(charges["reference"]) == len(charges["current"]) == len(charges["edges"]) + 2
    assert sum(charges["current"]) == found["n_rows"] == 1_500
    assert [period["period"] for period in charges["periods"]] == [period["period"] for period in found["periods"]]
    contract = next(column for column in found["columns"] if column["name"] == "Contract")
    assert contract["cells"][:3] == ["null", "unseen", "other levels"] and contract["current"][1] == 1_500
    assert {score["name"] for score in found["scores"]} == {"prediction", "probability_Yes"}


def test_quiet_prints_nothing(gpupipe, folder: Path) -> None:
    done = gpupipe("drift", "run", "same.parquet", "--quiet", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["run", "absent.csv"], 5, "absent.csv"),
        (["absent", "same.parquet"], 5, "absent"),
        (["run", "same.parquet", "--by", "year"], 2, "month"),
        (["run", "same.parquet", "--fail-on", "huge"], 2, "moderate"),
        (["run", "same.parquet", "--cluster", "local", "--as-of", "2024-01-01"], 2, "--cluster"),
        (["run", "same.parquet", "--source", "csv.delimeter=;"], 2, "csv.delimiter"),
    ],
)
def test_an_error_is_short(gpupipe, folder: Path, arguments: list[str], code: int, word: str) -> None:
    done = gpupipe("drift", *arguments, cwd=folder)
    assert done.returncode == code and word in done.stderr and len(done.stderr.splitlines()) < 12


def test_workers_count_what_one_machine_counts(gpupipe_process, folder: Path) -> None:
    pytest.importorskip("distributed")
    options = ["drift", "run", "moved.csv", "--json", "--device", "cpu"]
    alone = gpupipe_process(*options, cwd=folder)
    spread = gpupipe_process(*options, "--cluster", "local", cwd=folder)
    assert spread.returncode == 0, spread.stderr
    assert spread.stdout == alone.stdout and "workers on the cpu" in spread.stderr


def test_the_monitor_page_is_written_whatever_the_verdict(gpupipe, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "monitor.html"
    target.write_text("the page of yesterday")
    done = gpupipe("drift", "run", "moved.csv", "--html", target, "--fail-on", "high", "--quiet", "--force", cwd=folder)
    assert (done.returncode, done.stdout) == (5, "")
    text = target.read_text(encoding="utf-8")
    assert "<h1>Drift of" in text and "<b>moved.csv</b>" in text and "most of all" in text
    assert [path.name for path in tmp_path.iterdir()] == ["monitor.html"]


@pytest.mark.parametrize("target", ["moved.csv", "run/model/monitor.html", "absent/monitor.html", "run"])
def test_a_page_that_cannot_be_written_is_an_error_before_any_work(gpupipe, folder: Path, target: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    with patch("gpupipe.inference.model.load_model") as load:
        done = gpupipe("drift", "run", "moved.csv", "--html", target, cwd=folder)
    assert done.returncode == 2 and not load.called
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
