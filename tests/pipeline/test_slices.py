"""Metrics of slices and limits of ``evaluate.fail_on``, compared with pandas and scikit-learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

import gpupipe as gp
from gpupipe.metrics import SliceColumn
from gpupipe.model_parts.slice_levels import MOST_LEVELS, frequent_levels, number_levels
from gpupipe.plan.data_check import check_data

RANDOM = np.random.default_rng(11)
N = 900
FRAME = pd.DataFrame(
    {
        "visits": RANDOM.normal(size=N),
        "spend": RANDOM.gamma(2.0, size=N),
        "shop": RANDOM.choice(np.array(["harbour", "market", "station", None], object), N, p=[0.5, 0.25, 0.15, 0.1]),
        "children": RANDOM.integers(0, 4, N),
        "code": [f"{i % 300:04d}" for i in range(N)],
        "weight": RANDOM.uniform(0.5, 2.0, N),
    }
)
FRAME["bought"] = np.where(
    FRAME.visits * np.where(FRAME["shop"] == "station", -1.0, 2.0) + RANDOM.logistic(size=N) > 0, "yes", "no"
)
FRAME["paid"] = 3.0 * FRAME.spend + RANDOM.normal(size=N) * np.where(FRAME["shop"] == "market", 4.0, 1.0)


def pipeline(source: Any = FRAME, **settings: Any) -> gp.Pipeline:
    given: dict[str, Any] = {
        "target": "bought", "drop": ["shop", "code", "paid"], "models": ["logistic_regression"],
        "report": {"enabled": False},
    }  # fmt: skip
    settings = given | settings
    settings["evaluate"] = {"metrics": ["roc_auc", "accuracy"], "importance": False} | settings.get("evaluate", {})
    return gp.Pipeline(source, **settings)


def levels_of(values: Any, own: SliceColumn) -> pd.Series:
    codes, names = number_levels(np.asarray(values), own)
    assert codes.dtype == np.int8
    return pd.Series(pd.Categorical.from_codes(codes.tolist(), pd.Index(names), ordered=True))


@pytest.mark.parametrize("bins", [2, 4, 5, None])
def test_bins_have_equally_many_rows_as_those_of_pandas(bins: int | None) -> None:
    x = RANDOM.normal(size=997)
    found = levels_of(np.append(x, np.nan), SliceColumn(column="x", bins=bins))
    assert found.isna().to_numpy().nonzero()[0].tolist() == [997]
    expected = pd.Series(pd.qcut(x, bins or 4)).value_counts().to_numpy()
    np.testing.assert_allclose(found.value_counts().to_numpy(), expected, atol=1)
    assert found.cat.categories[0].startswith("below ") and found.cat.categories[-1].endswith(" and above")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_value_on_an_edge_is_in_the_bin_that_begins_there(dtype: str) -> None:
    x = np.array([0.69, 0.7, 0.71, 2014.0, 2015.0, np.nan], dtype)
    found = levels_of(x, SliceColumn(column="x", bins=(0.7, 2015.0)))
    expected = ["below 0.7", "0.7 to below 2015", "0.7 to below 2015", "0.7 to below 2015", "2015 and above"]
    assert found.dropna().tolist() == expected


def test_few_whole_numbers_are_levels_and_times_are_bins() -> None:
    assert levels_of([2.0, 0.0, 1995.0, np.nan], SliceColumn(column="x")).tolist()[:3] == ["2", "0", "1995"]
    times = pd.date_range("2024-01-01", periods=8, freq="D").to_numpy("datetime64[us]").astype("int64")
    assert (
        levels_of(times, SliceColumn(column="t", bins=2)).tolist()
        == ["below 2024-01-04"] * 3 + ["2024-01-04 and above"] * 5
    )
    for mostly_zero in ([0.0] * 9 + [3.5], [-1.5] * 50 + [0.25] * 2):
        assert levels_of(mostly_zero, SliceColumn(column="x")).nunique() == 2
    assert levels_of([np.nan, np.nan], SliceColumn(column="x", bins=3)).isna().all()
    assert levels_of([0.5] * 4, SliceColumn(column="x", bins=3)).unique().tolist() == ["all values"]


def test_close_edges_have_different_names() -> None:
    assert levels_of(1.7e9 + np.arange(12) / 4, SliceColumn(column="x")).nunique() == 4


def test_rare_levels_are_pooled_and_counted() -> None:
    levels = [f"L{i}" for i in range(40)]
    codes = np.repeat([*range(40), -1], [*([50] * 3), *([25] * 2), *([2] * 35), 7])
    found, names = frequent_levels(codes, levels, SliceColumn(column="c"))
    counts = dict(zip(*np.unique(found, return_counts=True), strict=True))
    assert names == ["L0", "L1", "L2", "L3", "L4", "35 other levels"]
    assert counts == {-1: 7, 0: 50, 1: 50, 2: 50, 3: 25, 4: 25, 5: 70}
    _, names = frequent_levels(np.repeat(range(40), 60), levels, SliceColumn(column="c"))
    assert len(names) == MOST_LEVELS and names[-1] == "21 other levels"
    _, names = frequent_levels(np.arange(40), levels, SliceColumn(column="c"))
    assert names == ["40 levels"]


def expected_scores(rows: pd.DataFrame, by: pd.Series, score: Any) -> dict[str, float]:
    return {str(level): score(part) for level, part in rows.groupby(by[rows["row"]].to_numpy(), dropna=True)}


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "sales.csv"
    FRAME.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(csv: Path, tmp_path_factory: pytest.TempPathFactory) -> gp.Run:
    """Return a run on folds whose slices are of dropped, encoded and numeric columns, and which misses a limit."""
    evaluate = {
        "by": ["shop", "children", {"column": "spend", "bins": [1, 2.5]}, "code"], "threshold": "best_f1",
        "fail_on": {"min": {"roc_auc": 0.5}, "min_slice": {"roc_auc": 0.6}, "max_slice": {"log_loss": 9}},
    }  # fmt: skip
    with pytest.raises(gp.QualityError) as raised:
        pipeline(csv, split={"cv": 3}, evaluate=evaluate).run(tmp_path_factory.mktemp("runs") / "run")
    error = raised.value
    assert error.exit_code == 6 and "roc_auc is" in str(error) and "for shop: station (" in str(error)
    assert error.run.path.joinpath("model", "manifest.json").is_file()
    done: gp.Run = error.run
    return done


@pytest.mark.parametrize("column", ["shop", "children", "spend"])
def test_slices_have_the_metrics_of_scikit_learn(run: gp.Run, column: str) -> None:
    rows, found = run.predictions, run.slices[run.slices["column"] == column].set_index("level")
    by = FRAME[column]
    if column == "spend":
        by = pd.cut(by, [-np.inf, 1, 2.5, np.inf], right=False, labels=found.index.tolist()).astype(str)
    by = by.astype(object).where(by.notna(), None)
    auc = expected_scores(rows, by, lambda part: roc_auc_score(part["target"] == "yes", part["probability_yes"]))
    right = expected_scores(rows, by, lambda part: accuracy_score(part["target"], part["prediction"]))
    assert {str(level): value for level, value in auc.items()} == pytest.approx(
        {k: v for k, v in found["roc_auc"].items() if isinstance(k, str)}
    )
    assert {str(level): value for level, value in right.items()} == pytest.approx(
        {k: v for k, v in found["accuracy"].items() if isinstance(k, str)}
    )
    assert found["n_rows"].sum() == N
    assert (found["roc_auc_low"] <= found["roc_auc"]).all() and (found["roc_auc"] <= found["roc_auc_high"]).all()
    assert run.slices.attrs["overall"]["roc_auc"] == pytest.approx(
        roc_auc_score(rows["target"] == "yes", rows["probability_yes"])
    )


def test_missing_values_are_a_slice_and_only_the_planted_one_is_worse(run: gp.Run) -> None:
    found = run.slices
    missing = found[(found["column"] == "shop") & found["level"].isna()]
    assert missing["n_rows"].tolist() == [FRAME["shop"].isna().sum()]
    assert found.loc[found["is_worse"], "level"].tolist() == ["station"]
    assert found.loc[found["column"] == "code", "level"].tolist() == ["300 levels"]
    (warning,) = [note.text for note in run.timeline.all_notes("warning") if "more than chance" in note.text]
    assert warning.startswith("roc_auc is ") and "for shop: station (" in warning


def test_a_missed_limit_is_recorded_and_read_again(run: gp.Run) -> None:
    (missed,) = gp.load_run(run.path).missed_limits
    station = run.slices[run.slices["level"] == "station"].iloc[0]
    assert missed == {
        "rule": "min_slice", "metric": "roc_auc", "limit": 0.6, "value": station["roc_auc"], "column": "shop",
        "level": "station", "n_rows": station["n_rows"],
    }  # fmt: skip
    with pytest.raises(gp.QualityError, match=r"misses evaluate\.fail_on"):
        gp.load_run(run.path).require_limits()
    document = json.loads((run.path / "metrics.json").read_text())
    assert "log_loss" in document["models"]["logistic_regression"]  # a limit adds its metric
    folds = [fold["roc_auc"] for fold in document["folds"]["logistic_regression"]]
    assert np.mean(folds) == pytest.approx(run.metrics["roc_auc"]) and len(folds) == 3
    assert [fold["roc_auc"] for fold in gp.load_run(run.path).candidates[0].folds] == folds
    card = (run.path / "model" / "README.md").read_text()
    assert "| `shop` | `station` |" in card and "were not evaluated separately" not in card


def test_a_limit_that_cannot_be_checked_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError("no slices")

    monkeypatch.setattr("gpupipe.pipeline.run.add_slices", fail)
    with pytest.raises(gp.QualityError, match="roc_auc is undefined"):
        pipeline(evaluate={"by": "shop", "fail_on": {"min_slice": {"roc_auc": 0.1}}}).run(tmp_path / "run")
    assert len(gp.load_run(tmp_path / "run").model.predict(FRAME)) == N  # the run is complete


def test_a_kept_limit_returns_the_run_and_small_slices_are_not_checked(tmp_path: Path) -> None:
    evaluate = {"by": "shop", "fail_on": {"min_slice": {"roc_auc": 0.999}, "min_rows": 10_000}}
    done = pipeline(evaluate=evaluate).run(tmp_path / "run")
    assert done.missed_limits == [] and done.require_limits() is done
    assert any("no slice is checked" in note.text for note in done.timeline.all_notes("warning"))
    plain = pipeline().run(tmp_path / "plain")
    assert plain.slices.empty and plain.slices.columns.tolist() == ["column", "level", "n_rows", "is_worse"]
    assert "slices" not in plain.document and "fail_on" not in plain.document


def test_a_slice_of_one_class_has_no_area_and_says_why(tmp_path: Path) -> None:
    frame = FRAME.assign(kind=np.where(FRAME["bought"] == "yes", RANDOM.choice(["a", "b"], N), "a"))
    evaluate = {"by": "kind", "fail_on": {"min_slice": {"roc_auc": 0.01}}}
    done = pipeline(frame, drop=["shop", "code", "paid", "kind"], evaluate=evaluate).run(tmp_path / "run")
    alone = next(each for each in done.document["slices"]["columns"]["kind"] if each["level"] == "b")
    written = json.loads((done.path / "metrics.json").read_text())["slices"]["columns"]["kind"]
    assert alone["notes"] == ["roc_auc is undefined: the rows have only one class"]
    assert [each["metrics"]["roc_auc"] for each in written if each["level"] == "b"] == [None]
    assert done.missed_limits == []
    texts = [note.text for note in done.timeline.all_notes("warning")]
    assert any("kind: b (" in text and "is not checked: roc_auc is undefined" in text for text in texts)


def test_weights_and_several_targets(tmp_path: Path) -> None:
    weighted = pipeline(
        target="paid", weight="weight", drop=["bought", "code", "shop"], models=["ridge"],
        evaluate={"metrics": ["r2"], "by": "shop"},
    ).run(tmp_path / "weighted")  # fmt: skip
    rows = weighted.predictions
    part = rows[FRAME["shop"][rows["row"]].to_numpy() == "market"]
    expected = r2_score(part["target"], part["prediction"], sample_weight=FRAME["weight"][part["row"]])
    found = weighted.slices.set_index("level")
    assert found.loc["market", "r2"] == pytest.approx(expected)
    assert found.index[found["is_worse"]].tolist() == ["market"]
    both = pipeline(
        target=["paid", "visits"], drop=["bought", "code"], models=["ridge"], evaluate={"metrics": ["r2"], "by": "shop"}
    ).run(tmp_path / "both")
    rows = both.predictions
    part = rows[FRAME["shop"][rows["row"]].to_numpy() == "market"]
    own = r2_score(part["target_paid"], part["prediction_paid"])
    assert both.slices.set_index("level").loc["market", "r2[paid]"] == pytest.approx(own)


def test_rows_on_disk_have_the_same_slices(csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pipeline(csv, evaluate={"by": ["shop", "children", "spend"]})
    expected = made.run(tmp_path / "one").slices
    monkeypatch.setattr("gpupipe.pipeline.memory.ENOUGH", 1 << 60)
    monkeypatch.setattr("gpupipe.plan.run_plan.SHARE", 0.0)  # nothing fits
    on_disk = made.run(tmp_path / "on disk")
    assert "one partition at a time" in str(on_disk.plan()[0]["reason"])
    pd.testing.assert_frame_equal(on_disk.slices, expected, rtol=1e-3)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("shopp", "did you mean 'shop'"),
        ({"column": "shop", "bins": 3}, "column 'shop' has levels; bins are for numbers and times"),
        ({"column": "code", "bins": [1]}, "column 'code' has levels; bins are for numbers and times"),
    ],
)
def test_unsuitable_columns_are_found_before_training(csv: Path, tmp_path: Path, by: Any, expected: str) -> None:
    made = pipeline(csv, evaluate={"by": by})
    with pytest.raises(gp.GpupipeError) as checked:
        check_data(made.config)
    assert expected in str(checked.value) and "evaluate.by" in str(checked.value)
    with pytest.raises(gp.GpupipeError) as raised:
        made.run(tmp_path / "run")
    assert expected in str(raised.value) and raised.value.where == "evaluate.by"


def test_slices_need_a_target(csv: Path) -> None:
    config = pipeline(csv, target=None, models=["kmeans"], evaluate={"metrics": None, "by": "shop"}).config
    with pytest.raises(gp.ConfigError, match="slices are for classification, regression and quantiles"):
        check_data(config)
