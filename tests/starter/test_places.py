"""The distance between two places, detected from column names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.config import load_config
from gpupipe.pipeline.run import run_pipeline

Init = Callable[..., Any]


def with_places(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Return the frame with columns that could be latitudes and longitudes."""
    generator = np.random.default_rng(1)
    return frame.assign(**{name: generator.uniform(30, 60, len(frame)).round(5) for name in names})


def haversine_of(made: Any) -> dict[str, Any] | None:
    """Return the settings of the one distance that was written, if any."""
    found = [op["haversine"] for op in made.values["features"] if "haversine" in op]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    "names",
    [
        ("pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude"),
        ("start_lat", "start_lng", "end_lat", "end_lng"),
        ("lat1", "lon1", "lat2", "lon2"),
        ("shopLat", "shopLon", "homeLat", "homeLon"),
        ("Start Station Latitude", "Start Station Longitude", "End Station Latitude", "End Station Longitude"),
        ("lat", "long", "merch_lat", "merch_long"),
    ],
)
def test_two_places_make_a_distance(frame: pd.DataFrame, init: Init, names: tuple[str, ...]) -> None:
    made = init(with_places(frame, *names))
    assert haversine_of(made) == {"from": list(names[:2]), "to": list(names[2:]), "unit": "km", "as": "distance_km"}


def test_a_measured_distance_replaces_the_computed_one(frame: pd.DataFrame, init: Init) -> None:
    table = with_places(frame, "a_lat", "a_lon", "b_lat", "b_lon")
    assert haversine_of(init(table.assign(trip_distance=np.arange(len(table)) / 7))) is None


def test_columns_in_any_order_are_paired_by_their_names(frame: pd.DataFrame, init: Init) -> None:
    found = haversine_of(init(with_places(frame, "to_lng", "from_lng", "from_lat", "to_lat")))
    assert found is not None
    assert {tuple(found["from"]), tuple(found["to"])} == {("from_lat", "from_lng"), ("to_lat", "to_lng")}


@pytest.mark.parametrize(
    "names",
    [
        ("lat", "lon"),
        ("start_lat", "start_lon", "end_lat"),
        ("start_lat", "end_lon", "mid_lat", "far_lon"),
        ("a_lat", "a_lon", "b_lat", "b_lon", "c_lat", "c_lon"),
        ("a_lat", "a_lon", "b_lat", "b_lon", "b_lng"),
        ("plate", "flat_long", "belong", "slat"),
    ],
)
def test_one_place_three_places_and_other_names_give_no_distance(
    frame: pd.DataFrame, init: Init, names: tuple[str, ...]
) -> None:
    assert haversine_of(init(with_places(frame, *names))) is None


def test_values_that_are_not_degrees_give_no_distance(frame: pd.DataFrame, init: Init) -> None:
    table = with_places(frame, "a_lat", "a_lon", "b_lat", "b_lon")
    assert haversine_of(init(table.assign(b_lat=table["b_lat"] * 1e5))) is None
    assert haversine_of(init(table.assign(b_lon=[f"{x}° E" for x in table["b_lon"]]))) is None


def test_a_place_that_is_the_target_or_is_dropped_makes_none(frame: pd.DataFrame, init: Init) -> None:
    table = with_places(frame, "a_lat", "a_lon", "b_lat", "b_lon")
    assert haversine_of(init(table, "b_lon")) is None
    assert haversine_of(init(table.assign(b_lon=7.5))) is None


def test_it_runs_where_a_coordinate_has_a_long_tail(frame: pd.DataFrame, tmp_path: Path, init: Init) -> None:
    table = with_places(frame, "a_lat", "a_lon", "b_lat", "b_lon")
    skewed = np.minimum(np.exp(2 * table["x"]), 170)  # of which the logarithm tells of y
    made = init(table.assign(a_lon=skewed).drop(columns="x"))
    assert "a_lon" in next(op["log1p"] for op in made.values["features"] if "log1p" in op)
    quickly = ["report.enabled=false", "evaluate.importance=false", "models=[logistic_regression]"]
    run_pipeline(load_config(made.path, quickly), tmp_path / "run")


@pytest.mark.data
def test_the_distance_of_a_taxi_ride_predicts_its_fare(data_dir: Path, tmp_path: Path, init: Init) -> None:
    made = init(data_dir / "chicago-taxi" / "chicago_taxi.csv", "fare")
    proposed = haversine_of(made)
    assert proposed is not None
    assert (proposed["from"], proposed["to"]) == (
        ["pickup_latitude", "pickup_longitude"],
        ["dropoff_latitude", "dropoff_longitude"],
    )
    lines = made.text.splitlines()
    first = next(i for i, line in enumerate(lines) if "haversine" in line)
    with_distance = r2_of_ridge(made.path, tmp_path / "with")
    made.path.write_text("\n".join(lines[:first] + lines[first + 5 :]))
    assert with_distance > r2_of_ridge(made.path, tmp_path / "without") + 0.05


def r2_of_ridge(config: Path, folder: Path) -> float:
    """Return the score of a linear model over the folds."""
    run_pipeline(load_config(config, ["models=[ridge]", "report.enabled=false", "evaluate.importance=false"]), folder)
    return float(json.loads((folder / "metrics.json").read_text())["models"]["ridge"]["r2"])
