"""Selection: no choice depends on the targets that measure its result.

Each run is repeated with other targets in the rows that test it. The chosen model, its parameters, members, weights,
features, calibration and threshold must be the same to the last bit, and so must the predictions of these rows.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.config import parse_config
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.report.search_record import SearchRecord

FEATURE_FILES = ("program.npz", "levels.json", "learned.json", "features.json")
TREES = {"hist_gradient_boosting": {"defaults": "library", "max_iter": 5}}
LEADERBOARD = ["logistic_regression", TREES, {"random_forest": {"n_estimators": 3}}]
LEARNED = {"calibrate": "isotonic", "threshold": "best_f1"}
ENCODED = [{"target_encode": {"columns": ["city"], "folds": 3}}, {"standardize": "@numeric"}]

TUNED = {"xgboost": {"n_estimators": 8}, "tune": {"trials": 3, "folds": 2}}

GENERATED = [{"generate": {"arithmetic_candidates": 20, "cross_candidates": 4, "group_candidates": 4}}]
ENSEMBLE = {"best": {"models": ["logistic_regression"], "folds": 2}}

TEST_SPLITS: dict[str, dict[str, Any]] = {
    "one model": {"models": ["logistic_regression"]},
    "a threshold": {"models": ["logistic_regression"], "evaluate": LEARNED},
    "models": {"models": LEADERBOARD},
    "models, calibrated, with target encoding": {"models": LEADERBOARD, "evaluate": LEARNED, "features": ENCODED},
    "costs": {"models": LEADERBOARD, "evaluate": {"cost": {"false_positive": 1, "false_negative": 5}}},
    "groups": {"models": LEADERBOARD, "split": {"group": "household", "test_size": 0.25}},
    "time": {"models": LEADERBOARD, "evaluate": LEARNED, "split": {"time": "day", "test_size": 0.25}},
    "tuning": {"models": [TUNED, "logistic_regression"], "evaluate": LEARNED},
    "an ensemble": {"models": [ENSEMBLE], "evaluate": LEARNED},
    "an ensemble among models": {"models": [ENSEMBLE, "gaussian_nb"], "features": ENCODED},
    "generated features": {"models": ["logistic_regression", TREES], "features": GENERATED, "rows": 900},
    "numbers": {"models": ["ridge", TREES], "source": {"target": "amount"}},
}
FOLDS: dict[str, dict[str, Any]] = {
    "target encoding": {"models": [TREES], "features": ENCODED},
    "tuning": {"models": [TUNED]},
    "an ensemble": {"models": [ENSEMBLE]},
    "generated features": {"models": ["logistic_regression"], "features": GENERATED, "rows": 900},
    "groups": {"models": ["logistic_regression"], "split": {"cv": 3, "group": "household"}},
    # Under a time order a decision is learned from earlier folds only, whose models never saw a row of the last fold.
    "time": {"models": [TREES], "evaluate": LEARNED, "split": {"cv": 3, "time": "day"}},
}


def make_frame(n_rows: int = 240) -> pd.DataFrame:
    """Return rows whose targets depend on a product and on a category."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"x": rng.normal(size=n_rows), "z": rng.normal(size=n_rows), "noise": rng.random(n_rows)})
    frame["city"] = rng.choice(list("abcdefgh"), n_rows)
    frame["household"] = rng.integers(0, 60, n_rows)
    frame["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.permutation(n_rows), unit="D")
    frame["amount"] = frame.x * frame.z + frame.city.isin(["a", "b", "c"]) + rng.normal(0, 0.5, n_rows)
    frame["left"] = np.where(frame.amount > frame.amount.median(), "yes", "no")
    return frame


def with_other_targets(frame: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    """Return the frame with targets in `rows` that would make the worst model the best one."""
    other = frame.copy()
    other.loc[rows, "left"] = frame.loc[rows, "left"].map({"yes": "no", "no": "yes"})
    other.loc[rows, "amount"] = 3.0 - frame.loc[rows, "amount"]
    return other


def run(frame: pd.DataFrame, folder: Path, settings: dict[str, Any], split: dict[str, Any]) -> Run:
    """Return a finished run."""
    target = settings.get("source", {}).get("target", "left")
    drop = [name for name in ("left", "amount", "household", "day") if name not in (target, *split.values())]
    document = {
        "seed": 5, "source": {"frame": frame, "target": target, "drop": drop}, "split": {"stratify": False, **split},
        "report": {"enabled": False},
    }  # fmt: skip
    changes = {key: value for key, value in settings.items() if key not in ("source", "split", "rows")}
    changes["evaluate"] = {"importance": False, **settings.get("evaluate", {})}
    return run_pipeline(parse_config(document | changes), folder)


def choices(run: Run) -> dict[str, Any]:
    """Return what a run has chosen and learned."""
    manifest = json.loads((run.path / "model" / "manifest.json").read_text())
    learned = {file: manifest["files"][file]["sha256"] for file in FEATURE_FILES}
    searches = {entry.label: entry.search and without_times(entry.search) for entry in run.candidates}
    validation = {entry.label: entry.validation for entry in run.candidates}
    return {
        "best": run.candidates[0].label, "validation": validation, "tried": run.tried, "searches": searches,
        "model": manifest["model"], "decision": manifest["decision"], "lineage": manifest["lineage"], **learned,
    }  # fmt: skip


def without_times(search: SearchRecord) -> SearchRecord:
    return replace(search, tried=tuple(replace(each, seconds=0.0) for each in search.tried))


def predictions(run: Run) -> pd.DataFrame:
    return run.predictions.drop(columns="target").set_index("row").sort_index()


@pytest.mark.parametrize("name", TEST_SPLITS)
def test_no_choice_depends_on_the_targets_of_the_test_rows(name: str, tmp_path: Path) -> None:
    settings = TEST_SPLITS[name]
    split = settings.get("split", {"test_size": 0.25})
    frame = make_frame(settings.get("rows", 240))
    first = run(frame, tmp_path / "first", settings, split)
    tested = first.predictions["row"].to_numpy()
    other = run(with_other_targets(frame, tested), tmp_path / "other", settings, split)
    assert first.metrics != other.metrics  # the targets did change
    assert choices(other) == choices(first)
    pd.testing.assert_frame_equal(predictions(other), predictions(first), check_exact=True)
    assert other.model.predict_table(frame).equals(first.model.predict_table(frame))


@pytest.mark.parametrize("name", FOLDS)
def test_the_predictions_of_a_fold_do_not_depend_on_its_targets(name: str, tmp_path: Path) -> None:
    settings = FOLDS[name]
    split = settings.get("split", {"cv": 3})
    frame = make_frame(settings.get("rows", 240))
    first = run(frame, tmp_path / "first", settings, split)
    tested = first.predictions.query("fold == fold.max()")["row"].to_numpy()
    other = run(with_other_targets(frame, tested), tmp_path / "other", settings, split)
    assert first.metrics != other.metrics
    pd.testing.assert_frame_equal(predictions(other).loc[tested], predictions(first).loc[tested], check_exact=True)
