"""`task: ranking` in runs: metrics by group, models, partitions, report and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import ndcg_score

import gpupipe as gp
from gpupipe.pipeline.records.importances_and_plots import draw_groups
from gpupipe.plan.data_check import check_data

RNG = np.random.default_rng(17)
N = 1_200
FRAME = pd.DataFrame(
    {"page": RNG.integers(0, 80, N), "a": RNG.normal(size=N).round(3), "kind": RNG.choice(list("xyz"), N)}
)
FRAME["level"] = RNG.normal(size=80)[FRAME["page"]]  # of the whole page: no help within it
FRAME["clicks"] = np.digitize(FRAME["a"] + (FRAME["kind"] == "x") + 0.5 * RNG.normal(size=N), [0.5, 1.5, 2.5])
TREES: dict[str, Any] = {"xgboost": {"defaults": "library", "n_estimators": 20, "max_depth": 3}}


def pipeline(frame: Any = FRAME, **settings: Any) -> gp.Pipeline:
    defaults: dict[str, Any] = {
        "target": "clicks", "task": "ranking", "models": [TREES], "split": {"group": "page"},
        "report": {"enabled": False}, "evaluate": {"importance": False},
    }  # fmt: skip
    return gp.Pipeline(frame, **defaults | settings)


def ndcg(rows: pd.DataFrame) -> float:
    """Return scikit-learn's NDCG of predictions, page by page."""
    each = [own for _, own in rows.groupby(FRAME["page"].to_numpy()[rows["row"]])]
    known = [own for own in each if len(own) > 1 and own["target"].any()]
    return float(np.mean([ndcg_score([2.0 ** own["target"] - 1], [own["prediction"]]) for own in known]))


@pytest.mark.parametrize("split", [{"group": "page"}, {"group": "page", "cv": 3}], ids=["test rows", "folds"])
def test_metrics_are_measured_by_group(split: dict[str, Any], tmp_path: Path) -> None:
    run = pipeline(split=split, models=[TREES, "lightgbm"]).run(tmp_path / "run")
    rows, found = run.predictions, json.loads((run.path / "metrics.json").read_text())
    folds = [part for _, part in rows.groupby("fold")] if "fold" in rows else [rows]
    assert run.metrics["ndcg"] == pytest.approx(np.mean([ndcg(part) for part in folds]), abs=1e-12)
    assert set(found["models"]) == {"xgboost", "lightgbm"}
    assert run.metrics["ndcg"] > 0.85


def test_model_scorer_table_and_untrusted_model_agree(tmp_path: Path) -> None:
    run = pipeline().run(tmp_path / "run")
    unseen = FRAME[["a", "kind", "level"]].head(30)
    expected = run.model.predict(unseen)
    assert expected.shape == (30,)
    assert run.model.predict_table(unseen).column_names == ["prediction"]
    np.testing.assert_array_equal(run.model.scorer().predict(pa.Table.from_pandas(unseen).to_pylist()), expected)
    untrusted = gp.load_model(run.path, untrusted=True)
    np.testing.assert_array_equal(untrusted.predict(unseen), expected)
    untrusted.close()
    assert gp.load_model(run.path).verify().passed


def test_tuning_and_importances_rank_by_group(tmp_path: Path) -> None:
    entry = {**TREES, "tune": {"trials": 3, "folds": 2}}
    settings = {"models": [entry], "evaluate": {"importance": True}, "report": {"enabled": True}}
    run = pipeline(**settings).run(tmp_path / "run")
    tried = json.loads((run.path / "metrics.json").read_text())["search"]["xgboost"]["tried"]
    assert 0.8 < max(trial["score"] for trial in tried) < 1
    importances = run.importances.set_index("column")["importance"]
    assert importances["a"] > 10 * abs(importances.get("level", 0.0))
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert "Ranking of <b>clicks</b>" in page and "<figcaption>First rows of a group</figcaption>" in page


