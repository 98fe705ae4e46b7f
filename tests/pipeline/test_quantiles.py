"""Tests of `task: quantile` in runs: metrics, intervals, predictions, exported models, report and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import mean_pinball_loss

import gpupipe as gp

RNG = np.random.default_rng(31)
N = 1_500
FRAME = pd.DataFrame({"a": RNG.normal(size=N).round(3), "b": RNG.exponential(size=N).round(3), "day": np.arange(N)})
FRAME["plan"] = RNG.choice(["x", "y", "z"], N)
FRAME["y"] = FRAME["a"] + FRAME["b"] * RNG.normal(size=N)  # the spread depends on b
LEVELS = (0.05, 0.5, 0.95)
NAMES = [f"quantile_{level:g}" for level in LEVELS]
TREES: dict[str, Any] = {"xgboost": {"defaults": "library", "n_estimators": 30, "max_depth": 3}}


def pipeline(frame: pd.DataFrame = FRAME, **settings: Any) -> gp.Pipeline:
    defaults: dict[str, Any] = {
        "target": "y", "task": "quantile", "quantiles": LEVELS, "models": [TREES], "features": [{"encode": "plan"}],
        "drop": "day", "report": {"enabled": False}, "evaluate": {"importance": False},
    }  # fmt: skip
    return gp.Pipeline(frame, **defaults | settings)


def pinball(rows: pd.DataFrame) -> float:
    losses = [
        mean_pinball_loss(rows["target"], rows[name], alpha=level) for name, level in zip(NAMES, LEVELS, strict=True)
    ]
    return float(np.mean(losses))


@pytest.mark.parametrize("split", [{}, {"cv": 3}], ids=str)
def test_metrics_and_predictions_agree_and_never_cross(split: dict[str, Any], tmp_path: Path) -> None:
    run = pipeline(split=split).run(tmp_path / "run")
    rows, found = run.predictions, json.loads((run.path / "metrics.json").read_text())["models"]["xgboost"]
    assert list(rows)[-3:] == NAMES
    assert (rows[NAMES].diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    folds = [part for _, part in rows.groupby("fold")] if "fold" in rows else [rows]
    assert found["pinball_loss"] == pytest.approx(np.mean([pinball(part) for part in folds]), rel=1e-9)
    assert found["d2_pinball"] > 0.25
    assert found["coverage_error"] < 0.06


def test_model_scorer_table_and_untrusted_model_agree(tmp_path: Path) -> None:
    model = pipeline(evaluate={"intervals": 0.9, "importance": False}).run(tmp_path / "run").model
    unseen = FRAME[["a", "b", "plan"]].head(40)
    expected, ends = model.predict(unseen), model.predict_interval(unseen)
    assert expected.shape == (40, 3)
    rows, scorer = pa.Table.from_pandas(unseen).to_pylist(), model.scorer()
    np.testing.assert_array_equal(scorer.predict(rows), expected)
    np.testing.assert_array_equal(scorer.predict(rows[3]), expected[3])
    np.testing.assert_array_equal(scorer.predict_interval(rows), ends)
    for each in (gp.load_model(model.folder), gp.load_model(model.folder, untrusted=True)):
        assert each.goal.quantiles == LEVELS
        table = each.predict_table(unseen).to_pandas()
        assert list(table) == [*NAMES, "lower", "upper"]
        np.testing.assert_array_equal(table[NAMES], expected)
        np.testing.assert_array_equal(table[["lower", "upper"]], ends)
    with pytest.raises(gp.DataError, match="a quantile model has no probabilities"):
        model.predict_proba(unseen)
    assert model.predict(unseen.head(0)).shape == (0, 3)


def test_intervals_cover_and_follow_the_spread_of_a_row(tmp_path: Path) -> None:
    run = pipeline(evaluate={"intervals": 0.9, "importance": False}).run(tmp_path / "run")
    rows, found = run.predictions, json.loads((run.path / "metrics.json").read_text())["intervals"]
    assert found["coverage"] == pytest.approx(rows["target"].between(rows["lower"], rows["upper"]).mean())
    assert found["coverage"] == pytest.approx(0.9, abs=0.06)  # four standard deviations of 300 rows
    width = rows["upper"] - rows["lower"]
    spread = FRAME["b"].to_numpy()[rows["row"]]
    assert width[spread > 1.5].mean() > 2 * width[spread < 0.3].mean()
    assert (rows["upper"] - rows["quantile_0.95"]).std() == pytest.approx(0, abs=1e-9)  # one correction for all rows


def test_a_network_learns_all_quantiles_in_one_model(tmp_path: Path) -> None:
    run = pipeline(models=[{"mlp": {"epochs": 30, "width": 16}}]).run(tmp_path / "run")
    model = run.model
    assert len(model.estimator.models) == 1
    assert (np.diff(model.predict(FRAME.head(200)), axis=1) >= 0).all()
    constant = np.mean([mean_pinball_loss(FRAME["y"], np.full(N, FRAME["y"].quantile(q)), alpha=q) for q in LEVELS])
    assert pinball(run.predictions) < 0.8 * constant


def test_the_report_compares_each_quantile_with_the_rows_below_it(tmp_path: Path) -> None:
    run = pipeline(report={"enabled": True}, evaluate={"intervals": 0.9}).run(tmp_path / "run")
    page = (run.path / "report.html").read_text(encoding="utf-8")
    shares = [(run.predictions["target"] <= run.predictions[name]).mean() for name in NAMES]
    between = f"{100 * (shares[2] - shares[0]):.1f}".rstrip("0").rstrip(".")
    assert f"The true y is between its predicted quantiles 0.05 and 0.95 for {between} % of the test rows" in page
    assert "90 % are expected" in page
    assert "Prediction intervals at 90.0 %" in page


def test_weights_and_tuning_work_with_quantiles(tmp_path: Path) -> None:
    frame = FRAME.assign(w=np.where(FRAME["plan"] == "x", 3.0, 1.0))
    entry = {"xgboost": {"defaults": "library", "n_estimators": 10}, "tune": {"trials": 3, "folds": 2}}
    run = pipeline(frame, weight="w", models=[entry]).run(tmp_path / "run")
    rows = run.predictions
    weight = frame["w"].to_numpy()[rows["row"]]
    expected = np.mean([
        mean_pinball_loss(rows["target"], rows[name], alpha=level, sample_weight=weight)
        for name, level in zip(NAMES, LEVELS, strict=True)
    ])  # fmt: skip
    metrics = json.loads((run.path / "metrics.json").read_text())
    assert metrics["models"]["xgboost"]["pinball_loss"] == pytest.approx(expected, rel=1e-9)
    assert metrics["tried"]["trials"] == 3


def test_without_models_or_levels_there_are_defaults() -> None:
    made = pipeline(quantiles=None, models=None)
    assert made.config.source.quantile_levels == (0.1, 0.5, 0.9)
    from gpupipe.backends import choose
    from gpupipe.model_parts.goal import Goal
    from gpupipe.training.preparation.default_models import default_entries

    assert default_entries(Goal("quantile", "cnt"), on_gpu=choose("cpu").name == "gpu").entries


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"task": None}, "quantiles: they are for the task quantile; add task: quantile"),
        ({"quantiles": [0.9, 0.1]}, "expected ascending levels; got 0.9, 0.1"),
        ({"quantiles": [0.5, 0.5]}, "expected ascending levels"),
        ({"quantiles": [0.0, 0.5]}, "expected more than 0, got 0.0"),
        ({"quantiles": []}, "at least 1"),
        ({"positive": 1}, "positive: it is for classes; remove it, or task: quantile"),
        ({"target": None}, "task: quantile needs a target"),
        ({"models": ["ridge", TREES, "best"]}, "ridge cannot learn the task quantile; choose from hist_gradient"),
        ({"models": ["best"]}, "best cannot learn the task quantile"),
        ({"evaluate": {"metrics": ["rmse"]}}, "metrics that are not available for the task quantile: rmse"),
        ({"evaluate": {"select_by": "r2"}}, "metrics that are not available for the task quantile: r2"),
        ({"evaluate": {"cost": {"false_positive": 1, "false_negative": 5}}}, "evaluate.cost is for the task binary"),
        ({"evaluate": {"intervals": 0.8}}, "0.8 needs the quantiles 0.1 and 0.9; add them to source.quantiles"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_contradictions_are_refused_before_any_row_is_read(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(gp.ConfigError) as raised:
        pipeline(**settings)
    assert expected in str(raised.value) + " ".join(map(str, raised.value.problems))


def test_a_target_with_classes_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(gp.ConfigError, match="task: quantile needs a numeric target; 'plan' is categorical"):
        pipeline(target="plan", features=None).run(tmp_path / "run")


@pytest.mark.parametrize(
    "values",
    [
        {"task": "quantile", "quantiles": []},
        {"task": "quantile", "quantiles": [0.9, 0.1]},
        {"task": "quantile", "quantiles": [0.1, 1.5]},
        {"task": "quantile", "quantiles": ["0.1"]},
        {"task": "regression", "quantiles": [0.1]},
    ],
    ids=str,
)
def test_a_model_with_malformed_quantiles_is_refused(values: dict[str, Any]) -> None:
    from gpupipe.model_parts.part_checks import read_goal

    with pytest.raises(ValueError, match="quantiles"):
        read_goal({"target": "y", "labels": [], **values})
