"""The latency limit of a run: rows to measure with, choice of the champion, and what is written about it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe import load_run
from gpupipe.backends import choose
from gpupipe.config import Config, parse_config
from gpupipe.errors import ConfigError, LimitError
from gpupipe.model_parts import latency as timing
from gpupipe.model_parts.latency import Latency
from gpupipe.pipeline.records.candidate_latency import sample_rows
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.table.blocks import Table
from gpupipe.table.device.frame_columns import DeviceText
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import TrainedModel
from gpupipe.training.job import Job
from gpupipe.training.preparation.preparation import open_job
from tests.inline_workers import InlineWorkers

RESUMED = "loaded from a checkpoint"
MODELS = ["logistic_regression", {"xgboost": {"n_estimators": 5}}, "gaussian_nb"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with numbers, nulls, whole numbers, categories, flags, times, texts and two classes."""
    draw = np.random.default_rng(5)
    n = 800
    age = draw.normal(40, 9, n)
    frame = pd.DataFrame(
        {
            "age": np.where(draw.random(n) < 0.1, np.nan, age.round(3)),
            "visits": draw.integers(0, 50, n),
            "city": draw.choice(["Rome", "Oslo", "Bonn"], n),
            "is_new": draw.random(n) < 0.5,
            "at": pd.date_range("2026-01-01", periods=n, freq="37min"),
            "note": [f"order {i} of {draw.choice(['tea', 'rice'])}, not paid" for i in range(n)],
            "y": (age + draw.normal(0, 9, n) > 40).astype(int),
        }
    )
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    frame.to_parquet(path, index=False)
    return path


def config(table: Path, **changes: Any) -> Config:
    document: dict[str, Any] = {
        "seed": 4,
        "source": {"path": str(table), "target": "y", "schema": {"note": "text"}},
        "features": [{"standardize": "@numeric"}, {"encode": "@categorical"}],
        "models": MODELS,
        "evaluate": {"metrics": ["roc_auc"], "importance": False, "max_latency": "2ms"},
        "report": {"enabled": False},
    }
    return parse_config(document | changes)


def limited(table: Path, limit: Any, **changes: Any) -> Config:
    """Return the configuration with another limit, or none."""
    evaluate = {"metrics": ["roc_auc"], "importance": False, "max_latency": limit}
    return config(table, **{"evaluate": evaluate, **changes})


def job_of(settings: Config) -> Job:
    return open_job(settings, choose("cpu"), Timeline())


def test_the_rows_are_those_of_the_file_as_a_caller_would_pass_them(table: Path) -> None:
    job = job_of(config(table))
    names = ["note", "age", "visits", "city", "is_new", "at"]
    frame = pd.read_parquet(table)
    mask = np.arange(800) % 2 == 1
    rows = sample_rows(job, names, mask)
    assert len(rows) == 400 and list(rows[0]) == names
    assert [type(value) for value in rows[0].values()] == [str, float, int, str, bool, datetime]
    at = [row.pop("at") for row in rows]
    assert at == frame["at"][mask].tolist()
    expected = frame.loc[mask, names[:-1]].reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.DataFrame(rows).astype({"age": float}), expected, check_dtype=False)
    assert any(row["age"] is None for row in rows)


def test_many_rows_are_sampled_evenly(table: Path) -> None:
    rows = sample_rows(job_of(config(table)), ["note"], np.ones(800, bool))
    numbers = [int(re.findall(r"\d+", row["note"])[0]) for row in rows]
    assert len(numbers) == 500 and numbers[0] == 0 and numbers[-1] == 799
    assert set(np.diff(numbers)) == {1, 2}


def test_rows_of_workers_are_the_same(table: Path) -> None:
    names, mask = ["note", "age", "visits", "city", "is_new", "at"], np.arange(800) % 3 == 0
    alone = sample_rows(job_of(config(table)), names, mask)
    workers = InlineWorkers(choose("cpu"), 3)
    assert sample_rows(open_job(config(table), choose("cpu"), Timeline(), workers), names, mask) == alone


