"""Tests of history features from a further table: a run, its model, and predictions for a later day."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpupipe
from gpupipe.config import Config, parse_config
from gpupipe.errors import ConfigError, SchemaError
from gpupipe.inference.scoring.local import score
from gpupipe.inference.scoring.scoring_settings import ScoringSettings
from gpupipe.pipeline.run import run_pipeline
from gpupipe.plan.costs import DERIVED_EVENT
from gpupipe.plan.run_plan import make_plan

CUT_OFF = pd.Timestamp("2024-03-01")

RFM = {"rfm": {"table": "orders", "time": "at", "as_of": "2024-03-01", "amount": "spend"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with 300 customers and 3,000 orders; customers who spent much before March stay."""
    rng = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("shop")
    orders = pd.DataFrame(
        {
            "who": rng.integers(0, 300, 3_000).astype(str),
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 120 * 24, 3_000), unit="h"),
            "spend": rng.gamma(2.0, 20.0, 3_000).round(2),
            "shop": rng.choice(["north", "south"], 3_000),
        }
    )
    before = orders[orders["at"] < CUT_OFF].groupby("who")["spend"].sum()
    customers = pd.DataFrame({"id": [str(i) for i in range(300)], "age": rng.integers(18, 90, 300)})
    spent = customers["id"].map(before).fillna(0.0)
    customers["joined"] = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 300, 300), unit="D")
    customers["stays"] = np.where(spent + rng.normal(0, 20, 300) > spent.median(), "yes", "no")
    customers.to_parquet(path / "customers.parquet")
    orders.to_parquet(path / "orders.parquet")
    return path


def config(folder: Path, **changes: object) -> Config:
    settings = {
        "name": "shop",
        "source": {"path": str(folder / "customers.parquet"), "target": "stays", "positive": "yes"},
        "tables": {
            "orders": {
                "path": str(folder / "orders.parquet"),
                "on": {"left": "id", "right": "who"},
                "cardinality": "one_to_many",
            }
        },
        "features": [
            RFM,
            {"aggregate": {"table": "orders", "time": "at", "as_of": "2024-03-01", "columns": {"shop": "last"}}},
            {"log1p": ["orders_monetary"]},
            {"one_hot": ["orders_shop_last"]},
        ],
        "models": ["logistic_regression"],
        "report": {"enabled": False},
        "evaluate": {"metrics": ["roc_auc"], "importance": False},
    }
    return parse_config(settings | changes)


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> gpupipe.Run:
    return run_pipeline(config(folder), tmp_path_factory.mktemp("runs") / "run")


def test_history_features_predict_the_target(run: gpupipe.Run) -> None:
    assert run.metrics["roc_auc"] > 0.8


def test_deriving_columns_is_a_stage(run: gpupipe.Run) -> None:
    stages = {stage["name"]: stage for stage in json.loads((run.path / "timeline.json").read_text())["stages"]}

    assert stages["derive"]["rows"] == 300
    assert stages["derive"]["interpreter"] == "numpy"
    assert "6 columns from the table, orders" in stages["derive"]["notes"][0]


def test_a_feature_is_traced_back_to_the_further_table(run: gpupipe.Run) -> None:
    lineage = json.loads((run.path / "model" / "manifest.json").read_text())["lineage"]

    assert lineage["orders_monetary"] == ["orders.spend", "orders.at"]
    assert lineage["age"] == ["age"]


def test_the_model_gives_the_predictions_of_the_run(run: gpupipe.Run, folder: Path) -> None:
    customers, orders = pd.read_parquet(folder / "customers.parquet"), pd.read_parquet(folder / "orders.parquet")
    predicted = pd.read_parquet(run.path / "predictions.parquet")

    probability = gpupipe.load_model(run.path).predict_proba(customers, tables={"orders": orders})[:, 1]

    np.testing.assert_allclose(probability[predicted["row"]], predicted["probability_yes"], rtol=1e-6)


def test_orders_after_the_cut_off_do_not_change_predictions(run: gpupipe.Run, folder: Path) -> None:
    customers, orders = pd.read_parquet(folder / "customers.parquet"), pd.read_parquet(folder / "orders.parquet")
    model = gpupipe.load_model(run.path)

    with_all = model.predict_proba(customers, {"orders": orders})
    with_past = model.predict_proba(customers, {"orders": orders[orders["at"] < CUT_OFF]})

    np.testing.assert_array_equal(with_all, with_past)


