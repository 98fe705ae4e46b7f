"""``gpupipe runs``, ``compare`` and ``open``: the files of runs, listed, compared and shown."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import webbrowser
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.files.directory import AtomicDirectory
from gpupipe.pipeline.comparison.run_list import _row as unfinished_row

Gpupipe = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of four runs on the same rows: two hold-outs, one cross-validation, one with weights."""
    folder = tmp_path_factory.mktemp("work") / "runs"
    generator = np.random.default_rng(4)
    frame = pd.DataFrame(
        {"a": generator.normal(size=200), "b": generator.normal(size=200), "w": 1 + np.arange(200) % 3}
    )
    frame["y"] = np.where(frame["a"] + generator.normal(size=200) > 0, "yes", "no")
    quick: dict[str, Any] = {"target": "y", "report": {"enabled": False}, "evaluate": {"importance": False}}
    gp.Pipeline(frame, models=["gaussian_nb"], drop=["w"], **quick).run(folder / "bayes")
    linear: dict[str, Any] = {
        "models": [{"logistic_regression": {"C": 0.5}}],
        "features": [{"standardize": "@numeric"}],
    }
    gp.Pipeline(frame, **linear, **quick).run(folder / "deep" / "linear")
    gp.Pipeline(frame, **linear, split={"cv": 3}, name="folds", **quick).run(folder / "folds")
    gp.Pipeline(frame, **linear, weight="w", **quick).run(folder / "weighted")
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """Return a copy of the runs, which a test may change."""
    return shutil.copytree(trained, tmp_path / "runs")


def test_runs_are_listed_newest_first(trained: Path, gpupipe: Gpupipe) -> None:
    result = gpupipe("runs", cwd=trained.parent)
    assert result.returncode == 0, result.stderr
    heading, _, *lines = result.stdout.splitlines()
    assert heading.split()[:2] == ["run", "started"]
    assert [line.split()[0] for line in lines] == ["runs/weighted", "runs/folds", "runs/deep/linear", "runs/bayes"]
    bayes, folds = gp.load_run(trained / "bayes"), gp.load_run(trained / "folds")
    assert f" y        gaussian_nb           ROC AUC            {bayes.metrics['roc_auc']:.4f}   cpu " in lines[3]
    assert f"{folds.metrics['roc_auc']:.4f} ± {folds.metrics['roc_auc_std']:.4f}" in lines[1]


def test_the_list_is_a_frame_with_all_metrics(trained: Path) -> None:
    found = gp.list_runs(trained)
    row = found[found["run"] == str(trained / "bayes")].iloc[0]
    run, timeline = gp.load_run(trained / "bayes"), json.loads((trained / "bayes" / "timeline.json").read_text())
    assert {name: row[name] for name in run.metrics} == run.metrics
    assert (row["status"], row["seconds"], row["metric"]) == ("finished", timeline["seconds"], "roc_auc")
    assert row["started"] == datetime.fromisoformat(timeline["started"]) and found["started"].is_monotonic_decreasing
    ranked = gp.list_runs(trained, sort_by="log_loss")
    assert ranked["value"].is_monotonic_increasing and set(ranked["metric"]) == {"log_loss"}
    assert gp.list_runs(trained, sort_by="accuracy")["value"].is_monotonic_decreasing


def test_unfinished_and_unreadable_runs_are_listed_with_the_reason(
    folder: Path, gpupipe: Gpupipe, tmp_path: Path
) -> None:
    (folder / "bayes" / "metrics.json").write_text('{"models": ')
    (folder / "folds" / "timeline.json").write_text("[]")
    os.remove(folder / "weighted" / "config.yaml")
    checkpoint = folder / ".checkpoints" / ("0" * 32)
    checkpoint.mkdir(parents=True)
    (folder / ".other").mkdir()
    with AtomicDirectory(folder / "current"):  # which has removed the drafts of killed runs
        draft = folder / ".killed.tmp-0123456789abcdef"
        draft.mkdir()
        (draft / ".gpupipe-draft").touch()
        result = gpupipe("runs", folder, "--json", "-o", tmp_path / "runs.json")
        shown = gpupipe("runs", folder)
    assert result.returncode == shown.returncode == 0
    document = json.loads(result.stdout)
    assert json.loads((tmp_path / "runs.json").read_text()) == document
    states = {os.path.relpath(row["run"], folder): row["status"] for row in document["runs"]}
    assert states == {
        "deep/linear": "finished", "bayes": "unreadable", "folds": "unreadable", "weighted": "unreadable",
        "killed": "killed", "current": "running", ".checkpoints": "interrupted",
    }  # fmt: skip
    warnings = [line for line in shown.stdout.splitlines() if line.startswith("warning: ")]
    for words in ("metrics.json", "malformed records", "config.yaml is missing", "1 checkpoint; continue with"):
        assert len([line for line in warnings if words in line]) == 1, words


