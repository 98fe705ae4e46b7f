"""`Scorer`: single rows have the bits of the batch path, for every family of models."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.artifact import ArtifactReader
from gpupipe.inference.parity.files import read_record
from gpupipe_kernels.rows.dot import dot_rows
from gpupipe_kernels.rows.row_loops import _run_exact
from gpupipe_kernels.rows.trees_numba import add_float32, add_float64
from gpupipe_kernels.rows.warm_up import warm

SMALL = {
    "mlp": {"epochs": 2, "width": 8},
    "random_forest": {"n_estimators": 7},
    "hist_gradient_boosting": {"max_iter": 12},
    "xgboost": {"n_estimators": 9},
}
CASES = [
    *(("binary", name) for name in (
        "logistic_regression", "random_forest", "hist_gradient_boosting", "xgboost", "knn", "gaussian_nb",
        "linear_svc", "mlp",
    )),
    *(("multiclass", name) for name in ("logistic_regression", "hist_gradient_boosting", "xgboost")),
    *(("regression", name) for name in ("ridge", "random_forest", "hist_gradient_boosting", "xgboost")),
    ("clustering", "kmeans"),
    ("embedding", "pca"),
]  # fmt: skip
FEATURES: list[Any] = [
    {"impute": {"columns": ["usage"], "indicator": True}},
    {"log1p": ["usage"]},
    {"target_encode": {"columns": ["city"], "folds": 2}},
    {"cyclic": {"columns": ["since"], "parts": ["hour"]}},
]


def customers(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    usage = np.where(rng.random(n) < 0.1, np.nan, rng.exponential(10, n).round(3))
    plan = rng.choice(np.array(["a", "b", None]), n)
    score = np.nan_to_num(usage) + 5.0 * (plan == "a") + rng.normal(0, 2, n)
    return pd.DataFrame(
        {
            "usage": usage,
            "calls": rng.integers(0, 9, n),
            "plan": plan,
            "city": rng.choice([f"city {i}" for i in range(40)], n),
            "is_member": rng.random(n) < 0.5,
            "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400 * 24, n), "h"),
            "binary": np.where(score > 10, "yes", "no"),
            "multiclass": pd.cut(score, [-99, 4, 12, 999], labels=["low", "mid", "high"]).astype(str),
            "regression": score,
        }
    )


def train(folder: Any, task: str, name: str, **more: Any) -> gp.Model:
    frame = customers()
    targets = ["binary", "multiclass", "regression"]
    features = [op for op in FEATURES if task in targets or "target_encode" not in op]
    run = gp.Pipeline(
        frame.drop(columns=[target for target in targets if target != task]),
        target=task if task in targets else None,
        models=[{name: SMALL.get(name, {})}],
        features=features,
        evaluate={"importance": False},
        **more,
    ).run(f"{folder}/{task}-{name}", quiet=True)
    return replace(gp.load_model(run.path), warns=False)  # parity rows are extreme


def parity_rows(model: gp.Model) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_record(ArtifactReader(model.folder), ()).trial.inputs.to_pylist()
    return rows


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def assert_same(found: Any, expected: Any) -> None:
    """Compare bit by bit, NaN equal to NaN."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("task", "name"), CASES, ids=lambda part: part)
def test_the_parity_rows_have_the_bits_of_the_batch_path(tmp_path, task: str, name: str) -> None:
    model = train(tmp_path, task, name)
    rows = parity_rows(model)
    for engine in ("numpy", "numba"):
        scorer = gp.load_scorer(model.folder, engine=engine)
        assert_same(scorer.features(rows), model.transform(rows))
        assert_same(scorer.predict(rows), model.predict(rows))
        if model.goal.labels:
            assert_same(scorer.predict_proba(rows), model.predict_proba(rows))
        for row in (rows[0], rows[-1]):
            assert np.array_equal(scorer.predict(row), model.predict(row)[0])