def test_rows_on_disk_train_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FRAME.to_parquet(tmp_path / "pages.parquet")
    one = pipeline(tmp_path / "pages.parquet")
    expected = one.run(tmp_path / "one").metrics
    monkeypatch.setattr("gpupipe.pipeline.memory.ENOUGH", 1 << 60)
    monkeypatch.setattr("gpupipe.plan.run_plan.SHARE", 0.0)  # nothing fits
    on_disk = one.run(tmp_path / "on disk")
    assert "one partition at a time" in str(on_disk.plan()[0]["reason"])
    assert on_disk.metrics == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"split": {}}, "a ranking needs the column whose equal values are ranked together"),
        ({"split": {"column": {"name": "kind", "test": ["x"]}}}, "it has no predefined split"),
        ({"weight": "a"}, "a ranking takes no row weights"),
        ({"evaluate": {"intervals": 0.9}}, "the scores of a ranking have no intervals"),
        ({"evaluate": {"metrics": ["r2"]}}, "not available for the task ranking: r2"),
        ({"models": ["ridge"]}, "ridge cannot learn the task ranking; choose from xgboost, lightgbm"),
        ({"positive": 1}, "positive: it is for classes"),
        ({"target": None}, "task: ranking needs a target"),
        ({"quantiles": [0.5]}, "they are for the task quantile"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_contradictions_are_refused_before_any_row_is_read(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(gp.ConfigError) as raised:
        pipeline(**settings)
    assert expected in str(raised.value) + " ".join(map(str, raised.value.problems))


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (FRAME["clicks"] / 2, "has the value 0.5"),
        (-FRAME["clicks"], "has the value -3"),
        (20 * FRAME["clicks"], "has the value 40"),
        (FRAME["kind"], "is categorical"),
    ],
    ids=["fractions", "negative", "large", "texts"],
)
def test_relevances_are_small_integers(values: pd.Series, what: str, tmp_path: Path) -> None:
    one = pipeline(FRAME.assign(clicks=values.to_numpy()))
    for use in (lambda: check_data(one.config), lambda: one.run(tmp_path / "run")):
        with pytest.raises(gp.SchemaError, match=f"expected a relevance, an integer from 0 to 30; 'clicks' {what}"):
            use()


def test_true_is_relevant(tmp_path: Path) -> None:
    flags = FRAME.assign(clicks=FRAME["clicks"] > 1)
    assert pipeline(flags).run(tmp_path / "flags").metrics == (
        pipeline(flags.assign(clicks=flags["clicks"].astype(int))).run(tmp_path / "numbers").metrics
    )


def test_a_row_without_a_group_is_refused(tmp_path: Path) -> None:
    for group in (FRAME["page"].where(FRAME["page"] > 3), FRAME["page"].map("page {}".format).where(FRAME["page"] > 3)):
        n_missing = int((FRAME["page"] <= 3).sum())
        with pytest.raises(gp.DataError, match=f"{n_missing} rows have no 'page', and cannot be ranked"):
            pipeline(FRAME.assign(page=group)).run(tmp_path / "run")


@pytest.mark.parametrize("split", [{}, {"cv": 3}], ids=["test rows", "folds"])
def test_a_split_by_time_keeps_groups_whole(split: dict[str, Any], tmp_path: Path) -> None:
    frame = FRAME.assign(day=FRAME["page"] + RNG.integers(0, 30, N))
    run = pipeline(frame, split={"group": "page", "time": "day", **split}).run(tmp_path / "run")
    tested = run.predictions.assign(page=frame["page"].to_numpy()[run.predictions["row"]])
    sizes = frame.groupby("page").size()
    pd.testing.assert_series_equal(tested.groupby("page").size(), sizes[sizes.index.isin(tested["page"])])
    if split:
        assert (tested.groupby("page")["fold"].nunique() == 1).all()


def test_importances_are_measured_on_whole_groups() -> None:
    groups = np.random.default_rng(0).integers(0, 500, 10_000)
    rows = draw_groups(groups, 1_000, np.random.default_rng(1))
    assert 950 < len(rows) <= 1_000
    assert set(np.flatnonzero(np.isin(groups, groups[rows]))) == set(rows)
    assert len(draw_groups(np.zeros(50), 10, np.random.default_rng(1))) == 50
