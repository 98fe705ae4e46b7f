"""haversine and bearing against scikit-learn and against 3-D vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import haversine_distances

from gpupipe.errors import ConfigError
from tests.examples import examples

POINTS = {"from": ["lat1", "lon1"], "to": ["lat2", "lon2"]}
NAMES = ["lat1", "lon1", "lat2", "lon2"]
EARTH_KM = 6371.0088
COORDINATES = st.tuples(st.floats(-90, 90), st.floats(-180, 180), st.floats(-90, 90), st.floats(-180, 180))
ROWS = st.lists(COORDINATES.flatmap(lambda row: st.tuples(*(st.just(x) | st.none() for x in row))), min_size=1)


def frame(rows: Any) -> pd.DataFrame:
    return pd.DataFrame(np.array(rows, dtype=float).reshape(-1, 4), columns=NAMES)


def city(n: int = 400, spread: float = 0.2) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return frame(np.array([41.88, -87.63, 41.88, -87.63]) + rng.normal(0, spread, (n, 4)))


def kilometres(points: pd.DataFrame) -> np.ndarray:
    pairs = np.radians(points.fillna(0).to_numpy())
    found = [haversine_distances([row[:2]], [row[2:]])[0, 0] * EARTH_KM for row in pairs]
    return np.where(points.isna().any(axis=1), np.nan, found)


def course(row: np.ndarray) -> float:
    """Return the direction of the second point as a vector in the plane that touches the first one: east and north."""
    lat1, lon1, lat2, lon2 = np.radians(row)
    east = np.array([-math.sin(lon1), math.cos(lon1), 0])
    north = np.array([-math.sin(lat1) * math.cos(lon1), -math.sin(lat1) * math.sin(lon1), math.cos(lat1)])
    there = np.array([math.cos(lat2) * math.cos(lon2), math.cos(lat2) * math.sin(lon2), math.sin(lat2)])
    return math.degrees(math.atan2(there @ east, there @ north)) % 360


@examples(50)
@given(rows=ROWS)
def test_a_distance_matches_scikit_learn_and_is_null_for_null_coordinates(fit, rows: list) -> None:
    points = frame(rows)
    got = fit(points, [{"haversine": POINTS}], view="codes", schema=dict.fromkeys(NAMES, "float")).training
    # float32 represents any coordinate on earth to within a metre.
    np.testing.assert_allclose(got["distance_km"], kilometres(points), rtol=1e-5, atol=0.003)


def test_coordinates_that_are_not_in_degrees_are_null(fit) -> None:
    good = [[48.0, 11.0, 52.0, 13.0]] * 5
    bad = [[90.1, 11.0, 52.0, 13.0], [48.0, 11.0, -91.0, 13.0], [48.0, 1e4, 52.0, 1e4], [48.0, 11.0, 52.0, -800.0]]
    turned = [[48.0, 371.0, 52.0, -347.0]]
    made = fit(frame(good + bad + turned), [{"haversine": POINTS}, {"bearing": POINTS}], view="codes").training
    assert (
        np.isnan(made["distance_km"]).tolist()
        == np.isnan(made["bearing"]).tolist()
        == [False] * 5 + [True] * 4 + [False]
    )
    np.testing.assert_allclose(made["distance_km"][[0, 9]], kilometres(frame(good[:1])).repeat(2), rtol=1e-5)


@pytest.mark.parametrize(("unit", "in_km"), [("km", 1.0), ("m", 0.001), ("mi", 1.609344)])
def test_units(fit, unit: str, in_km: float) -> None:
    points = city()
    got = fit(points, [{"haversine": {**POINTS, "unit": unit}}], view="codes").training[f"distance_{unit}"]
    np.testing.assert_allclose(got * in_km, kilometres(points), rtol=1e-5)


@pytest.mark.parametrize("imputed", [False, True])
def test_distances_in_a_city_are_exact_to_a_centimeter(fit, imputed: bool) -> None:
    points = city(spread=1e-4)
    ops = [{"impute": NAMES}] if imputed else []
    got = fit(points, [*ops, {"haversine": {**POINTS, "unit": "m"}}], view="codes").training["distance_m"]
    np.testing.assert_allclose(got, kilometres(points) * 1000, atol=0.01)


def test_the_distance_across_the_date_line_is_the_short_one(fit) -> None:
    points = frame([[0, 179.5, 0, -179.5], [10, -179.9, 10, 179.9]])
    got = fit(points, [{"haversine": POINTS}], view="codes").training["distance_km"]
    np.testing.assert_allclose(got, kilometres(points), rtol=1e-4)


def test_distances_of_well_known_places(fit) -> None:
    """Berlin to New York is 6,385 km, at first to the west-north-west."""
    points = frame([[52.5200, 13.4050, 40.7128, -74.0060]])
    got = fit(points, [{"haversine": POINTS}, {"bearing": POINTS}], view="codes").training
    assert got["distance_km"][0] == pytest.approx(6385, abs=1)
    assert got["bearing"][0] == pytest.approx(296, abs=1)


@pytest.mark.parametrize(("to", "degrees"), [((1, 0), 0), ((0, 1), 90), ((-1, 0), 180), ((0, -1), 270), ((0, 0), 0)])
def test_north_is_0_and_east_is_90(fit, to: tuple[float, float], degrees: float) -> None:
    assert fit(frame([[0, 0, *to]]), [{"bearing": POINTS}], view="codes").training["bearing"][0] == degrees


def test_a_bearing_matches_vectors_in_space(fit) -> None:
    rng = np.random.default_rng(1)
    points = frame(rng.uniform([-80, -180, -80, -180], [80, 180, 80, 180], (500, 4)))
    got = fit(points, [{"bearing": POINTS}], view="codes").training["bearing"]
    off = (got - [course(row) for row in points.to_numpy()] + 180) % 360 - 180
    assert got.between(0, 360).all()
    np.testing.assert_allclose(off, 0, atol=0.01)


def test_sine_and_cosine_of_a_bearing_are_east_and_north(fit) -> None:
    points = city()
    points.loc[7, "lat2"] = None
    made = fit(points, [{"bearing": {**POINTS, "cyclic": True, "as": "way"}}], view="codes")
    angle = np.radians([course(row) for row in points.to_numpy()])
    np.testing.assert_allclose(made.training["way_sin"], np.sin(angle), atol=1e-3)
    np.testing.assert_allclose(made.training["way_cos"], np.cos(angle), atol=1e-3)
    assert made.names == [*NAMES, "way_sin", "way_cos"]


def test_a_bearing_can_be_put_on_a_circle_by_cyclic_too(fit) -> None:
    made = fit(city(), [{"bearing": POINTS}, {"cyclic": {"columns": "bearing", "period": 360}}], view="codes")
    same = fit(city(), [{"bearing": {**POINTS, "cyclic": True}}], view="codes")
    assert made.names == ["bearing_sin", "bearing_cos", *NAMES]
    np.testing.assert_allclose(made.training["bearing_sin"], same.training["bearing_sin"], atol=1e-5)
    np.testing.assert_allclose(made.training["bearing_cos"], same.training["bearing_cos"], atol=1e-5)


@pytest.mark.parametrize("view", ["codes", "dense"])
def test_the_coordinates_stay_features_and_later_ops_find_the_distance(fit, view: str) -> None:
    ops = [{"haversine": {**POINTS, "as": "way"}}, {"log1p": "way"}]
    made = fit(city(), ops, view=view)
    assert made.names == ["way", *NAMES]
    np.testing.assert_allclose(made.training["way"], np.log1p(kilometres(city())), rtol=1e-5)
    assert made.features.lineage["way"] == NAMES


def test_a_distance_without_further_ops_gets_the_default_treatment(fit) -> None:
    points = city()
    points.loc[3, "lon1"] = None
    assert fit(points, [{"haversine": POINTS}], view="codes").names == [*NAMES, "distance_km"]
    dense = fit(points, [{"haversine": POINTS}])
    assert dense.names == ["lat1", "lon1", "lon1_missing", "lat2", "lon2", "distance_km"]
    assert dense.training["distance_km"].std(ddof=0) == pytest.approx(1, abs=1e-4)
    nulls = pd.DataFrame({name: pd.array([None], "Float64") for name in NAMES})
    assert np.isfinite(dense.serve(nulls).to_numpy()).all()


def test_a_distance_can_be_imputed_with_an_indicator(fit) -> None:
    points = city()
    points.loc[[3, 8], "lon1"] = None
    made = fit(points, [{"haversine": POINTS}, {"impute": {"columns": "distance_km", "indicator": True}}], view="codes")
    assert np.flatnonzero(made.training["distance_km_missing"]).tolist() == [3, 8]
    median = np.nanmedian(kilometres(points))
    np.testing.assert_allclose(made.training["distance_km"], pd.Series(kilometres(points)).fillna(median), rtol=1e-5)
    assert set(NAMES) < set(made.names)


def test_changed_degrees_are_rejected(fit) -> None:
    with pytest.raises(
        ConfigError,
        match=r"(?s)takes degrees; 'lat1' has been changed by standardize \(features\[0\]\).*move haversine before",
    ):
        fit(city(), [{"standardize": "lat*"}, {"haversine": POINTS}])


@pytest.mark.parametrize(("column", "value"), [("lat2", 41_880_000.0), ("lon1", -1e6), ("lat1", -121.0)])
def test_values_that_cannot_be_degrees_are_rejected(fit, column: str, value: float) -> None:
    points = city()
    points[column] = value
    with pytest.raises(ConfigError, match=rf"(?s){column}.* is not a (lat|long)itude: its median is .*in degrees"):
        fit(points, [{"bearing": POINTS}])


def test_a_name_means_one_column(fit) -> None:
    with pytest.raises(
        ConfigError, match=r"haversine takes one column for each coordinate; 'lat\*' matches lat1, lat2"
    ):
        fit(city(), [{"haversine": {"from": ["lat*", "lon1"], "to": ["lat2", "lon2"]}}])
    with pytest.raises(ConfigError, match=r"(?s)no column 'lat3'.*haversine.*did you mean"):
        fit(city(), [{"haversine": {"from": ["lat3", "lon1"], "to": ["lat2", "lon2"]}}])


def test_two_distances_need_two_names(fit) -> None:
    with pytest.raises(ConfigError, match=r"(?s)column 'distance_km' already exists.*as:"):
        fit(city(), [{"haversine": POINTS}, {"haversine": POINTS}])
