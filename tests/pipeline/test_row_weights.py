"""Tests of `source.weight` in whole runs: training, metrics, decisions, the exported model and bad weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, roc_auc_score

import gpupipe as gp

RNG = np.random.default_rng(23)
N = 400
FRAME = pd.DataFrame({"a": RNG.normal(size=N).round(1), "b": RNG.exponential(size=N).round(1)})
FRAME.loc[RNG.random(N) < 0.1, "a"] = np.nan
FRAME["plan"] = RNG.choice(["x", "y", "z"], N, p=[0.6, 0.3, 0.1])
FRAME["w"] = RNG.integers(0, 4, N)
FRAME["part"] = np.where(RNG.random(N) < 0.7, "train", "test")
FRAME["spend"] = FRAME["b"] + (FRAME["plan"] == "z") + FRAME["a"].fillna(3.0) + RNG.normal(size=N)
FRAME["left"] = (FRAME["spend"] > 2).astype(int)
REPEATED = FRAME.loc[FRAME.index.repeat(FRAME["w"])].assign(w=1).reset_index(drop=True)
SPLIT = {"column": {"name": "part", "test": ["test"]}}
FEATURES = [
    {"impute": {"columns": "a", "strategy": "median"}},
    {"standardize": ["a", "b"]},
    {"frequency_encode": "plan"},
]
LINEAR: dict[str, Any] = {"features": FEATURES, "split": SPLIT}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "linear": ("spend", LINEAR | {"models": [{"ridge": {"alpha": 2.0}}]}),
    "logistic": ("left", LINEAR | {"models": [{"logistic_regression": {"tol": 1e-10}}]}),
    "trees": ("left", {"split": SPLIT, "models": [{"xgboost": {"defaults": "library", "n_estimators": 20}}]}),
}


def trained(frame: pd.DataFrame, path: Path, target: str, **settings: Any) -> gp.Run:
    other = "left" if target == "spend" else "spend"
    quiet: dict[str, Any] = {"report": {"enabled": False}, "evaluate": {"importance": {"repeats": 2}}}
    source = {"frame": frame.drop(columns=other), "target": target, "weight": "w"}
    return gp.Pipeline(source, **quiet | settings).run(path)


def metrics(run: gp.Run) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads((run.path / "metrics.json").read_text())["models"]
    return found


@pytest.mark.parametrize("case", CASES)
def test_integer_weights_equal_repeated_rows(case: str, tmp_path: Path) -> None:
    target, settings = CASES[case]
    weighted = trained(FRAME, tmp_path / "weighted", target, **settings)
    repeated = trained(REPEATED, tmp_path / "repeated", target, **settings)
    for label, scores in metrics(repeated).items():
        assert metrics(weighted)[label] == pytest.approx(scores, rel=1e-6), label
    unseen = FRAME.drop(columns=["w", "part", target])
    output = "predict_proba" if target == "left" else "predict"
    np.testing.assert_allclose(
        getattr(weighted.model, output)(unseen), getattr(repeated.model, output)(unseen), rtol=1e-4, atol=1e-6
    )
    assert sorted(weighted.predictions["row"]) == list(np.flatnonzero((FRAME["w"] > 0) & (FRAME["part"] == "test")))


@pytest.mark.parametrize("split", [{"seed": 2}, {"cv": 3, "seed": 2}], ids=["validation", "folds"])
def test_metrics_are_those_of_scikit_learn_with_sample_weight(split: dict[str, Any], tmp_path: Path) -> None:
    evaluate = {"metrics": ["roc_auc", "log_loss"], "calibrate": "sigmoid", "threshold": "best_f1", "importance": False}
    run = trained(FRAME, tmp_path / "run", "left", models=["logistic_regression"], split=split, evaluate=evaluate)
    rows = run.predictions.assign(w=FRAME["w"].to_numpy()[run.predictions["row"]])
    folds = [rows] if "fold" not in rows else [own for _, own in rows.groupby("fold")]
    truth = [(own["target"].astype(int), own["probability_1"], own["w"]) for own in folds]
    found = metrics(run)["logistic_regression"]
    expected = [roc_auc_score(y, p, sample_weight=w) for y, p, w in truth]
    assert found["roc_auc"] == pytest.approx(np.mean(expected), abs=1e-12)
    assert found["log_loss"] == pytest.approx(np.mean([log_loss(y, p, sample_weight=w) for y, p, w in truth]), abs=1e-6)


def test_weights_move_the_threshold_and_the_calibration(tmp_path: Path) -> None:
    heavy = FRAME.assign(w=np.where(FRAME["left"] == 1, 50.0, 1.0))
    evaluate = {"threshold": "best_accuracy", "calibrate": "sigmoid", "importance": False}
    settings = {"models": ["logistic_regression"], "split": {"seed": 2}, "evaluate": evaluate}
    even = trained(FRAME.assign(w=1.0), tmp_path / "even", "left", **settings)
    uneven = trained(heavy, tmp_path / "uneven", "left", **settings)
    unseen = FRAME.drop(columns=["w", "spend", "left"])
    positives = [run.model.predict_proba(unseen)[:, 1].mean() for run in (even, uneven)]
    assert positives[0] < 0.75 < positives[1]
    shares = [(run.predictions["prediction"].astype(int) == 1).mean() for run in (even, uneven)]
    assert shares[1] > shares[0]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (np.where(np.arange(N) == 6, -1.0, 1.0), r"w: 1 row violates range: \[0, null\]: row 6: -1"),
        (np.where(np.arange(N) == 6, np.nan, 1.0), r"w: 1 row violates nulls: false: row 6"),
        (np.zeros(N), r"all weights in 'w' are 0"),
        (np.full(N, "heavy"), r"w: the column is categorical"),
    ],
    ids=["negative", "missing", "zero", "text"],
)
def test_a_bad_weight_stops_the_run_with_its_rows(weights: Any, expected: str, tmp_path: Path) -> None:
    with pytest.raises(gp.DataError, match=expected) as raised:
        trained(FRAME.assign(w=weights), tmp_path / "run", "left", models=["logistic_regression"])
    assert raised.value.exit_code == 5
    assert "weight" in f"{raised.value.what} {raised.value.where}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"weight": "left"}, "'left' is the target"),
        ({"weight": "w", "drop": ["w"]}, "'w' is the weight and cannot be listed here"),
        ({"weight": "heft"}, "heft"),
    ],
)
def test_a_wrong_weight_column_is_refused_by_name(source: dict[str, Any], expected: str, tmp_path: Path) -> None:
    with pytest.raises(gp.GpupipeError, match=expected) as raised:
        gp.Pipeline({"frame": FRAME, "target": "left"} | source, models=["gaussian_nb"]).run(tmp_path / "run")
    assert raised.value.exit_code in (2, 5)


def test_a_list_of_columns_need_not_name_the_weight(tmp_path: Path) -> None:
    settings = LINEAR | {"models": ["ridge"], "features": [{"standardize": "b"}]}
    every = trained(FRAME[["b", "w", "part", "spend", "left"]], tmp_path / "every", "spend", **settings)
    source = {"frame": FRAME, "target": "spend", "weight": "w", "columns": ["b", "part"]}
    some = gp.Pipeline(source, report={"enabled": False}, **settings).run(tmp_path / "some")
    assert metrics(some) == metrics(every)


def test_a_model_that_takes_no_weights_is_refused_before_any_row_is_read() -> None:
    with pytest.raises(gp.ConfigError, match=r"knn takes no sample weights, and source\.weight is set"):
        gp.Pipeline({"path": "nowhere.csv", "target": "left", "weight": "w"}, models=["gaussian_nb", "knn"])


def test_weights_that_sum_to_one_are_a_warning(tmp_path: Path) -> None:
    settings = LINEAR | {"models": ["ridge"]}
    run = trained(FRAME.assign(w=1 / N), tmp_path / "run", "spend", **settings)
    assert "the mean of the weights in 'w' is 0.0025" in (run.path / "log.jsonl").read_text()


def test_tensors_carry_the_weights() -> None:
    source = {"frame": FRAME.drop(columns="spend"), "target": "left", "weight": "w"}
    train, test = gp.Pipeline(source, split=SPLIT).tensors()
    used = FRAME[FRAME["w"] > 0]
    np.testing.assert_array_equal(train.weight, used.loc[used["part"] == "train", "w"].astype(np.float32))
    np.testing.assert_array_equal(test.weight, used.loc[used["part"] == "test", "w"].astype(np.float32))
