"""Tests of `Model.drift`: the reference of a run, and tables that are read, counted, scored and compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe import Pipeline
from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.backends import choose
from gpupipe.errors import ArtifactError, ConfigError, DataError, LimitError, SchemaError
from gpupipe.inference.drift import cluster
from gpupipe.inference.drift.comparison import compare
from gpupipe.inference.drift.detection import load_reference
from gpupipe.inference.drift.periods import period_name, period_numbers
from gpupipe.inference.drift.report import DriftReport
from gpupipe.inference.drift.sample import EvenSample, stride_of
from gpupipe.inference.model import Model, load_model
from gpupipe.inference.prediction.batches import predict_rows
from gpupipe.io.chunks import chunk_reader, chunk_stream
from tests.inline_workers import InlineWorkers

OWN_KEYS = {"format", "format_version", "created", "gpupipe", "libraries", "files", "manifest_sha256"}
CHANGE = pd.Timestamp("2024-01-21")


def customers(n: int, seed: int, days: int = 30) -> pd.DataFrame:
    """Return rows with a column of each kind; `y` depends on `x` and `plan`."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.normal(50, 10, n).round(3),
            "size": rng.integers(0, 5, n),
            "plan": rng.choice(["a", "b", "00501"], n, p=[0.5, 0.3, 0.2]),
            "street": rng.choice([f"street {i}" for i in range(400)], n),
            "flag": rng.random(n) < 0.3,
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 86_400 * days, n), unit="s"),
        }
    )
    frame.loc[rng.random(n) < 0.1, "x"] = np.nan
    odds = (frame["x"].fillna(50) - 50) / 10 + (frame["plan"] == "a")
    frame["y"] = np.where(odds + rng.logistic(size=n) > 0.5, "yes", "no")
    return frame


