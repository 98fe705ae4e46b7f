"""Past values of the target as features: training, notes, and predictions for future rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe
from gpupipe.backends import choose
from gpupipe.config import Config, parse_config
from gpupipe.errors import ConfigError, SchemaError
from gpupipe.pipeline.run import run_pipeline
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.preparation.preparation import open_job

DAY = pd.Timedelta(days=1)
OWN = {"key": "store", "time": "day", "columns": "sold"}
LAG = {"lag": OWN | {"periods": ["7d", "14d"], "gap": "7d"}}
MEAN = {"rolling": OWN | {"windows": "14d", "gap": "7d"}}


@pytest.fixture(scope="module")
def sales() -> pd.DataFrame:
    """Return 200 days of 5 stores whose sales drift, and whose weekends are busy."""
    rng = np.random.default_rng(2)
    days = pd.date_range("2024-01-01", periods=200)
    drift = 100 + rng.normal(0, 4, (200, 5)).cumsum(axis=0)
    sold = drift + 15 * (days.day_of_week.to_numpy()[:, None] > 4) + rng.normal(0, 2, (200, 5))
    frame = pd.DataFrame(sold.round(1), index=days, columns=list("abcde")).rename_axis("day").reset_index()
    return frame.melt("day", var_name="store", value_name="sold").sort_values(["day", "store"], ignore_index=True)


@pytest.fixture(scope="module")
def path(sales: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sales") / "sales.parquet"
    sales.to_parquet(path, index=False)
    return path


def config(path: Path, *ops: dict[str, Any], **changes: Any) -> Config:
    settings = {
        "name": "sales",
        "source": {"path": str(path), "target": "sold"},
        "features": [*ops, {"datetime_parts": {"columns": "day", "parts": ["weekday"]}}, {"impute": "@numeric"}],
        "split": {"time": "day", "cutoff": "2024-06-01"},
        "models": ["ridge"],
        "report": {"enabled": False},
        "evaluate": {"metrics": ["r2"], "importance": False},
    }
    return parse_config(settings | changes)


@pytest.fixture(scope="module")
def run(path: Path, tmp_path_factory: pytest.TempPathFactory) -> gpupipe.Run:
    return run_pipeline(config(path, LAG, MEAN), tmp_path_factory.mktemp("runs") / "run")


def warnings(run: gpupipe.Run) -> str:
    stages = json.loads((run.path / "timeline.json").read_text())["stages"]
    return " ".join(note for stage in stages if stage["name"] == "split" for note in stage["notes"])


def test_past_sales_predict_better_than_the_calendar(run: gpupipe.Run, path: Path, tmp_path: Path) -> None:
    without = run_pipeline(config(path), tmp_path / "run")
    assert run.metrics["r2"] > max(0.5, without.metrics["r2"] + 0.3)
    assert "past values" not in warnings(run)


def test_future_rows_are_predicted_from_the_history_above_them(run: gpupipe.Run, sales: pd.DataFrame) -> None:
    model = gpupipe.load_model(run.path)
    assert "sold" in model.inputs
    future = sales["day"] > sales["day"].max() - 7 * DAY
    unknown = sales.assign(sold=sales["sold"].where(~future))

    predicted = model.predict(unknown)

    assert len(predicted) == len(sales)
    np.testing.assert_array_equal(predicted, model.predict(sales))  # a week's sales are not known within the week
    assert np.corrcoef(predicted[future], sales["sold"][future])[0, 1] > 0.8
    with pytest.raises(SchemaError, match="sold"):
        model.predict(sales.drop(columns="sold"))


def test_a_row_sees_no_target_that_is_younger_than_the_gap(path: Path, sales: pd.DataFrame, tmp_path: Path) -> None:
    changed = sales.assign(sold=np.where(sales["day"] > "2024-05-01", 1e6, sales["sold"]))
    changed.to_parquet(tmp_path / "changed.parquet", index=False)
    before, after = (
        open_job(config(p, LAG, MEAN), choose("cpu"), Timeline()).table for p in (path, tmp_path / "changed.parquet")
    )
    for name, days in (("sold_lag_7d", 7), ("sold_lag_14d", 14), ("sold_mean_14d", 7)):
        same = np.isclose(before.column(name), after.column(name), equal_nan=True)
        np.testing.assert_array_equal(same, sales["day"] < pd.Timestamp("2024-05-02") + days * DAY, err_msg=name)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ({"lag": OWN}, "(?s)'sold' is the target.*set `gap` to the delay after which they are known"),
        ({"lag": OWN | {"gap": "7d", "as_of": "day"}}, "(?s)'sold' is the target.*without `as_of`"),
        ({"aggregate": OWN | {"columns": {"day": "last"}, "key": "sold", "gap": "7d"}}, "'sold' is the target"),
    ],
)
def test_the_target_without_a_gap_is_refused(path: Path, op: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_job(config(path, op), choose("cpu"), Timeline())


@pytest.mark.parametrize("split", [{}, {"cv": 2}, {"group": "store"}])
def test_a_split_that_is_not_by_time_is_warned_of(path: Path, tmp_path: Path, split: dict[str, Any]) -> None:
    found = warnings(run_pipeline(config(path, LAG, split=split), tmp_path / "run"))
    assert "past values of the target 'sold'" in found
    assert "split: {time: day}" in found


def test_earlier_labels_are_numbers_where_they_are_true_or_false(sales: pd.DataFrame, tmp_path: Path) -> None:
    busy = sales.assign(sold=sales["sold"] > sales["sold"].median())
    busy.to_parquet(tmp_path / "busy.parquet", index=False)
    share = {"aggregate": OWN | {"columns": {"sold": "mean"}, "gap": "1d"}}
    table = open_job(config(tmp_path / "busy.parquet", share, models=[], evaluate={}), choose("cpu"), Timeline()).table
    known = busy.groupby("store")["sold"].transform(lambda sold: sold.astype(float).shift(1).expanding().mean())
    np.testing.assert_allclose(table.column("sold_mean"), known, rtol=1e-6)
    busy.assign(sold=np.where(busy["sold"], "busy", "quiet")).to_parquet(tmp_path / "text.parquet", index=False)
    with pytest.raises(ConfigError, match="expected numeric or boolean"):
        lag = {"lag": OWN | {"gap": "1d"}}
        open_job(config(tmp_path / "text.parquet", lag, models=[], evaluate={}), choose("cpu"), Timeline())


@pytest.mark.data
def test_bikes_rented_a_day_and_a_week_ago(data_dir: Path, tmp_path: Path) -> None:
    bikes = pd.read_csv(data_dir / "bike-sharing" / "bike.csv")
    bikes["at"] = pd.to_datetime(bikes["dteday"], format="%m/%d/%Y") + pd.to_timedelta(bikes["hr"], unit="h")
    bikes = bikes[["at", "hr", "temp", "hum", "workingday", "cnt"]]
    bikes.to_parquet(tmp_path / "bikes.parquet", index=False)
    lag = {"lag": {"key": [], "time": "at", "columns": "cnt", "periods": ["24h", "168h"], "gap": "24h"}}
    scores: list[float] = []
    for ops in ([], [lag, {"impute": "cnt_*"}]):
        settings = {
            "source": {"path": str(tmp_path / "bikes.parquet"), "target": "cnt", "schema": {"hr": "categorical"}},
            "features": [*ops, {"drop": "at"}],
            "split": {"time": "at"},
        }
        scores.append(run_pipeline(config(tmp_path, **settings), tmp_path / f"run{len(scores)}").metrics["r2"])
    table = open_job(config(tmp_path, **settings), choose("cpu"), Timeline()).table
    by_time = bikes.set_index("at")["cnt"]
    for hours in (24, 168):  # 165 hours are not in the table: the one before counts
        expected: Any = by_time.asof(bikes["at"] - pd.Timedelta(hours=hours))
        np.testing.assert_array_equal(table.column(f"cnt_lag_{hours}h"), expected.to_numpy().astype("float32"))
    assert scores[1] > scores[0] + 0.2
