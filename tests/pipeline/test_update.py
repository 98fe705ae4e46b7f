"""`update_model`: a challenger from new rows, and the verdict on it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.errors import ConfigError, DataError
from gpupipe.features.statistics.training_summary import TrainedColumn, TrainingSummary
from gpupipe.inference.diff.prediction_comparison import PredictionComparison, SliceChanges
from gpupipe.inference.drift.detection import load_reference
from gpupipe.metrics.bootstrap import MetricChange
from gpupipe.model_parts.lineage import read_lineage
from gpupipe.pipeline.update.update import decide_verdict

N_OLD, N_NEW = 900, 600
SETTINGS: dict[str, Any] = {"target": "left", "report": {"enabled": False}, "evaluate": {"by": ["plan"]}}


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with old.csv and new.csv; the rule changes between them, and a plan comes that is new."""
    rng, folder, n = np.random.default_rng(0), tmp_path_factory.mktemp("months"), N_OLD + N_NEW
    frame = pd.DataFrame({"age": rng.integers(18, 80, n), "plan": rng.choice(["basic", "plus"], n)})
    frame["plan"] = np.where((np.arange(n) >= N_OLD) & (rng.random(n) < 0.3), "pro", frame["plan"])
    is_old = np.arange(n) < N_OLD
    score = np.where(is_old, frame["age"] - 50, 45 - frame["age"]) / 8 + (frame["plan"] == "plus")
    frame["left"] = np.where(score + rng.normal(size=n) > 0, "yes", "no")
    frame[is_old].to_csv(folder / "old.csv", index=False)
    frame[~is_old].to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def champions(months: Path) -> dict[str, Path]:
    """Return the run directories of models of the old rows."""
    found = {}
    for model in ("xgboost", "logistic_regression", "gaussian_nb"):
        found[model] = gp.Pipeline(str(months / "old.csv"), models=[model], **SETTINGS).run(months / model).path
    return found


def digest(folder: Path) -> str:
    """Return a digest of all files of a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in files)).hexdigest()


@pytest.mark.parametrize("model", ["xgboost", "logistic_regression"])
def test_a_continued_challenger_beats_a_model_of_other_times(
    model: str, champions: dict[str, Path], months: Path, tmp_path: Path
) -> None:
    before = digest(champions[model])
    found = gp.update_model(champions[model] / "model", months / "new.csv", output=tmp_path / "challenger")
    assert digest(champions[model]) == before
    assert (found.how, found.verdict, found.n_trained) == ("continued", "promote", 450)
    assert found.comparison.metrics["roc_auc"].low > 0
    champion, challenger = gp.load_model(champions[model]), gp.load_model(tmp_path / "challenger")
    assert challenger.feature_names == champion.feature_names  # those of the old plans
    assert challenger.verify().passed
    assert challenger.features.training is not None
    assert challenger.features.training.n_rows == 720 + 450
    earlier, own = read_lineage(tmp_path / "challenger")
    assert (earlier.manifest_sha256, earlier.how, earlier.rows) == (
        champion.manifest["manifest_sha256"],
        "trained",
        720,
    )
    assert (own.how, own.verdict, own.rows, own.reasons) == ("continued", "promote", 450, found.reasons)
    again = gp.update_model(tmp_path / "challenger", months / "new.csv", output=tmp_path / "again", newest=0.5)
    assert [generation.how for generation in read_lineage(again.run.path)] == ["trained", "continued", "continued"]


def test_a_refitted_challenger_is_the_model_of_a_run_with_all_rows(
    champions: dict[str, Path], months: Path, tmp_path: Path
) -> None:
    paths = [str(months / "old.csv"), str(months / "new.csv")]
    found = gp.update_model(champions["gaussian_nb"], paths[1], paths[0], tmp_path / "refit", newest=0.2)
    split = {"shuffle": False, "stratify": False, "test_size": 0.2 * N_NEW / (N_OLD + N_NEW)}
    run = gp.Pipeline({"path": paths}, models=["gaussian_nb"], split=split, **SETTINGS).run(tmp_path / "run")
    assert (found.how, found.n_trained, found.comparison.n_rows) == ("refitted", 480, 120)
    assert found.run.metrics == run.metrics
    pd.testing.assert_frame_equal(found.run.predictions, run.predictions)


def test_the_command_prints_one_document_and_ends_with_the_verdict(
    champions: dict[str, Path], months: Path, tmp_path: Path
) -> None:
    # The old rows again: a model that has learned more of them is not better by more than chance.
    arguments = map(str, (champions["xgboost"], months / "old.csv", "-o", tmp_path / "challenger"))
    command = [sys.executable, "-m", "gpupipe", "update", *arguments, "--json", "--quiet"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    document = json.loads(ended.stdout)
    assert document["verdict"] in ("keep", "refuse")
    assert document["challenger"] == str(tmp_path / "challenger")
    assert ended.returncode == 6
    assert "the model in use is unchanged" in ended.stderr


@pytest.mark.parametrize(
    ("model", "rows", "error", "message"),
    [
        ("gaussian_nb", "new.csv", ConfigError, r"gaussian_nb cannot continue(.*\n)*.*--with OLD"),
        ("xgboost", "few.csv", DataError, "rows to compare on; 15 rows would be the newest"),
        ("xgboost", "no_target.csv", DataError, "left"),
    ],
)
def test_what_cannot_be_updated_is_refused_before_anything_is_written(
    model: str,
    rows: str,
    error: type[Exception],
    message: str,
    champions: dict[str, Path],
    months: Path,
    tmp_path: Path,
) -> None:
    new = pd.read_csv(months / "new.csv")
    new[:60].to_csv(months / "few.csv", index=False)
    new.drop(columns="left").to_csv(months / "no_target.csv", index=False)
    with pytest.raises(error, match=message):
        gp.update_model(champions[model], months / rows, output=tmp_path / "challenger")
    assert not (tmp_path / "challenger").exists()


def change(difference: float, error: float) -> MetricChange:
    """Return a change of a metric with the interval of a standard error."""
    return MetricChange(0.8, 0.8 + difference, difference, difference - 1.96 * error, difference + 1.96 * error)


@pytest.mark.parametrize(
    ("metric", "whole", "slices", "margin", "verdict"),
    [
        ("roc_auc", change(0.03, 0.01), [], 0.0, "promote"),
        ("roc_auc", change(0.01, 0.01), [], 0.0, "keep"),
        ("roc_auc", change(0.0, 0.01), [], 0.02, "promote"),
        ("roc_auc", change(-0.03, 0.01), [], 0.0, "refuse"),
        ("log_loss", change(-0.03, 0.01), [], 0.0, "promote"),
        ("log_loss", change(0.03, 0.01), [], 0.0, "refuse"),
        ("roc_auc", change(0.03, 0.01), [change(-0.05, 0.01)], 0.0, "refuse"),
        # One of twenty slices is this much worse by chance.
        ("roc_auc", change(0.03, 0.01), [change(-0.025, 0.01)] + 19 * [change(0.01, 0.01)], 0.0, "promote"),
        ("roc_auc", MetricChange(0.8, 0.9, 0.1), [], 0.0, "keep"),
    ],
)
def test_the_verdict_follows_from_the_intervals(
    metric: str, whole: MetricChange, slices: list[MetricChange], margin: float, verdict: str
) -> None:
    levels = tuple(SliceChanges("plan", str(i), 100, 0, {metric: own}) for i, own in enumerate(slices))
    found = PredictionComparison(n_rows=500, n_labelled=500, metrics={metric: whole}, slices=levels)
    assert decide_verdict(metric, found, margin).name == verdict


def test_summaries_of_rows_are_merged() -> None:
    one = TrainingSummary(5, {"x": TrainedColumn(1, 0.0, 3.0), "c": TrainedColumn(0, n_singletons=2)})
    two = TrainingSummary(3, {"x": TrainedColumn(2, -1.0, None)})
    assert one.merge(two) == TrainingSummary(
        8, {"x": TrainedColumn(3, -1.0, 3.0), "c": TrainedColumn(0, n_singletons=2)}
    )


@pytest.mark.parametrize("kind", ["time", "number"])
def test_rows_that_the_model_has_learned_are_skipped(kind: str, tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), N_OLD + N_NEW
    frame = pd.DataFrame({"age": rng.integers(18, 80, n), "seen at": np.arange(n) + 0.5})
    if kind == "time":
        frame["seen at"] = pd.Timestamp("2026-03-01 23:59:59.999") + pd.to_timedelta(frame["seen at"], unit="h")
    frame["left"] = np.where(frame["age"] + rng.normal(0, 9, n) > 45, "yes", "no")
    read = frame[frame["age"] != 50]
    frame[:N_OLD].to_parquet(tmp_path / "may.parquet")
    frame.to_parquet(tmp_path / "all.parquet")
    source = {"path": str(tmp_path / "may.parquet"), "where": "age != 50"}
    split = {"time": "seen at", "test_size": 0.2}
    settings: dict[str, Any] = {"models": ["lightgbm"], "split": split, "target": "left", "report": {"enabled": False}}
    run = gp.Pipeline(source, **settings).run(tmp_path / "run", quiet=True)
    n_learned = (frame["age"] != 50)[:N_OLD].sum() - len(run.predictions)
    found = gp.update_model(run.path, tmp_path / "all.parquet", output=tmp_path / "one")
    assert found.n_learned_before == n_learned
    assert found.n_trained + found.comparison.n_rows == len(read) - n_learned
    read[n_learned:].to_parquet(tmp_path / "rest.parquet")
    same = gp.update_model(run.path, tmp_path / "rest.parquet", output=tmp_path / "same")
    assert same.n_learned_before == 0
    np.testing.assert_array_equal(same.run.model.predict_proba(frame), found.run.model.predict_proba(frame))
    # The training rows of the challenger are those of both trainings.
    column = next(each for each in load_reference(found.run.model).columns if each.name == "age")
    assert column.edges is not None
    cells = np.searchsorted(column.edges, read["age"][: n_learned + found.n_trained], side="right")
    np.testing.assert_array_equal(column.counts[1:], np.bincount(cells, minlength=len(column.counts) - 1))
    # The second challenger learns the rows that the first one was compared on, and nothing twice.
    again = gp.update_model(found.run.path, tmp_path / "all.parquet", output=tmp_path / "again", newest=0.5)
    assert again.n_learned_before == n_learned + found.n_trained
    with pytest.raises(DataError, match="as the model has learned the other"):
        gp.update_model(again.run.path, tmp_path / "may.parquet", output=tmp_path / "none")


def test_a_challenger_says_when_its_features_are_out_of_date(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 60, 900), "noise": rng.random(900)})
    mixed = np.where(rng.random(900) < 1 / 3, 30, 0)  # as the rows that were learned until then
    added: dict[str, Any] = {"may": 0, "june": 0, "july": 30, "august": mixed}
    for name, years in added.items():
        frame.assign(age=frame["age"] + years, left=frame["age"] > 40).to_parquet(tmp_path / f"{name}.parquet")
    settings: dict[str, Any] = {"target": "left", "models": ["xgboost"], "report": {"enabled": False}}
    before = gp.Pipeline(str(tmp_path / "may.parquet"), **settings).run(tmp_path / "run", quiet=True).path
    told = {}
    for month in ("june", "july", "august"):
        found = gp.update_model(before, tmp_path / f"{month}.parquet", output=tmp_path / month)
        before = found.run.path
        told[month] = read_lineage(before)[-1].drifted
        assert any("--with OLD): age drifted" in reason for reason in found.reasons) == bool(told[month])
    assert told == {"june": (), "july": ("age",), "august": ("age",)}
    old = tmp_path / "july.parquet"
    again = gp.update_model(before, tmp_path / "august.parquet", old, output=tmp_path / "refit")
    assert read_lineage(again.run.path)[-1].drifted == ()
