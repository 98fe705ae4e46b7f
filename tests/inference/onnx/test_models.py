"""One ONNX file of a model: its predictions in two runtimes equal those of the scorer, for every family of models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from onnx.reference import ReferenceEvaluator

import gpupipe as gp

N = 240
NAT = -(2**63)
NULL_TEXTS = ["", "  ", "NA", " nan\u3000"]
EXTREMES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 1e-310, 2.0**125, 1e300, 16_777_217.0, -3.5]
SMALL: dict[str, dict[str, Any]] = {
    "catboost": {"iterations": 8, "one_hot_max_size": 3},
    "extra_trees": {"n_estimators": 5},
    "hist_gradient_boosting": {"max_iter": 6},
    "lightgbm": {"n_estimators": 8},
    "mlp": {"epochs": 2, "width": 8},
    "random_forest": {"n_estimators": 5},
    "xgboost": {"n_estimators": 8},
}
PARTS = ["year", "month", "day", "is_month_end", "hour"]
FEATURES: list[Any] = [
    {"impute": {"columns": ["usage"], "indicator": True}},
    {"yeo_johnson": "speed"},
    {"clip": {"columns": "usage", "upper": 30}},
    {"bucketize": {"columns": "age", "bins": 4}},
    {"cross": {"columns": ["plan", "city"], "as": "plan_city"}},
    {"target_encode": {"columns": ["plan_city"], "folds": 2}},
    {"cyclic": {"columns": ["since"], "parts": ["hour", "day_of_year"], "zone": "America/New_York"}},
    {"datetime_parts": {"columns": ["since"], "parts": PARTS, "zone": {"column": "zone"}}},
]


def customers() -> pd.DataFrame:
    """Return customers with columns of every kind, and a target of every task."""
    rng = np.random.default_rng(5)
    usage = np.where(rng.random(N) < 0.1, np.nan, rng.exponential(10, N).round(3))
    plan = rng.choice(np.array(["a", "b", None], object), N)
    score = np.nan_to_num(usage) + 5.0 * (plan == "a") + rng.normal(0, 2, N)
    since = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400 * 24, N), "h")
    return pd.DataFrame(
        {
            "usage": usage,
            "speed": rng.normal(0, 3, N),
            "age": rng.integers(18, 80, N),
            "plan": plan,
            "city": rng.choice([f"city {i}" for i in range(30)], N),
            "store": rng.integers(1, 9, N),
            "is_member": rng.random(N) < 0.5,
            "word": rng.choice(["yes", "no"], N),
            "zone": rng.choice(["Asia/Kolkata", "America/New_York", "UTC"], N),
            "since": pd.Series(since).where(rng.random(N) > 0.05),
            "binary": np.where(score > 10, "yes", "no"),
            "multiclass": pd.cut(score, [-99, 4, 12, 999], labels=["low", "mid", "high"]).astype(str),
            "regression": score * 1e4,
        }
    )


KINDS = ("label", "probabilities")
TARGETS = ("binary", "multiclass", "regression")


def train(folder: Path, target: Any, models: Any, **more: Any) -> gp.Model:
    """Return a small model of some of the customers' columns."""
    wanted = [target] if isinstance(target, str) else list(target)
    frame = customers().drop(columns=[name for name in TARGETS if name not in wanted])
    features = FEATURES if len(wanted) == 1 and more.get("task") is None else FEATURES[:4]
    pipeline = gp.Pipeline(
        frame, target=target, models=models, features=features, report={"enabled": False},
        schema={"store": "categorical", "word": "boolean"}, evaluate={"importance": False, **more.pop("evaluate", {})},
        **more,
    )  # fmt: skip
    run = pipeline.run(folder / "run", quiet=True)
    return replace(gp.load_model(run.path, "cpu"), warns=False)


def hard_rows(n: int = 120) -> list[dict[str, Any]]:
    """Return rows of the customers, each with up to three values that a caller may send."""
    rng, frame = np.random.default_rng(9), customers().drop(columns=list(TARGETS))
    strange: dict[str, list[Any]] = {
        "usage": EXTREMES, "speed": EXTREMES, "age": [np.nan, -5.0, 2**40], "plan": [*NULL_TEXTS, "z", "A"],
        "city": [*NULL_TEXTS, "city 1 ", "Malmö"], "store": [np.nan, 3.0, 99.0, -0.0], "is_member": [None],
        "word": ["YES ", "", "f", " 0"], "zone": [*NULL_TEXTS, "Asia/Tokyo", "Moon"],
        "since": [pd.NaT, *map(datetime.fromisoformat, ("1969-12-31T23:59:59.999999", "2000-02-29", "9999-12-31"))],
    }  # fmt: skip
    rows = []
    for i in rng.integers(0, N, n):
        row = frame.iloc[i].to_dict()
        for name in rng.choice(list(strange), rng.integers(0, 4), replace=False):
            values = strange[name]
            row[name] = values[rng.integers(len(values))]
        rows.append({name: None if value is pd.NaT or value != value else value for name, value in row.items()})
    return rows


def feeds(rows: Sequence[Mapping[str, Any]], inputs: Mapping[str, str]) -> dict[str, Any]:
    """Return rows as the documentation tells users to pass them; `inputs` has the ONNX type of each column."""
    found: dict[str, Any] = {}
    for name, kind in inputs.items():
        values = [row[name] for row in rows]
        if kind == "tensor(string)":
            array: Any = np.array(["" if value is None else value.strip() for value in values], object)
        elif kind == "tensor(int64)":
            array = np.array(values, "datetime64[us]").view(np.int64)
        else:
            array = np.array([np.nan if value is None else value for value in values], np.float64)
        found[name] = array.reshape(-1, 1)
    return found


def outputs_of(path: Path, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the outputs of a file for rows, by name, in each runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = feeds(rows, {each.name: each.type for each in session.get_inputs()})
    names = [each.name for each in session.get_outputs()]
    yield dict(zip(names, session.run(None, given), strict=True))
    with np.errstate(all="ignore"):
        yield dict(zip(names, ReferenceEvaluator(str(path)).run(None, given), strict=True))


def assert_equal_to_scorer(model: gp.Model, path: Path, rows: Sequence[dict[str, Any]]) -> None:
    scorer = model.scorer("numpy")
    for found in outputs_of(path, rows):
        if model.goal.labels:
            np.testing.assert_allclose(found["probabilities"], scorer.predict_proba(rows), rtol=0, atol=1e-5)
            assert np.mean(found["label"] == scorer.predict(rows)) > 0.99
        else:
            wanted = scorer.predict(rows)
            values = found["quantiles" if model.goal.quantiles else "prediction"]
            np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


CASES = [
    *((task, name) for task in TARGETS for name in ("xgboost", "lightgbm", "catboost", "hist_gradient_boosting")),
    ("binary", "random_forest"), ("multiclass", "extra_trees"), ("regression", "random_forest"),
    ("binary", "logistic_regression"), ("multiclass", "logistic_regression"), ("regression", "ridge"),
    ("binary", "mlp"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "name"), CASES, ids=lambda part: part)
def test_a_file_predicts_what_the_scorer_predicts(tmp_path: Path, target: str, name: str) -> None:
    model = train(tmp_path, target, [{name: SMALL.get(name, {})}])
    found = model.to_onnx(tmp_path / "model.onnx")
    assert [each.runtime for each in found.comparisons] == ["ONNX Runtime", "onnx.reference"]
    assert_equal_to_scorer(model, tmp_path / "model.onnx", hard_rows())


def test_an_ensemble_reads_the_columns_of_its_members(tmp_path: Path) -> None:
    best = {"best": {"folds": 2, "models": ["logistic_regression"], "members": 2}}
    model = train(tmp_path, "multiclass", [best])
    assert model.estimator.library == "ensemble"
    model.to_onnx(tmp_path / "model.onnx")
    assert_equal_to_scorer(model, tmp_path / "model.onnx", hard_rows(40))


def test_quantiles_are_in_order(tmp_path: Path) -> None:
    model = train(tmp_path, "regression", [{"lightgbm": {"n_estimators": 4}}], task="quantile")
    model.to_onnx(tmp_path / "model.onnx")
    assert_equal_to_scorer(model, tmp_path / "model.onnx", hard_rows(40))


def test_each_of_several_targets_has_outputs(tmp_path: Path) -> None:
    model = train(tmp_path, ["binary", "multiclass"], [{"xgboost": {"n_estimators": 4}}])
    found = model.to_onnx(tmp_path / "model.onnx")
    targets = ("binary", "multiclass")
    assert [each.name for each in found.outputs] == [f"{kind}_{t}" for t in targets for kind in KINDS]
    rows, scorer = hard_rows(40), model.scorer("numpy")
    wanted, labels = scorer.predict_proba(rows), scorer.predict(rows)
    for outputs in outputs_of(tmp_path / "model.onnx", rows):
        for i, target in enumerate(targets):
            np.testing.assert_allclose(outputs[f"probabilities_{target}"], wanted[i], rtol=0, atol=1e-5)
            assert (outputs[f"label_{target}"] == labels[:, i]).all()


@pytest.mark.parametrize(
    ("target", "calibrate"),
    [("binary", "sigmoid"), ("binary", "isotonic"), ("multiclass", "temperature"), ("multiclass", "isotonic")],
)
def test_calibration_and_threshold_are_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, calibrate: str
) -> None:
    monkeypatch.setattr("gpupipe.model_parts.decision.LARGEST_LOSS", np.inf)  # also if it does not help here
    threshold = {"threshold": "best_f1"} if target == "binary" else {}
    model = train(tmp_path, target, ["logistic_regression"], evaluate={"calibrate": calibrate, **threshold})
    assert model.decision.calibration is not None
    model.to_onnx(tmp_path / "model.onnx")
    assert_equal_to_scorer(model, tmp_path / "model.onnx", hard_rows())