def test_texts_of_a_device_are_read_from_the_source(table: Path) -> None:
    job = job_of(config(table))
    names, mask = ["note", "age"], np.arange(800) % 3 == 0
    expected = sample_rows(job, names, mask)
    missing: Any = DeviceText(np.zeros(800, bool), job.backend)  # a device keeps no texts
    assert isinstance(job.table, Table)
    on_device = replace(job, table=replace(job.table, texts=dict.fromkeys(job.table.texts, missing)))
    assert sample_rows(on_device, names, mask) == expected


def test_texts_of_a_joined_table_on_workers_are_refused_by_name(table: Path, tmp_path: Path) -> None:
    pd.DataFrame({"city": ["Rome", "Oslo", "Bonn"], "about": ["a, b", "c, d", "e, f"]}).to_csv(tmp_path / "c.csv")
    joined = {"path": str(tmp_path / "c.csv"), "on": "city", "cardinality": "many_to_one", "schema": {"about": "text"}}
    settings = config(table, tables={"cities": joined}, features=[{"text_counts": ["note", "about"]}])
    rows = sample_rows(job_of(settings), ["city", "about"], np.ones(800, bool))
    assert {tuple(row.values()) for row in rows} == {("Rome", "a, b"), ("Oslo", "c, d"), ("Bonn", "e, f")}
    job = open_job(settings, choose("cpu"), Timeline(), InlineWorkers(choose("cpu"), 2))
    with pytest.raises(ConfigError, match="the texts of about are on workers") as raised:
        sample_rows(job, ["city", "about"], np.ones(800, bool))
    assert raised.value.where == "evaluate.max_latency"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time few calls."""
    monkeypatch.setattr(timing, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(timing, "LEAST_CALLS", 20)
    monkeypatch.setattr(timing, "WARM_UP_CALLS", 3)


@pytest.fixture(scope="module")
def unlimited(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run without a limit."""
    return run_pipeline(limited(table, None), tmp_path_factory.mktemp("unlimited") / "run")


@pytest.mark.usefixtures("quick")
def test_a_limit_that_all_meet_changes_nothing_and_adds_the_figures(
    table: Path, unlimited: Run, tmp_path: Path
) -> None:
    run = run_pipeline(limited(table, "1h", report={"plots": False}), tmp_path / "run")
    found = run.document.pop("latency")
    assert run.document == json.loads((unlimited.path / "metrics.json").read_text())
    assert found["limit_seconds"] == 3600.0
    assert list(found["models"]) == [entry.label for entry in run.candidates]
    for measured in found["models"].values():
        assert 0 < measured["p50_seconds"] <= measured["p99_seconds"] and measured["calls"] >= 20
        assert measured["engine"] in ("numba", "numpy") and measured["estimator"]
    stages = {stage["name"]: stage for stage in run.plan()}
    assert len(stages["latency"]["notes"]) == 3 and len(stages["refit: latency"]["notes"]) == 1
    files = sorted(json.loads((run.path / "run.json").read_text())["files"])
    assert not [name for name in files if "latency" in name]
    # All shown figures are those of the model that was trained again.
    best = run.candidates[0].latency
    assert best is not None and str(best) in stages["refit: latency"]["notes"][0]
    assert str(best) in (run.path / "report.html").read_text(encoding="utf-8")
    opened = load_run(run.path)
    assert [entry.latency for entry in opened.candidates] == [entry.latency for entry in run.candidates]
    assert "one row p99" in run._repr_html_() == opened._repr_html_()


