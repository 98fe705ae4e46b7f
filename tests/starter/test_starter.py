"""The complete starter configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.backends import DeviceReport, GpuProbe, MemoryFigures
from gpupipe.backends.probe import RAPIDS
from gpupipe.config import load_config
from gpupipe.pipeline.run import run_pipeline
from gpupipe.starter.choices import gpu_comments
from gpupipe.starter.starter import list_columns, make_clustering_starter

Init = Callable[..., Any]


def run(path: Path, *changes: str) -> dict[str, float]:
    """Run a configuration as it is, less the report and the importances; return the metrics of the best model."""
    config = load_config(path, ["report.enabled=false", "evaluate.importance=false", *changes])
    return dict(run_pipeline(config, path.parent / "run").metrics)


def test_it_runs_as_it_is(frame: pd.DataFrame, init: Init) -> None:
    assert run(init(frame).path)["roc_auc"] > 0.75


def test_it_runs_for_any_column_names(frame: pd.DataFrame, init: Init) -> None:
    generator = np.random.default_rng(0)
    names = ["a: #b", "[q]", 'it\'s "x"', "@y", "!z", "${HOME}", "1", "no", "café", "x*", "- d", "{e}", "%", "k,l"]
    odd = {name: np.exp(2 * generator.normal(size=len(frame))) for name in names}
    made = init(frame.assign(**odd, **{"x*y": "always"}))
    assert run(made.path, "models=[logistic_regression]")["roc_auc"] > 0.7


def test_many_rows_are_split_once_and_sampled(init: Init) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=50_000)
    made = init(pd.DataFrame({"x": x.round(2), "y": (x + generator.normal(size=50_000)).round(2)}))
    assert made.values["split"]["test_size"] == 0.2
    assert "a sample of 20,000 rows" in made.text


@pytest.mark.parametrize(
    ("has_xgboost", "models"),
    [
        (True, ["logistic_regression", "random_forest", "hist_gradient_boosting", "xgboost", "small_trees"]),
        (False, ["logistic_regression", "random_forest", "hist_gradient_boosting", "small_trees"]),
    ],
)
def test_xgboost_is_a_candidate_where_it_is_installed(
    frame: pd.DataFrame, init: Init, monkeypatch: pytest.MonkeyPatch, has_xgboost: bool, models: list[str]
) -> None:
    monkeypatch.setattr("gpupipe.starter.choices.has_xgboost", lambda: has_xgboost)
    made = init(frame)
    assert [entry.label for entry in made.config.models] == models
    assert ("# - xgboost" in made.text) is not has_xgboost


def test_duplicate_rows_are_mentioned(frame: pd.DataFrame, init: Init) -> None:
    made = init(pd.concat([frame, frame.head(7)]))
    assert "7 rows are duplicates" in made.text
    assert "1 row is a duplicate of earlier rows" in init(pd.concat([frame, frame.head(1)])).text


def test_a_key_that_repeats_is_offered_as_a_group_and_a_count_is_not(frame: pd.DataFrame, init: Init) -> None:
    generator = np.random.default_rng(0)
    keys = {"user_id": generator.integers(0, 60, len(frame)), "number_of_calls": generator.integers(0, 60, len(frame))}
    made = init(frame.assign(**keys, id_checks=generator.geometric(0.1, len(frame))))
    assert [line for line in made.text.splitlines() if "group:" in line] == ["# split: {cv: 5, group: user_id}"]


def test_a_path_is_relative_to_the_configuration(
    frame: pd.DataFrame, tmp_path: Path, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    frame.to_csv(tmp_path / "data" / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    assert init(Path("data/t.csv")).source["path"] == "data/t.csv"
    monkeypatch.chdir(tmp_path / "data")
    assert init(Path("t.csv")).source["path"] == str(tmp_path / "data" / "t.csv")


def test_groups_of_rows_can_be_found_without_a_target(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_csv(tmp_path / "t.csv", index=False)
    path = tmp_path / "clusters.yaml"
    path.write_text(make_clustering_starter(str(tmp_path / "t.csv"), path).text)
    assert np.isfinite(run(path)["silhouette"])


def test_without_a_target_the_columns_are_listed_and_the_likely_ones_suggested(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame.rename(columns={"y": "churned"}).assign(row=np.arange(len(frame))).to_csv(tmp_path / "t.csv", index=False)
    text = list_columns(str(tmp_path / "t.csv"))
    assert "300 rows, 5 columns" in text
    assert "row number, 0 to 299" in text
    suggestion = next(line for line in text.splitlines() if "--target" in line)
    assert "--target churned" in suggestion


def test_an_identifier_is_not_suggested_as_the_target(frame: pd.DataFrame, tmp_path: Path) -> None:
    n = len(frame)
    keys: dict[str, Any] = {"account_id": np.arange(n) // 5 * 13, "zip": [f"0{i % 40:04d}" for i in range(n)]}
    table = frame.rename(columns={"y": "reply"}).assign(**keys, seen=pd.date_range("2020-01-01", periods=n))
    table.to_csv(tmp_path / "t.csv", index=False)
    lines = [line for line in list_columns(str(tmp_path / "t.csv")).splitlines() if "--target" in line]
    assert [line.partition("--target ")[2] for line in lines] == [
        "reply  # it is the last column that is not a key or date, it is 'No' or 'Yes'"
    ]


@pytest.mark.data
class TestPublicTables:
    """Findings in public tables."""

    def test_telco(self, data_dir: Path, init: Init) -> None:
        made = init(data_dir / "telco-churn" / "Telco-Customer-Churn.csv", "Churn")
        assert (made.source["drop"], made.source["positive"]) == (["customerID"], "Yes")
        assert made.source["schema"] == {"TotalCharges": "float"}
        assert made.comment_on("TotalCharges:") == "11 blanks become missing"

    def test_adult_has_no_header_and_question_marks(self, data_dir: Path, init: Init) -> None:
        made = init(data_dir / "adult-income" / "adult.data", "last")
        assert made.source["format"] == "csv"
        assert made.source["csv"] == {"names": [f"c{i}" for i in range(1, 16)], "null_values": ["?"]}
        assert (made.source["target"], made.source["positive"]) == ("c15", ">50K")
        assert "4,262 missing values" in made.text
        assert "24 rows are duplicates" in made.text
        assert "drop" not in made.source  # 99999 of the capital gain marks missing values, all in one class

    def test_bank_churn(self, data_dir: Path, init: Init) -> None:
        made = init(data_dir / "bank-churn" / "Churn_Modelling.csv", "Exited")
        assert made.source["drop"] == ["RowNumber", "CustomerId", "Surname"]

    def test_german_credit(self, data_dir: Path, init: Init) -> None:
        assert init(data_dir / "german-credit" / "german.csv", "credit").source["positive"] == 2

    def test_bike_sharing(self, data_dir: Path, init: Init) -> None:
        made = init(data_dir / "bike-sharing" / "bike.csv", "cnt")
        assert made.source["drop"] == ["instant"]
        schema = made.source["schema"]
        assert schema == {
            "dteday": {"kind": "datetime", "format": "%m/%d/%Y"},
        }

    def test_nyc_taxi(self, data_dir: Path, init: Init) -> None:
        made = init(data_dir / "nyc-taxi" / "nyc_taxi.csv", "duration")
        assert made.source["drop"] == ["obs_id", "train_id"]
        assert "2,000 of 10,000 rows have no duration" in made.text
        assert "test: [valid]" in made.text

    def test_chicago_taxi(self, data_dir: Path, init: Init) -> None:
        made = init(data_dir / "chicago-taxi" / "chicago_taxi.csv", "fare")
        assert made.source["drop"] == ["pickup_census_tract"]
        assert made.comment_on("- pickup_census_tract") == "empty in all but 1 row"
        assert made.source["schema"]["trip_start_timestamp"] == {"kind": "datetime", "format": "s"}
        assert {"log1p": ["trip_miles", "trip_seconds", "tips"]} in made.values["features"]

    def test_diamonds_are_enough_for_one_split(self, data_dir: Path, init: Init) -> None:
        made = init(data_dir / "diamonds" / "diamonds.csv", "price")
        assert "drop" not in made.source
        assert made.values["split"]["test_size"] == 0.2


def test_boosting_is_omitted_for_very_wide_tables_and_suspects_are_listed(
    frame: pd.DataFrame, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupipe.starter.choices.WIDE_COLUMNS", 2)
    monkeypatch.setattr("gpupipe.starter.leaks.MOST_COMPARED", 0)
    generator = np.random.default_rng(0)
    price = generator.normal(size=400).round(3)
    bands = {name: pd.cut(price, n, labels=[f"{name}{i}" for i in range(n)]) for name, n in (("low", 4), ("high", 6))}
    table = pd.DataFrame({"price": price, "noise": generator.normal(size=400), **bands})
    table.loc[:2, list(bands)] = table.loc[200:202, list(bands)].to_numpy()  # so that no single one is conclusive
    made = init(table, target="price")
    assert [entry.label for entry in made.config.models] == ["ridge"]
    assert "Boosting is slow on 4 columns" in made.text
    assert "These columns may restate price, but were not compared with a model: low, high" in made.text


@pytest.mark.parametrize(
    ("missing", "rapids", "expected"),
    [
        ((), (), ["All of these models train on this machine's GPU, H200."]),
        ((), RAPIDS, ["XGBoost trains on this machine's GPU, H200; with RAPIDS, the linear model"]),
        (
            ("cupy",),
            ("cudf", "cuml", "rmm"),
            ["All of these models", "Its packages are not installed yet: pip install"],
        ),
    ],
)
def test_the_models_that_a_gpu_trains_depend_on_its_packages(missing: Any, rapids: Any, expected: list[str]) -> None:
    gpu = GpuProbe(True, "a GPU", 1, "H200", cuda=(13, 0), capability=(9, 0))
    found = gpu_comments(DeviceReport(gpu, missing, "", 2, MemoryFigures(1, 1, 1), rapids))
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected
