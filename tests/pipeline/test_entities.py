"""Tests of rows and labels built from events: leakage, plans, and scores for a later day."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import gpupipe
from gpupipe.backends import choose
from gpupipe.cli.predict import command
from gpupipe.config import Config, parse_config
from gpupipe.errors import ConfigError, DataError
from gpupipe.inference.prediction.events import ServedEvents
from gpupipe.io.input_files import InputFiles
from gpupipe.pipeline import memory as room
from gpupipe.pipeline.run import run_pipeline
from gpupipe.plan import preview
from gpupipe.plan.run_plan import make_plan
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.preparation.preparation import open_job

CUT_OFFS = ["2024-03-01", "2024-04-01"]


@pytest.fixture(scope="module")
def orders() -> pd.DataFrame:
    """Return 4,000 orders of 300 customers over half a year, including returns; half of the customers stop early."""
    rng = np.random.default_rng(8)
    who = rng.integers(0, 300, 4_000)
    day = rng.uniform(0, np.where(who % 2, 75, 182), 4_000)
    return pd.DataFrame(
        {
            "who": who,
            "at": (pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")).floor("s"),
            "price": rng.gamma(2.0, 10.0, 4_000).round(2),
            "n": rng.choice([-1, 1, 2], 4_000, p=[0.05, 0.65, 0.3]),
        }
    ).sort_values("at", ignore_index=True)


@pytest.fixture(scope="module")
def path(orders: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shop") / "orders.parquet"
    orders.to_parquet(path, index=False, row_group_size=250)
    return path


def table_of(path: Path) -> dict[str, Any]:
    on = {"left": "customer", "right": "who"}
    steps = {"where": "n > 0", "compute": {"spend": "n * price"}}
    return {"path": str(path), "on": on, "time": "at", "cardinality": "one_to_many", **steps}


def config(path: Path, as_of: Any = CUT_OFFS, **changes: Any) -> Config:
    label = {"none": "orders", "within": "45d"}
    settings = {
        "name": "shop",
        "source": {"entities": {"table": "orders", "as_of": as_of, "label": label}, "target": "left"},
        "tables": {"orders": table_of(path)},
        "features": [{"rfm": {"table": "orders", "amount": "spend"}}, {"log1p": "@numeric"}],
        "split": {"time": "as_of", "cutoff": CUT_OFFS[-1]},
        "models": ["logistic_regression"],
        "report": {"enabled": False},
        "evaluate": {"metrics": ["roc_auc"], "importance": False},
    }
    return parse_config(settings | changes)


@pytest.fixture(scope="module")
def run(path: Path, tmp_path_factory: pytest.TempPathFactory) -> gpupipe.Run:
    return run_pipeline(config(path), tmp_path_factory.mktemp("runs") / "run")


def test_the_model_predicts_churn_at_a_later_cut_off(run: gpupipe.Run) -> None:
    assert run.metrics["roc_auc"] > 0.8


def test_neither_keys_nor_cut_offs_are_features(run: gpupipe.Run) -> None:
    assert gpupipe.load_model(run.path).features.names == [
        f"orders_{name}" for name in ("recency", "tenure", "frequency", "monetary", "monetary_mean")
    ]


def matrix_and_target(config: Config) -> tuple[pd.DataFrame, Any]:
    job = open_job(config, choose("cpu"), Timeline())
    names = [column.name for column in job.table.schema if column.derived]
    return pd.DataFrame({name: job.table.column(name) for name in names}), job.y


def test_features_do_not_depend_on_events_of_the_labels(orders: pd.DataFrame, path: Path, tmp_path: Path) -> None:
    features, left = matrix_and_target(config(path, CUT_OFFS[-1]))
    after = orders["at"] >= pd.Timestamp(CUT_OFFS[-1])
    assert left.mean() < 0.9
    one = orders["who"] == orders.loc[~after & (orders["who"] % 2 == 0), "who"].iloc[0]  # a target has two values
    changed = orders[~after | one | (orders.index == len(orders) - 1)]  # the last order sets the end of the events
    changed.to_parquet(tmp_path / "orders.parquet", index=False)

    same_features, all_left = matrix_and_target(config(tmp_path / "orders.parquet", CUT_OFFS[-1]))

    pd.testing.assert_frame_equal(same_features, features)
    assert len(left) - 2 <= all_left.sum() < len(left)


def test_labels_do_not_depend_on_events_of_the_features(orders: pd.DataFrame, path: Path, tmp_path: Path) -> None:
    _, left = matrix_and_target(config(path, CUT_OFFS[-1]))
    before = orders["at"] < pd.Timestamp(CUT_OFFS[-1])
    first = ~orders[orders["n"] > 0].duplicated("who").reindex(orders.index, fill_value=True)
    orders[~before | first].to_parquet(tmp_path / "orders.parquet", index=False)  # keep one earlier order per customer

    _, same = matrix_and_target(config(tmp_path / "orders.parquet", CUT_OFFS[-1]))

    np.testing.assert_array_equal(same, left)


def test_every_customer_of_a_later_day_is_scored_from_the_orders_alone(
    run: gpupipe.Run, orders: pd.DataFrame, path: Path
) -> None:
    model = gpupipe.load_model(run.path)
    found = model.predict_entities({"orders": orders}, "2024-06-01").to_pandas()

    bought = orders[(orders["n"] > 0) & (orders["at"] < pd.Timestamp("2024-06-01"))]
    assert found["customer"].tolist() == sorted(bought["who"].unique())
    assert (found["as_of"] == pd.Timestamp("2024-06-01")).all()
    rows = pd.DataFrame({"customer": found["customer"][::7]})
    some = model.predict_proba(rows, {"orders": path}, as_of="2024-06-01")
    np.testing.assert_array_equal(some[:, 1], found["probability_true"][::7])
    dated = model.predict_proba(rows.assign(as_of="2024-06-01"), {"orders": str(path)})
    np.testing.assert_array_equal(dated, some)


def test_the_events_are_filtered_and_computed_when_the_model_serves(run: gpupipe.Run, orders: pd.DataFrame) -> None:
    model, row = gpupipe.load_model(run.path), pd.DataFrame({"customer": [orders["who"].iloc[0]]})
    returned = orders.iloc[[0]].assign(n=-1, at=pd.Timestamp("2024-05-31"))
    bought = returned.assign(n=1)

    plain, with_return, with_order = (
        model.predict_proba(row, {"orders": table}, as_of="2024-06-01")[0, 1]
        for table in (orders, pd.concat([orders, returned]), pd.concat([orders, bought]))
    )

    assert with_return == plain
    assert with_order != plain


def test_the_model_gives_the_predictions_of_the_run(run: gpupipe.Run, orders: pd.DataFrame) -> None:
    scored = gpupipe.load_model(run.path).predict_entities({"orders": orders}, CUT_OFFS[-1]).to_pandas()
    predicted = pd.read_parquet(run.path / "predictions.parquet")
    assert len(predicted) == len(scored)
    np.testing.assert_allclose(predicted["probability_true"], scored["probability_true"], rtol=1e-6)


def test_the_command_scores_without_an_input(run: gpupipe.Run, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.csv"
    given = [str(run.path), "--table", f"orders={path}", "-o", str(out), "--device", "cpu"]
    result = CliRunner().invoke(command, [*given, "--as-of", "2024-06-01"])
    assert result.exit_code == 0, result.output
    assert pd.read_csv(out).columns.tolist()[:3] == ["customer", "as_of", "prediction"]
    with pytest.raises(ConfigError, match="expected an INPUT or --as-of"):
        CliRunner().invoke(command, [*given, "--force"], catch_exceptions=False)


def test_errors_name_what_is_missing_for_scoring(run: gpupipe.Run, orders: pd.DataFrame) -> None:
    model, row = gpupipe.load_model(run.path), pd.DataFrame({"customer": [1]})
    with pytest.raises(ConfigError, match="the cut-off is missing"):
        model.predict(row, {"orders": orders})
    with pytest.raises(ConfigError, match=r"'orders' \(columns n, at, who, price\)"):
        model.predict(row, as_of="2024-06-01")


def test_the_plan_counts_the_rows_built_from_events(path: Path) -> None:
    plan = make_plan(config(path), assume_gpu=16 << 30)
    rows = open_job(config(path), choose("cpu"), Timeline()).table.n_rows
    read = plan.stages[0]
    assert (plan.n_rows, plan.is_exact, read.rows) == (rows, True, rows)
    assert (read.device, read.reason) == ("cpu", "building rows and labels from events is not supported on the GPU")


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({}, "each customer has a row per cut-off, and the split puts them on both sides"),
        ({"time": "as_of", "cutoff": CUT_OFFS[-1]}, "the first test row is only 31 days later than training rows"),
        ({"group": "customer"}, ""),
    ],
)
def test_an_optimistic_split_warns(path: Path, tmp_path: Path, split: dict[str, Any], message: str) -> None:
    run = run_pipeline(config(path, split=split), tmp_path / "run")
    stages = json.loads((run.path / "timeline.json").read_text())["stages"]
    notes = " ".join(note for stage in stages if stage["name"] == "split" for note in stage["notes"])
    assert (message in notes) if message else ("cut-off" not in notes)


def test_a_model_of_joined_columns_only_reads_no_events(orders: pd.DataFrame, path: Path, tmp_path: Path) -> None:
    people = pd.DataFrame({"who": range(300), "age": np.arange(300) % 70})
    people.to_parquet(tmp_path / "people.parquet", index=False)
    joined = {"path": str(tmp_path / "people.parquet"), "on": {"left": "customer", "right": "who"}}
    label = {"sum": "orders.spend", "within": "30d"}
    changes: dict[str, Any] = {
        "source": {"target": "spent", "entities": {"table": "orders", "as_of": "2024-04-01", "label": label}},
        "tables": {"orders": table_of(path), "people": joined | {"cardinality": "many_to_one"}},
        "features": [{"standardize": "age"}],
        "models": ["ridge"],
        "split": {},
    }
    run = run_pipeline(config(path, **changes, evaluate={"importance": False}), tmp_path / "run")
    model = gpupipe.load_model(run.path)

    assert model.inputs == ("age",)
    assert len(model.predict(people)) == 300
    with pytest.raises(ConfigError, match="columns that are not in the event table: age"):
        model.predict_entities({"orders": orders}, "2024-05-01")


def test_a_manifest_cannot_name_a_hook_or_omit_a_table(run: gpupipe.Run) -> None:
    model = gpupipe.load_model(run.path)
    derivation, document = model.features.derivation, model.events.to_json()
    assert ServedEvents.from_json(document, derivation).to_json() == document
    orders = document["tables"]["orders"]
    endless = {"compute": {"x": "y+" * 9_999 + "y"}}
    for tables in (
        {},
        {"orders": orders | {"prepare": "hook.py:f"}},
        {"orders": orders | {"outside_files": True}},
        {"orders": orders | endless},
    ):
        with pytest.raises(ValueError, match=r"missing|prepare|outside_files|compute"):
            ServedEvents.from_json(document | {"tables": tables}, derivation)


def test_the_plan_estimates_the_rows_of_events_that_it_does_not_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = open_job(config(path), choose("cpu"), Timeline()).table.n_rows
    monkeypatch.setattr(preview, "MORE_ROWS", 1_500)
    plan = make_plan(config(path))
    assert not plan.is_exact
    assert plan.n_rows == pytest.approx(rows, rel=0.2)


def test_a_large_run_does_not_need_two_labels_in_the_first_events(
    orders: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.to_parquet(tmp_path / "orders.parquet", index=False)  # a single row group, of which the plan reads the head
    monkeypatch.setattr(preview, "MORE_ROWS", 1_500)
    monkeypatch.setattr(room, "ENOUGH", 1 << 60)
    with pytest.raises(DataError, match=r"in a sample of .* rows"):
        make_plan(config(tmp_path / "orders.parquet"))
    settings = config(tmp_path / "orders.parquet")
    files = InputFiles.find(settings.source, settings.tables)
    assert room.plan_out_of_core(settings, choose("cpu"), files) is None
