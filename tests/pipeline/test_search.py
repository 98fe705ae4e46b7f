"""The search of a candidate: in metrics.json, in the Python objects of a run, in its output, and after --resume."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import gpupipe as gp
from gpupipe.config import parse_config
from gpupipe.errors import ArtifactError
from gpupipe.pipeline.run import run_pipeline
from gpupipe.report.search_record import SearchRecord, TriedCounts, TriedModel
from gpupipe.timeline.display.console import Console
from gpupipe.timeline.safe_points import StopSignal
from gpupipe.training import job
from gpupipe.training.fit import TrainedModel, train
from gpupipe.training.selection.leaderboard import leaderboard_rows

MODELS = [{"logistic_regression": {}}, {"xgboost": {"n_estimators": 20}}]


@pytest.fixture
def searching(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give each trained xgboost the record of a search; return the numbers of rows that were searched on."""
    trainings: list[int] = []

    def train_with_search(entry: Any, rows: Any, *arguments: Any) -> TrainedModel:
        trained = train(entry, rows, *arguments)
        if entry.name != "xgboost":
            return trained
        trainings.append(rows.n_rows)
        tried = (
            TriedModel("trial 0", "xgboost", {"max_depth": np.int64(2)}, np.float64(0.7), 0.1),
            TriedModel("trial 1", "xgboost", {"max_depth": 3}, float("nan"), 0.1, "pruned"),
            TriedModel("trial 2", "xgboost", {"max_depth": 4}, None, 0.1, "skipped"),
        )
        ended = f"searched on {rows.n_rows} rows"
        return replace(trained, search=SearchRecord("tuning", "roc_auc", tried, 0.7, ended, {"max_depth": 2}))

    monkeypatch.setattr(job, "train", train_with_search)
    return trainings


def settings(folder: Path, **changes: Any) -> Any:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=300), "z": rng.normal(size=300)})
    frame["y"] = (frame.x * frame.z + rng.normal(0, 0.5, 300) > 0).astype(int)  # a product: trees are better
    if not (folder / "t.parquet").exists():  # checkpoints depend on its time of change
        frame.to_parquet(folder / "t.parquet")
    document = {
        "source": {"path": str(folder / "t.parquet"), "target": "y", "cache": False}, "models": MODELS,
        "split": {"test_size": 0.2, "stratify": False}, "evaluate": {"importance": False, "metrics": ["roc_auc"]},
        "report": {"plots": False},
    }  # fmt: skip
    return parse_config(document | changes)


def test_metrics_json_and_a_loaded_run_have_the_search_of_the_exported_model(
    searching: list[int], tmp_path: Path
) -> None:
    run = run_pipeline(settings(tmp_path), tmp_path / "run")
    assert run.candidates[0].label == "xgboost" and searching == [192, 240]  # then on all training rows
    document = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert document["tried"] == {"models": 2, "trials": 2, "features": 0}
    assert list(document["search"]) == ["xgboost"]
    loaded = gp.load_run(tmp_path / "run")
    for each in (run, loaded):
        assert each.search is not None and each.search.ended == "searched on 240 rows"
        assert each.tried == TriedCounts(2, trials=2)
        assert each.candidates[1].search is None
        assert "held-out ROC AUC 0.7000; ended: searched on 240 rows" in each._repr_html_()
    assert loaded.search is not None and loaded.search.tried[1].score is None
    assert loaded.search.tried[0].params == {"max_depth": 2}
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert (
        "2 models and 2 trials were compared on out-of-fold predictions of the training rows and on 48 validation"
        in page
    )
    assert "Tuning of xgboost" in page


def test_folds_have_the_search_of_the_model_trained_on_all_rows(searching: list[int], tmp_path: Path) -> None:
    run = run_pipeline(settings(tmp_path, split={"cv": 3}), tmp_path / "run")
    assert run.search is not None and run.search.ended == "searched on 300 rows"
    assert searching == [200, 200, 200, 300]


def test_a_resumed_run_has_the_search_of_its_checkpoint(searching: list[int], tmp_path: Path) -> None:
    stop = StopSignal()

    def interrupt(where: str) -> None:
        if where == "before export":
            raise KeyboardInterrupt

    stop.watch(interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(settings(tmp_path), tmp_path / "run", stop_signal=stop)
    searching.clear()
    run = run_pipeline(settings(tmp_path), tmp_path / "run", resume=True)
    assert searching == []
    assert run.search is not None and run.search.ended == "searched on 240 rows"
    assert run.search.tried[1] == TriedModel("trial 1", "xgboost", {"max_depth": 3}, None, 0.1, "pruned")


def test_the_report_has_the_entry_of_a_tuned_model(tmp_path: Path) -> None:
    tuned = {"xgboost": {"n_estimators": 5}, "as": "trees", "tune": {"trials": 3, "folds": 2}}
    run = run_pipeline(settings(tmp_path, models=[tuned, "logistic_regression"]), tmp_path / "run")
    page = html.unescape((run.path / "report.html").read_text(encoding="utf-8"))
    (section,) = re.findall("(?s)<pre>(models:.*?)</pre>", page)
    assert section in (run.path / "tuned.yaml").read_text(encoding="utf-8")
    (entry,) = settings(tmp_path, models=yaml.safe_load(section)["models"]).models
    (search,) = [each.search for each in run.candidates if each.label == "trees"]
    assert search is not None and entry.label == "trees" and entry.tune is None
    assert run.document["tried"] == {"models": 2, "trials": search.n_compared, "features": 0}


def test_candidate_features_are_counted_even_if_none_is_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(500, 4)), columns=list("abcd"))
    frame["y"] = rng.integers(0, 2, 500)
    document = {
        "source": {"frame": frame, "target": "y"}, "features": [{"generate": {"arithmetic_candidates": 10}}],
        "models": ["logistic_regression"], "evaluate": {"importance": False}, "report": {"plots": False},
    }  # fmt: skip
    run = run_pipeline(parse_config(document), tmp_path / "run")
    assert run.tried == TriedCounts(models=1, features=10)
    page = re.sub(r"\s+", " ", (run.path / "report.html").read_text(encoding="utf-8"))
    assert "10 candidate features were compared on out-of-fold predictions of the training rows; no choice" in page
    assert "0 of 10 candidates are kept" in page and "With them the loss" not in page


def test_the_search_is_a_line_below_the_leaderboard(searching: list[int], tmp_path: Path) -> None:
    run, err = run_pipeline(settings(tmp_path), tmp_path / "run"), io.StringIO()
    Console(err=err).finished(leaderboard_rows(run.candidates), run.document, run.path)
    assert "xgboost: 3 trials, 1 pruned; best held-out ROC AUC 0.7000; ended:" in err.getvalue()


@pytest.mark.parametrize("broken", [{"search": {"xgboost": {"kind": "tuning"}}}, {"search": 3}, {"tried": 4}])
def test_a_malformed_search_is_an_error_with_the_file(
    broken: dict[str, Any], searching: list[int], tmp_path: Path
) -> None:
    path = run_pipeline(settings(tmp_path, report={"enabled": False}), tmp_path / "run").path
    file = path / "metrics.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | broken))
    run = gp.load_run(path)
    with pytest.raises(ArtifactError, match=r"metrics\.json"):
        _ = run.search, run.tried