def test_a_later_cut_off_includes_later_orders(run: gpupipe.Run, folder: Path) -> None:
    customers, orders = pd.read_parquet(folder / "customers.parquet"), pd.read_parquet(folder / "orders.parquet")
    model = gpupipe.load_model(run.path)
    shifted = orders.assign(at=orders["at"] + pd.Timedelta(days=31))

    later = model.predict_proba(customers, {"orders": shifted}, as_of="2024-04-01")

    np.testing.assert_allclose(later, model.predict_proba(customers, {"orders": orders}), rtol=1e-6)


def test_an_unseen_shop_differs_from_all_known_shops(run: gpupipe.Run, folder: Path) -> None:
    orders = pd.DataFrame({"who": ["a"], "at": [pd.Timestamp("2024-02-01")], "spend": [1.0], "shop": ["moon"]})
    customers = pd.DataFrame({"id": ["a", "b"], "age": [30, 30], "joined": pd.to_datetime(["2023-05-05"] * 2)})

    assert gpupipe.load_model(run.path).predict(customers, {"orders": orders}).shape == (2,)


def test_the_command_line_accepts_further_tables(run: gpupipe.Run, folder: Path, tmp_path: Path) -> None:
    tables = {"orders": str(folder / "orders.parquet")}

    summary = score(
        run.path,
        str(folder / "customers.parquet"),
        tmp_path / "scores.csv",
        ScoringSettings(device="cpu", tables=tables, as_of="2024-03-01"),
    )

    assert summary.n_rows == len(pd.read_csv(tmp_path / "scores.csv")) == 300


def test_a_missing_further_table_is_an_error(run: gpupipe.Run, folder: Path) -> None:
    customers = pd.read_parquet(folder / "customers.parquet")

    with pytest.raises(ConfigError, match=r"missing further table 'orders' \(columns at, spend, shop, who\)"):
        gpupipe.load_model(run.path).predict(customers)


def test_an_unknown_further_table_is_an_error(run: gpupipe.Run, folder: Path) -> None:
    customers = pd.read_parquet(folder / "customers.parquet")

    with pytest.raises(ConfigError, match="unknown further table 'order'"):
        gpupipe.load_model(run.path).predict(customers, {"order": customers})


def test_a_table_that_training_joined_is_refused_before_the_rows_are_read(churn_run: gpupipe.Run) -> None:
    with pytest.raises(ConfigError, match=r"unknown further table 'shops'\n.*is joined before prediction"):
        churn_run.model.predict({}, {"shops": {}})


def test_a_further_table_without_a_column_is_an_error(run: gpupipe.Run, folder: Path) -> None:
    customers, orders = pd.read_parquet(folder / "customers.parquet"), pd.read_parquet(folder / "orders.parquet")

    with pytest.raises(SchemaError, match="spend"):
        gpupipe.load_model(run.path).predict(customers, {"orders": orders.drop(columns="spend")})


def test_the_target_cannot_be_a_history_column(folder: Path, tmp_path: Path) -> None:
    features = [{"aggregate": {"key": "id", "time": "joined", "columns": {"stays": "last"}}}]

    with pytest.raises(ConfigError, match="'stays' is the target"):
        run_pipeline(
            config(folder, features=features, source=config(folder).source.model_dump(by_alias=True)), tmp_path / "run"
        )


def test_a_plan_counts_events_on_the_gpu(folder: Path) -> None:
    ops = [RFM, {"text_counts": {"columns": "id", "counts": ["digits"]}}]
    stages = {stage.name: stage for stage in make_plan(config(folder, features=ops), assume_gpu=16 << 30).stages}
    assert (stages["read"].device, stages["derive"].device) == ("gpu", "gpu")
    assert stages["derive"].peak_device_bytes is not None and stages["split"].peak_device_bytes is not None
    assert stages["derive"].peak_device_bytes - stages["split"].peak_device_bytes > 3_000 * DERIVED_EVENT
