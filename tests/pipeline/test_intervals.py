"""Tests of `evaluate.intervals` in runs, exported models, scorers, servers and tables of predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gpupipe as gp

RNG = np.random.default_rng(5)
N = 1_200
FRAME = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N), "day": np.arange(N)})
FRAME["y"] = FRAME["a"] + RNG.normal(size=N)
FRAME["kind"] = np.where(FRAME["y"] > 0.8, "high", np.where(FRAME["b"] > 0, "middle", "low"))
FRAME["left"] = FRAME["y"] > 0
QUIET = {"report": {"enabled": False}, "features": [{"drop": "day"}, {"standardize": "@numeric"}]}
MODELS = {"y": ["ridge"], "kind": ["logistic_regression"], "left": ["logistic_regression"]}


def trained(target: str, path: Path, level: float = 0.9, **settings: Any) -> gp.Run:
    evaluate = {"intervals": level, "importance": False} | settings.pop("evaluate", {})
    frame = FRAME[["a", "b", "day", target]]
    return gp.Pipeline(frame, target=target, models=MODELS[target], evaluate=evaluate, **QUIET | settings).run(path)


def is_inside(rows: pd.DataFrame, target: str) -> pd.Series[bool]:
    if target == "y":
        return rows["target"].between(rows["lower"], rows["upper"])
    own = [rows[f"set_{str(label).lower()}"] & (rows["target"] == label) for label in rows["target"].unique()]
    return pd.concat(own, axis=1).any(axis=1)


@pytest.mark.parametrize("split", [{}, {"cv": 4}, {"time": "day"}, {"time": "day", "cv": 4}], ids=str)
@pytest.mark.parametrize("target", ["y", "kind", "left"])
def test_the_stated_share_of_held_out_rows_is_inside(target: str, split: dict[str, Any], tmp_path: Path) -> None:
    run = trained(target, tmp_path / "run", split=split)
    found = json.loads((run.path / "metrics.json").read_text())["intervals"]
    rows = run.predictions
    if "fold" in rows and "time" in split:
        first = rows[rows["fold"] == 1]  # nothing is known before the first fold, so nothing is excluded
        assert is_inside(first, target).all()
        rows = rows[rows["fold"] > 1]
    assert found["n_rows"] == len(rows)
    assert found["coverage"] == pytest.approx(is_inside(rows, target).mean())
    assert found["coverage"] == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / len(rows)) + 4 * np.sqrt(0.09 / 192))


@pytest.mark.parametrize("target", ["y", "kind", "left"])
def test_model_scorer_and_table_agree(target: str, tmp_path: Path) -> None:
    model = trained(target, tmp_path / "run").model
    unseen = FRAME[["a", "b", "day"]].head(50)
    table, rows = model.predict_table(unseen).to_pandas(), pa.Table.from_pandas(unseen).to_pylist()
    if target == "y":
        expected, names = model.predict_interval(unseen), ["lower", "upper"]
        found, one = model.scorer().predict_interval(rows), model.scorer().predict_interval(rows[7])
    else:
        expected, names = model.predict_set(unseen), [name for name in table if name.startswith("set_")]
        found, one = model.scorer().predict_set(rows), model.scorer().predict_set(rows[7])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(one, expected[7])
    np.testing.assert_array_equal(table[names].to_numpy(), expected)
    assert gp.load_model(model.folder).decision == model.decision
    untrusted = gp.load_model(model.folder, untrusted=True)
    np.testing.assert_array_equal(untrusted.predict_table(unseen).to_pandas()[names].to_numpy(), expected)


def test_a_higher_level_gives_wider_intervals(tmp_path: Path) -> None:
    unseen = FRAME[["a", "b", "day"]].head(5)
    widths = [
        np.ptp(trained("y", tmp_path / str(level), level).model.predict_interval(unseen)[0]) for level in (0.8, 0.95)
    ]
    assert widths[0] < widths[1]


def test_a_model_without_intervals_says_how_to_get_them(tmp_path: Path) -> None:
    model = trained("left", tmp_path / "run", evaluate={"intervals": None}).model
    with pytest.raises(gp.DataError, match="the model has no prediction sets") as raised:
        model.predict_set(FRAME)
    assert "evaluate: {intervals: 0.9}" in raised.value.fix
    with pytest.raises(gp.DataError, match="a binary model has no intervals"):
        model.scorer().predict_interval({})


def test_too_few_held_out_rows_stop_the_run_before_training(tmp_path: Path) -> None:
    with pytest.raises(gp.DataError, match=r"192 held-out rows are too few for intervals at 0\.999"):
        trained("y", tmp_path / "run", 0.999)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("bad", [{"level": 2.0, "score": 1.0}, {"level": 0.9, "score": -1.0}, {"level": 0.9}])
def test_a_model_with_malformed_intervals_is_refused(bad: dict[str, float], tmp_path: Path) -> None:
    from gpupipe.model_parts.goal import Goal
    from gpupipe.model_parts.part_checks import read_decision

    with pytest.raises((ValueError, KeyError)):
        read_decision({"threshold": 0.5, "calibration": None, "intervals": bad}, Goal("regression", "y"))