def shifted(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a higher `x` and another plan from `CHANGE` on."""
    changed = frame.copy()
    is_later = changed["at"] >= CHANGE
    changed.loc[is_later, "x"] += 10
    changed.loc[is_later & (changed.index % 4 == 0), "plan"] = "new"
    return changed


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    pipeline = Pipeline(
        customers(4_000, 0), target="y", positive="yes", models=["logistic_regression"], device="cpu",
        report={"enabled": False}, split={"test_size": 0.25, "seed": 1},
        evaluate={"importance": {"repeats": 1}},
    )  # fmt: skip
    return pipeline.run(tmp_path_factory.mktemp("drift") / "run", quiet=True).model


def plain(report: DriftReport) -> str:
    return json.dumps({**report.to_json(), "notes": []}, sort_keys=True)


def named(report: DriftReport, name: str) -> Any:
    return next(each for each in (*report.columns, *report.scores) if each.name == name)


def test_the_reference_has_the_training_rows_of_the_exported_model(model: Model) -> None:
    """The training rows are those that the run has not predicted."""
    reference: dict[str, Any] = {column.name: column for column in load_reference(model).columns}
    tested = pd.read_parquet(model.folder.parent / "predictions.parquet")["row"]
    frame = customers(4_000, 0).drop(index=tested.tolist())
    x = frame["x"].astype("float64")
    edges = reference["x"].edges.astype("float64").tolist()
    expected = pd.cut(x, edges, right=False).value_counts(sort=False).tolist()
    assert reference["x"].counts.tolist() == [x.isna().sum(), 0, *expected, 0]
    assert max(expected) <= 2 * min(expected)
    plans = frame["plan"].value_counts()
    assert dict(zip(reference["plan"].levels, reference["plan"].counts[3:].tolist(), strict=True)) == plans.to_dict()
    streets = frame["street"].value_counts()
    once = int((streets == 1).sum())
    assert reference["street"].counts[1] == once and not reference["street"].levels  # few rows each
    assert reference["street"].counts[2] == len(frame) - once - reference["street"].counts[3:].sum()
    assert reference["flag"].counts.sum() == reference["at"].counts.sum() == len(frame)


def test_rows_like_those_of_the_training_have_not_drifted(model: Model) -> None:
    report = model.drift(customers(5_000, 1))
    assert (report.severity, report.drifted, report.n_rows, report.n_scored) == ("none", (), 5_000, 5_000)
    assert {metric.name for metric in report.metrics} >= {"roc_auc", "log_loss"}
    assert not any(metric.is_worse for metric in report.metrics)
    assert all(metric.low < metric.value < metric.high for metric in report.metrics)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "frame", "cluster", "cluster of csv"])
def test_the_report_does_not_depend_on_the_form_of_the_table(
    model: Model, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = shifted(customers(6_000, 2))
    expected = model.drift(frame, by="day")
    monkeypatch.setattr(chunk_stream, "CHUNK_BYTES", 60_000)
    monkeypatch.setattr(chunk_stream, "SLICE_CELLS", 3_000)
    csv, parquet = tmp_path / "new.csv", tmp_path / "new.parquet"
    frame.to_csv(csv, index=False)
    frame.to_parquet(parquet, row_group_size=700)
    if ending == "jsonl":
        frame.assign(at=frame["at"].astype(str)).to_json(tmp_path / "new.jsonl", orient="records", lines=True)
    if ending.startswith("cluster"):
        path = str(csv if "csv" in ending else parquet)
        reference, workers = load_reference(model), InlineWorkers(choose("cpu"), 2, copies=True)
        scanned = cluster.scan_on_workers(model, reference, model.source_of(path), "day", workers)
        found = compare(model, reference, scanned, partial(predict_rows, model))
    else:
        found = model.drift(frame if ending == "frame" else tmp_path / f"new.{ending}", by="day")
    assert plain(found) == plain(expected)


def test_a_drift_is_dated_and_described(model: Model) -> None:
    report = model.drift(shifted(customers(9_000, 3)), by="day:at")
    assert [period.severity == "none" for period in report.periods] == [True] * 20 + [False] * 10
    assert report.since == named(report, "x").since == named(report, "plan").since == "2024-01-21"
    assert report.reaches("moderate") and named(report, "probability_yes").periods[-1].severity != "none"
    assert {column.name for column in report.drifted} == {"x", "plan"}
    assert named(report, "plan").change.startswith("level 'a' ") and "unseen 0.0% → " in named(report, "plan").change
    assert named(report, "x").change.startswith("median ")
    assert named(report, "x").wasserstein == pytest.approx(1 / 3, abs=0.05)
    assert report.lines()[-1] == report.verdict and repr(report.severity)[1:-1] in report._repr_html_()


def test_the_columns_of_the_training_table_have_not_drifted(model: Model) -> None:
    assert model.drift(customers(4_000, 0)).drifted == ()


def test_a_column_that_became_null_is_high(model: Model) -> None:
    report = model.drift(customers(500, 4).assign(x=None).drop(columns="y"))
    assert named(report, "x").severity == "high" and report.reaches("moderate")
    assert named(report, "x").change.startswith("null ") and report.metrics == ()


def test_a_metric_that_is_worse_is_reported(model: Model) -> None:
    frame = customers(4_000, 5)
    frame["y"] = np.random.default_rng(0).permutation(frame["y"])
    report = model.drift(frame)
    assert report.severity == "none" and next(m for m in report.metrics if m.name == "roc_auc").is_worse
    strange = model.drift(frame.assign(y="perhaps"))
    assert strange.metrics == () and strange.n_labelled == 0 and any("label" in note for note in strange.notes)


def test_intervals_have_the_width_of_the_normal_theory(model: Model) -> None:
    frame = customers(3_000, 6)
    found = next(metric for metric in model.drift(frame).metrics if metric.name == "accuracy")
    expected = 2 * 1.96 * np.sqrt(found.value * (1 - found.value) / len(frame))
    assert found.high - found.low == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize(
    ("by", "error", "word"),
    [("year", ConfigError, "'year'"), ("day:when", ConfigError, "'when'"), ("hour", LimitError, "day")],
)
def test_invalid_periods_are_refused(model: Model, by: str, error: type[Exception], word: str) -> None:
    with pytest.raises(error) as caught:
        model.drift(customers(2_000, 7), by=by)
    assert word in str(caught.value)


def test_bad_tables_are_refused_as_in_a_prediction(model: Model, tmp_path: Path) -> None:
    frame = customers(300, 8)
    with pytest.raises(SchemaError) as caught:
        model.drift(frame.astype({"x": object}).assign(x="high"))
    with pytest.raises(SchemaError) as predicted:
        model.predict(frame.astype({"x": object}).assign(x="high"))
    assert str(caught.value) == str(predicted.value)
    with pytest.raises(SchemaError):
        model.drift(frame.drop(columns="plan"))
    frame.head(0).to_csv(tmp_path / "empty.csv", index=False)
    for empty in (frame.head(0), tmp_path / "empty.csv"):
        with pytest.raises(DataError):
            model.drift(empty)


def test_a_model_without_a_reference_predicts_and_says_what_to_do(model: Model, tmp_path: Path) -> None:
    reader, writer = ArtifactReader(model.folder), ArtifactWriter(tmp_path / "model")
    for name in reader.names():
        if not name.startswith("drift"):
            writer.file(name).write_bytes(reader.read(name))
    writer.finish({key: value for key, value in reader.manifest.items() if key not in OWN_KEYS})
    old = load_model(tmp_path / "model", "cpu")
    assert len(old.predict(customers(5, 0))) == 5
    with pytest.raises(ArtifactError) as caught:
        old.drift(customers(5, 0))
    assert "run" in caught.value.fix


def test_a_reference_of_another_model_is_refused(model: Model) -> None:
    schema = model.features.input_schema
    other = replace(model, features=replace(model.features, schema=schema.without(["x"])))
    with pytest.raises(ArtifactError):
        load_reference(other)


def test_text_that_cannot_be_read_in_chunks_is_counted_once(model: Model, tmp_path: Path) -> None:
    frame = customers(3_000, 9)
    expected = plain(model.drift(frame))
    frame.to_csv(tmp_path / "new.csv", index=False)
    read = chunk_reader.read_chunk
    calls: list[Any] = []

    def fails(chunk: Any, *given: Any) -> Any:
        calls.append(chunk)
        table, facts = read(chunk, *given)
        return (pa.table({}), replace(facts, failed=True)) if not chunk.is_whole and len(calls) > 2 else (table, facts)

    with patch.object(chunk_stream, "CHUNK_BYTES", 30_000), patch.object(chunk_stream, "read_chunk", fails):
        found = model.drift(tmp_path / "new.csv")
    assert calls[-1].is_whole and plain(found) == expected


def test_features_of_a_history_are_scored_on_all_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame(
        {
            "card": rng.integers(0, 40, n).astype(str), "at": pd.date_range("2024-01-01", periods=n, freq="h"),
            "amount": rng.lognormal(3, 1, n).round(2),
        }
    )  # fmt: skip
    frame["y"] = frame["amount"] * 2 + rng.normal(size=n)
    rolling = {"key": "card", "time": "at", "columns": ["amount"], "windows": ["7d"], "functions": ["mean"]}
    pipeline = Pipeline(
        frame, target="y", models=["ridge"], device="cpu", report={"enabled": False},
        features=[{"rolling": rolling}], split={"time": "at", "test_size": 0.2}, evaluate={"importance": False},
    )  # fmt: skip
    model = pipeline.run(tmp_path / "run", quiet=True).model
    report = model.drift(frame, by="week")
    assert report.n_scored == n and named(report, "amount").severity == "none"
    assert not report.has_importances and report.notes


def test_calibrated_probabilities_of_folds_are_not_compared(tmp_path: Path) -> None:
    pipeline = Pipeline(
        customers(600, 0), target="y", models=["logistic_regression"], device="cpu", report={"enabled": False},
        split={"cv": 3}, evaluate={"calibrate": "isotonic", "importance": False},
    )  # fmt: skip
    report = pipeline.run(tmp_path / "run", quiet=True).model.drift(customers(2_000, 1))
    assert [score.name for score in report.scores] == ["prediction"] and report.severity == "none"


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_a_sample_does_not_depend_on_the_chunks(heights: list[int], most: int) -> None:
    sample, n_rows = EvenSample(most), sum(heights)
    rows: Iterator[int] = iter(range(n_rows))
    for height in heights:
        sample.add(pa.table({"row": pa.array([next(rows) for _ in range(height)], pa.int64())}))
    kept = [row for table in sample.tables() for row in table.column("row").to_pylist()]
    assert kept == list(range(0, n_rows, stride_of(n_rows, most))) and len(kept) <= most
    assert n_rows < most or len(kept) > most // 2 - 1


@given(st.datetimes(pd.Timestamp("1900-01-01"), pd.Timestamp("2100-01-01")))
def test_periods_are_those_of_the_calendar(moment: Any) -> None:
    stamp = pd.Timestamp(moment)
    times = np.array([stamp.value // 1_000])
    starts = {unit: period_name(int(period_numbers(times, unit)[0]), unit) for unit in ("hour", "day", "week", "month")}
    assert starts == {
        "hour": stamp.strftime("%Y-%m-%dT%H"), "day": stamp.strftime("%Y-%m-%d"), "month": stamp.strftime("%Y-%m"),
        "week": (stamp.normalize() - pd.Timedelta(days=stamp.weekday())).strftime("%Y-%m-%d"),
    }  # fmt: skip