@pytest.mark.parametrize("seconds", [253_402_300_800.0, 1e12, -1e12])
def test_a_time_of_a_file_outside_the_calendar_is_unknown(seconds: float) -> None:
    assert unfinished_row(Path("current"), "killed", seconds)["started"] is None
    assert unfinished_row(Path("current"), "killed", 0.0)["started"] == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("runs", "nowhere"), "there is no such folder"),
        (("runs", "notes.txt"), "expected a folder; found a file"),
        (("runs", ".", "--sort", "accurac"), "did you mean 'accuracy'?"),
        (("compare", "bayes"), "expected two or more runs; got one run"),
        (("compare", "bayes", "bayes"), "the same run is named twice"),
        (("compare", "bayes", "folds", "-o", "bayes/metrics.json", "--force"), "choose another output path"),
    ],
)
def test_bad_arguments_exit_with_2(trained: Path, gpupipe: Gpupipe, args: tuple[str, ...], words: str) -> None:
    (trained / "notes.txt").touch()
    result = gpupipe(*args, cwd=trained)
    assert result.returncode == 2 and words in result.stderr


def test_a_folder_without_runs_is_fine(gpupipe: Gpupipe, tmp_path: Path) -> None:
    result = gpupipe("runs", tmp_path)
    assert result.returncode == 0 and "no runs in" in result.stdout
    assert gp.list_runs(tmp_path).empty


def test_runs_on_the_same_rows_are_compared_with_intervals(trained: Path, gpupipe: Gpupipe, tmp_path: Path) -> None:
    result = gpupipe("compare", "bayes", "deep/linear", "-o", tmp_path / "found.json", cwd=trained)
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["unpaired"] == {} and "has no intervals" not in result.stdout
    one, two = (gp.load_run(trained / name).metrics for name in ("bayes", "deep/linear"))
    differences = {row["metric"]: row for row in found["metrics"] if row["run"] == "deep/linear"}
    for name, row in differences.items():
        assert (
            row["difference"] == pytest.approx(two[name] - one[name]) and row["low"] < row["difference"] < row["high"]
        )
    assert set(differences) == set(one)
    assert found["settings"]["models.logistic_regression"] == [None, "logistic_regression"]
    assert found["settings"]["source.drop"] == [["w"], []]
    assert found["inputs"] == [{"runs": ["deep/linear"], "columns": ["w"]}]
    assert "input columns only in B: w" in result.stdout and "ROC AUC" in result.stdout
    assert found["facts"]["test rows"] == [40, 40] and found["facts"]["input columns"] == [2, 3]


@pytest.mark.parametrize(
    ("other", "why"),
    [("folds", "40 and 200, of which 40 are shared"), ("weighted", "do not reproduce the recorded metrics")],
)
def test_a_sentence_says_why_runs_are_not_paired(trained: Path, gpupipe: Gpupipe, other: str, why: str) -> None:
    shown = gpupipe("compare", "deep/linear", other, cwd=trained)
    assert shown.returncode == 0 and "B has no intervals: " in shown.stdout and why in shown.stdout
    found = gp.compare_runs([gp.load_run(trained / "deep" / "linear"), trained / other])
    assert found.metrics["low"].isna().all() and len(found.metrics["difference"].dropna()) == 10


def test_other_values_of_the_target_are_not_paired(folder: Path) -> None:
    predictions = gp.load_run(folder / "deep" / "linear").predictions
    predictions["target"] = predictions["target"].to_numpy()[::-1]
    predictions.to_parquet(folder / "deep" / "linear" / "predictions.parquet")
    (why,) = gp.compare_runs([folder / "bayes", folder / "deep" / "linear"]).unpaired.values()
    assert "the targets of the test rows differ" in why


def test_a_directory_that_is_not_a_run_exits_with_5(trained: Path, gpupipe: Gpupipe) -> None:
    result = gpupipe("compare", "bayes", "deep", cwd=trained)
    assert result.returncode == 5 and "not a run directory" in result.stderr


@pytest.mark.parametrize("named", ["bayes", "bayes/model", "bayes/report.html"])
def test_the_report_is_opened_or_its_address_printed(
    folder: Path, gpupipe: Gpupipe, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (folder / "bayes" / "report.html").touch()
    opened: list[str] = []

    def record(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", record)
    for name in ("WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    url = (folder / "bayes" / "report.html").as_uri()
    assert gpupipe("open", named, cwd=folder).stdout == f"opened {url}\n" and opened == [url]
    monkeypatch.delenv("DISPLAY")
    monkeypatch.setattr("sys.platform", "linux")
    shown = gpupipe("open", named, cwd=folder)
    assert (shown.returncode, shown.stdout) == (0, f"no browser on this machine; the report is {url}\n")
    assert opened == [url]


@pytest.mark.parametrize(
    ("named", "words"),
    [("bayes", "there is no report.html"), ("nowhere", "no such directory"), (".", "found a folder of")],
)
def test_a_missing_report_is_an_error(trained: Path, gpupipe: Gpupipe, named: str, words: str) -> None:
    result = gpupipe("open", named, cwd=trained)
    assert result.returncode == 5 and words in result.stderr
