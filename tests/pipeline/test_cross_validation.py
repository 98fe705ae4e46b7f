"""Tests of runs with cross-validation: repeats, and what the exported model is trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

import gpupipe as gp
from gpupipe.training.selection.held_out_decisions import folds_to_learn_from

RNG = np.random.default_rng(3)
X = RNG.normal(size=(240, 2))
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "day": RNG.permutation(240)})
FRAME["y"] = FRAME["a"] * np.where(FRAME["day"] < 150, -1, 1) + 0.1 * RNG.normal(size=240)
FRAME["left"] = (X.sum(axis=1) + RNG.normal(size=240) > 0.8).astype(int)
INPUTS: dict[str, Any] = {"features": [{"drop": "day"}, {"standardize": "@numeric"}], "report": {"enabled": False}}


def trained(frame: pd.DataFrame, path: Path, **settings: Any) -> gp.Run:
    return gp.Pipeline(frame, **INPUTS, **settings).run(path)


def test_a_decision_is_learned_from_the_other_folds_of_its_repeat() -> None:
    assert folds_to_learn_from(1, 3, in_order=False) == [0, 2]
    assert folds_to_learn_from(5, 3, in_order=False) == [3, 4]
    assert folds_to_learn_from(2, 3, in_order=True) == [0, 1]


def test_repeats_are_averaged_and_each_row_is_predicted_once(tmp_path: Path) -> None:
    settings = {
        "target": "left",
        "models": ["logistic_regression", "gaussian_nb"],
        "evaluate": {"metrics": ["f1", "roc_auc"], "threshold": "best_f1", "importance": False},
    }
    once = trained(FRAME.drop(columns="y"), tmp_path / "once", **settings, split={"cv": 4, "seed": 1})
    thrice = trained(FRAME.drop(columns="y"), tmp_path / "thrice", **settings, split={"cv": 4, "repeats": 3, "seed": 1})
    predicted = thrice.predictions
    assert predicted["row"].tolist() == list(range(240))
    assert sorted(predicted["fold"].unique()) == [1, 2, 3, 4]
    pd.testing.assert_frame_equal(once.predictions, predicted)
    scores = [json.loads((run.path / "metrics.json").read_text()) for run in (once, thrice)]
    first = [f1_score(rows["target"], rows["prediction"]) for _, rows in once.predictions.groupby("fold")]
    assert scores[0]["models"][scores[0]["best"]]["f1"] == pytest.approx(np.mean(first), abs=1e-12)
    assert scores[0]["models"] != scores[1]["models"]


@pytest.mark.parametrize(("window", "n_last"), [("90 rows", 90), ("60", 61), ("rolling", 80)])
def test_the_exported_model_is_trained_on_the_latest_window(tmp_path: Path, window: str, n_last: int) -> None:
    settings, frame = {"target": "y", "models": ["ridge"]}, FRAME.drop(columns="left")
    found = trained(frame, tmp_path / "all", **settings, split={"time": "day", "cv": 2, "window": window})
    last = frame[frame["day"] >= 240 - n_last]
    expected = trained(last, tmp_path / "last", **settings, split={"time": "day", "cv": 2})
    np.testing.assert_allclose(found.model.predict(frame), expected.model.predict(frame), rtol=1e-9)