def test_without_a_limit_nothing_is_measured_or_written(unlimited: Run) -> None:
    assert "latency" not in unlimited.document and unlimited.candidates[0].latency is None
    assert "latency" not in str([stage["name"] for stage in unlimited.plan()])
    assert "p99" not in unlimited._repr_html_()


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that sets the p99 in milliseconds of each measurement of a model, the last one repeated.

    It returns the list of the measured models.
    """

    def script(**milliseconds: tuple[float, ...]) -> list[str]:
        measured: list[str] = []

        def measure(job: Job, trained: TrainedModel, *_: Any) -> Latency:
            label = trained.entry.label
            figures = milliseconds.get(label, (1.0,))
            p99 = figures[min(measured.count(label), len(figures) - 1)] / 1000
            measured.append(label)
            return Latency(p99 / 2, p99, 500, job.config.evaluate.max_latency or 0.0, "numpy", "scripted")

        monkeypatch.setattr("gpupipe.pipeline.run.measure_latency", measure)
        return measured

    return script


def exported(run: Run) -> str:
    return str(json.loads((run.path / "model" / "manifest.json").read_text())["model"]["name"])


SPLITS: dict[str, dict[str, Any]] = {"validation": {"test_size": 0.2}, "folds": {"cv": 3}}


@pytest.mark.parametrize("split", SPLITS)
def test_the_best_candidate_within_the_limit_is_exported(
    split: str, table: Path, take: Callable[..., Any], tmp_path: Path
) -> None:
    sections = {"split": SPLITS[split]}
    free = run_pipeline(limited(table, None, **sections), tmp_path / "free")
    first, second, third = (entry.label for entry in free.candidates)
    take(**{first: (3.0,)})
    run = run_pipeline(config(table, report={"plots": False}, **sections), tmp_path / "run")
    assert exported(run) == second and run.document["best"] == second
    assert [entry.label for entry in run.candidates] == [second, third, first]
    assert [entry.is_over_limit for entry in run.candidates] == [False, False, True]
    warning = (
        f"{first} is better by roc_auc, but its p99 of 3 ms for one row exceeds evaluate.max_latency, 2 ms; "
        f"{second} is exported instead"
    )
    assert warning in [note.text for note in run.timeline.all_notes("warning")]
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert "over 2 ms" in page and "3 ms" in page
    # The predictions of the test rows, too, are those of the exported candidate.
    alone = run_pipeline(
        limited(table, None, models=[m for m in MODELS if second in str(m)], **sections), tmp_path / "alone"
    )
    pd.testing.assert_frame_equal(run.predictions, alone.predictions)
    assert run.metrics == alone.metrics


@pytest.mark.parametrize("split", SPLITS)
def test_a_champion_that_is_too_slow_once_trained_again_gives_way_to_the_next(
    split: str, table: Path, take: Callable[..., Any], tmp_path: Path
) -> None:
    sections = {"split": SPLITS[split]}
    free = run_pipeline(limited(table, None, **sections), tmp_path / "free")
    first, second, third = (entry.label for entry in free.candidates)
    measured = take(**{first: (1.0, 3.0), second: (1.5,), third: (5.0,)})
    run = run_pipeline(config(table, **sections), tmp_path / "run")
    assert exported(run) == second and [entry.label for entry in run.candidates] == [second, first, third]
    assert measured[3:] == [first, second]
    trained = [stage["name"] for stage in run.plan() if stage["name"].startswith("refit: train")]
    assert trained == [f"refit: train {first}", f"refit: train {second}"]
    found = run.document["latency"]["models"]
    assert [found[label]["p99_seconds"] for label in (second, first, third)] == [0.0015, 0.003, 0.005]


def test_one_candidate_without_validation_is_measured_once(
    table: Path, take: Callable[..., Any], tmp_path: Path
) -> None:
    measured = take()
    run = run_pipeline(config(table, models=["gaussian_nb"]), tmp_path / "run")
    assert measured == ["gaussian_nb"] and exported(run) == "gaussian_nb"


@pytest.mark.usefixtures("quick")
def test_if_none_is_within_the_limit_the_error_has_each_figure_and_nothing_trained_is_lost(
    table: Path, tmp_path: Path
) -> None:
    with pytest.raises(LimitError) as raised:
        run_pipeline(limited(table, 1e-9), tmp_path / "run")
    error = raised.value
    assert error.exit_code == 3 and error.where == "evaluate.max_latency" and "--resume" in error.fix
    lines = error.what.splitlines()
    assert len(lines) == 4 and "0.001 us" in lines[0]
    for label in ("logistic_regression", "xgboost", "gaussian_nb"):
        (line,) = [line for line in lines if line.startswith(f"{label}: p99 ")]
        assert re.search(r"p99 [0-9.]+ (us|ms), p50 [0-9.]+ (us|ms) of ", line)
    assert not (tmp_path / "run").exists()
    run = run_pipeline(limited(table, "1h"), tmp_path / "run", resume=True)
    notes = {stage["name"]: stage["notes"] for stage in run.plan()}
    assert all(RESUMED in notes[f"train {entry.label}"] for entry in run.candidates)
    assert RESUMED not in str(notes["latency"])