def test_compiled_code_sees_the_same_types_of_arrays_in_all_models(tmp_path) -> None:
    """Otherwise each model would compile again, and compiling ahead would not help."""
    models = [train(tmp_path, "binary", name) for name in ("logistic_regression", "hist_gradient_boosting", "xgboost")]
    loops = [_run_exact, dot_rows, add_float32, add_float64]
    warm()
    before = [len(loop.signatures) for loop in loops]
    for model in models:
        rows = parity_rows(model)
        gp.load_scorer(model.folder, engine="numba").predict_proba(rows[:1])
        gp.load_scorer(model.folder, engine="numba").predict_proba(rows)
    assert [len(loop.signatures) for loop in loops] == before


@pytest.mark.parametrize("calibrate", ["sigmoid", "isotonic"])
def test_calibration_and_threshold_apply(tmp_path, monkeypatch, calibrate: str) -> None:
    monkeypatch.setattr("gpupipe.model_parts.decision.LARGEST_LOSS", np.inf)  # also if it does not help here
    frame = customers()
    run = gp.Pipeline(
        frame[["usage", "plan", "binary"]],
        target="binary",
        models=["logistic_regression"],
        evaluate={"calibrate": calibrate, "threshold": "best_f1", "importance": False},
    ).run(tmp_path / "run", quiet=True)
    model, rows = gp.load_model(run.path), records(frame[["usage", "plan"]])
    scorer = model.scorer()
    assert model.decision.calibration is not None
    assert_same(scorer.predict_proba(rows), model.predict_proba(rows))
    assert [scorer.predict(row) for row in rows] == model.predict(rows).tolist()


@pytest.fixture(scope="module")
def churn(tmp_path_factory) -> gp.Model:
    return train(tmp_path_factory.mktemp("churn"), "binary", "logistic_regression", data={"calls": {"range": [0, 20]}})


ROW: dict[str, Any] = {
    "usage": 3.5, "calls": 2, "plan": "a", "city": "city 7", "is_member": True, "since": datetime(2024, 3, 1, 13),
}  # fmt: skip


@pytest.mark.parametrize(
    ("column", "value", "same_as"),
    [
        ("usage", "3.5", 3.5),
        ("usage", np.float32(3.5), 3.5),
        ("usage", float("inf"), None),
        ("usage", " NA ", None),
        ("plan", "", None),
        ("calls", 2.0, 2),
        ("calls", True, 1),
        ("is_member", "Yes", True),
        ("is_member", 0, False),
        ("since", "2024-03-01T13:00:00", ROW["since"]),
        ("since", "2024-03-01T14:00:00+01:00", ROW["since"]),
        ("since", ROW["since"].replace(tzinfo=UTC), ROW["since"]),
        ("since", pd.Timestamp(ROW["since"]), ROW["since"]),
        ("since", np.datetime64("2024-03-01T13:00"), ROW["since"]),
        ("since", pd.NaT, None),
    ],
)
def test_values_of_different_types_mean_the_same(churn: gp.Model, column: str, value: Any, same_as: Any) -> None:
    scorer = churn.scorer()
    assert_same(scorer.features(ROW | {column: value}), scorer.features(ROW | {column: same_as}))


def test_all_wrong_cells_of_all_rows_are_listed(churn: gp.Model) -> None:
    rows: list[dict[str, Any]] = [ROW, ROW | {"usage": "much", "since": "tomorrow"}, {**ROW, "is_member": "maybe"}]
    del rows[2]["plan"]
    with pytest.raises(gp.RowError) as refused:
        churn.scorer().predict(rows)
    cells = {(p.row, p.column, p.value) for p in refused.value.problems}
    assert cells == {
        (1, "usage", "'much'"), (1, "since", "'tomorrow'"), (2, "is_member", "'maybe'"), (2, "plan", "absent"),
    }  # fmt: skip


def test_rules_are_checked(churn: gp.Model) -> None:
    with pytest.raises(gp.RowError, match=r"row 0, column 'calls': expected range: \[0, 20\]; found 21"):
        churn.scorer().predict(ROW | {"calls": 21})


def test_something_else_than_a_dict_is_refused(churn: gp.Model) -> None:
    for wrong in ("row", 3, ["usage"], [ROW, None]):
        with pytest.raises(gp.DataError, match="expected"):
            churn.scorer().predict(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("column", "value"),
    [("plan", "\ud800"), ("usage", 10**5000), ("plan", 10**5000), ("is_member", b"\xff")],
    ids=["surrogate", "long number", "long level", "bytes"],
)
def test_values_that_no_table_can_have_are_refused(churn: gp.Model, column: str, value: Any) -> None:
    with pytest.raises(gp.RowError, match=f"column '{column}'"):
        churn.scorer().predict(ROW | {column: value})


def test_a_pickled_scorer_predicts_the_same(churn: gp.Model) -> None:
    scorer = gp.load_scorer(churn.folder)
    assert_same(pickle.loads(pickle.dumps(scorer)).predict_proba(ROW), scorer.predict_proba(ROW))


def test_no_rows_give_no_predictions(churn: gp.Model) -> None:
    assert churn.scorer().predict_proba([]).shape == (0, 2)
    assert churn.scorer().predict([]).shape == (0,)


def test_cells_of_several_requests_are_predicted_together(churn: gp.Model) -> None:
    scorer, rows = churn.scorer(), parity_rows(churn)
    parts = [scorer.encode(rows[i : i + 7]) for i in range(0, 70, 7)]
    together = type(parts[0]).concatenate(parts)
    assert together.n_rows == 70
    assert all(cells.flags.aligned for cells in together.cells)  # or compiled code would see another type
    assert_same(scorer.predict_cells(together).output, scorer.predict_cells(scorer.encode(rows[:70])).output)
    assert_same(scorer.predict_cells(together[7:14]).output, scorer.predict_cells(parts[1]).output)
    assert scorer.encode([ROW | {"plan": "z", "city": "nowhere"}, ROW]).n_unseen == {"plan": 1, "city": 1}


def test_features_of_texts(tmp_path) -> None:
    texts = ["late again", "paid", None, "", "ÄRGER İΣ 3", "NA"] * 30
    frame = pd.DataFrame({"note": texts, "left": [i % 2 for i in range(180)]})
    ops = [{"text_hash": {"columns": "note", "buckets": 8}}, {"text_counts": {"columns": "note", "counts": ["digits"]}}]
    pipeline = gp.Pipeline(
        frame, target="left", schema={"note": "text"}, features=ops, models=["logistic_regression"],
        evaluate={"importance": False},
    )  # fmt: skip
    model = gp.load_model(pipeline.run(tmp_path / "run", quiet=True).path)
    rows = [{"note": text} for text in [*texts[:6], "never seen", 12, 2.0, float("nan")]]
    for engine in ("numpy", "numba"):
        scorer = model.scorer(engine=engine)
        assert scorer.inputs == ("note",)
        assert_same(scorer.features(rows), np.concatenate([model.transform([row]) for row in rows]))


def test_values_of_a_history_are_columns_of_the_row(tmp_path) -> None:
    rng, start = np.random.default_rng(1), datetime(2024, 1, 1)
    events = pd.DataFrame(
        {
            "customer": rng.integers(0, 60, 900),
            "at": [start + timedelta(hours=int(h)) for h in rng.integers(0, 5000, 900)],
            "spent": rng.exponential(9, 900),
            "shop": rng.choice(["x", "y"], 900),
        }
    )
    frame = pd.DataFrame({"customer": range(60), "age": rng.integers(18, 90, 60), "left": [0, 1] * 30})
    as_of = "2024-06-01"
    pipeline = gp.Pipeline(
        frame, target="left", models=["logistic_regression"], evaluate={"importance": False},
        tables={"events": {"frame": events, "on": "customer", "time": "at", "cardinality": "one_to_many"}},
        features=[{"aggregate": {"table": "events", "as_of": as_of, "columns": {"spent": ["sum"], "shop": ["last"]}}}],
    )  # fmt: skip
    model = gp.load_model(pipeline.run(tmp_path / "run", quiet=True).path)
    scorer = model.scorer()
    assert set(scorer.history_inputs) == set(scorer.inputs) - {"age", "customer"}
    rows = records(frame[["customer", "age"]])
    filled = scorer.with_history(rows, {"events": events})
    assert_same(scorer.predict_proba(filled), model.predict_proba(rows, {"events": events}))
    one = scorer.with_history(rows[3], {"events": events[events.customer == 3]})
    assert one == filled[3]
    with pytest.raises(gp.RowError, match="absent"):
        scorer.predict(rows[3])
