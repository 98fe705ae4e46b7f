"""Scalar formulas against float64, over the whole range of float32."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit, vectorize

from gpupipe_kernels import reference
from gpupipe_kernels.formulas import calendar
from gpupipe_kernels.formulas.angle import arctangent, fraction, sine_of_half, wave, wave_parameters
from gpupipe_kernels.formulas.calendar32 import part
from gpupipe_kernels.formulas.cells import (
    between,
    bin_of,
    clip,
    elapsed,
    entry,
    fill,
    finite,
    part_index,
    part_value,
)
from gpupipe_kernels.formulas.distance import bearing, course, distance
from gpupipe_kernels.formulas.logarithm import log1p
from gpupipe_kernels.formulas.power import expm1, yeo_johnson
from gpupipe_kernels.program.opcodes import NAT, CalendarPart
from tests.examples import examples
from tests.kernels.programs import exact_sine

F = np.float32
NAN = F(math.nan)
EVERYWHERE = np.concatenate(
    [
        np.arange(0, 2**32, 4999, dtype=np.uint64).astype(np.uint32).view(F),
        np.array([-1, 0, -0.0, math.inf, -math.inf, math.nan], F),
    ]
)
DAY = 86_400_000_000


@cache
def ufunc(formula: Any) -> Any:
    """Return a formula as a ufunc, compiled once."""
    return vectorize(getattr(formula, "py_func", formula))


def over(formula: Any, *arrays: Any) -> np.ndarray:
    """Return a formula applied to every element."""
    return ufunc(formula)(*arrays)


def assert_near(got: np.ndarray, expected: np.ndarray, rtol: float, atol: float = 0.0) -> None:
    """Compare with float64; results that exceed float32 must be infinite."""
    assert got.dtype == np.float32
    with np.errstate(over="ignore"):
        single = np.asarray(expected).astype(np.float32)
    np.testing.assert_allclose(got, single, rtol=rtol, atol=atol)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with np.errstate(all="ignore"):  # NumPy's references compute logarithms of negative numbers
        yield


def test_the_logarithm_is_within_an_ulp_everywhere() -> None:
    assert_near(over(log1p, EVERYWHERE), np.log1p(wide(EVERYWHERE)), rtol=2e-7)


def test_the_logarithm_keeps_the_sign_of_zero() -> None:
    assert np.signbit(over(log1p, np.array([-0.0, 0.0], F))).tolist() == [True, False]


def test_the_exponential_is_within_two_ulps_everywhere() -> None:
    last = F(88.72283)  # whose exponential is finite
    x = np.append(EVERYWHERE, [np.nextafter(last, F(0)), last, np.nextafter(last, F(99))])
    assert_near(over(expm1, x), np.expm1(wide(x)), rtol=2.5e-7)
    assert np.isfinite(over(expm1, x)[-3:]).tolist() == [True, True, False]


@pytest.mark.parametrize("exponent", [-3.0, -1.0, -0.3, 0.0, 1e-6, 0.5, 1.0, 1.999999, 2.0, 2.7, 5.0])
def test_the_power_transformation_is_that_of_float64(exponent: float) -> None:
    rng = np.random.default_rng(0)
    most = float(np.finfo(F).max)
    ends: list[float] = [0.0, -0.0, most, -most, math.inf, -math.inf, math.nan]
    x = np.append(rng.normal(size=50_000) * 10 ** rng.uniform(-6, 6, 50_000), ends)
    x = x.astype(F)
    assert_near(over(yeo_johnson, x, F(exponent)), reference.yeo_johnson(wide(x), float(F(exponent))), rtol=1e-5)


@pytest.mark.parametrize("limit", [1e-6, 1.0, 1e5, 4e6])
def test_sine_and_fraction_of_turns_are_those_of_float64(limit: float) -> None:
    turns = np.random.default_rng(1).uniform(-limit, limit, 50_000).astype(F)
    rest = over(fraction, turns)
    np.testing.assert_array_equal(wide(turns) - rest, np.rint(wide(turns)))
    assert_near(over(sine_of_half, rest), np.sin(2 * np.pi * wide(rest)), rtol=0, atol=2.5e-7)


def test_a_small_sine_is_precise_relative_to_itself() -> None:
    turns = (10.0 ** np.random.default_rng(2).uniform(-30, -2, 10_000)).astype(F)
    assert_near(over(sine_of_half, turns), np.sin(2 * np.pi * wide(turns)), rtol=3e-7)


@examples(200)
@given(
    period=st.sampled_from([1.0, 3.0, 7.0, 24.0, 365.25, 86_400.0]) | st.floats(1e-36, 1e36),
    offset=st.sampled_from([0.0, math.pi / 2]) | st.floats(-7, 7),
    turns=st.lists(st.floats(-1.5, 1.5).map(lambda t: t * 2**23) | st.floats(-100, 100), min_size=1, max_size=20),
    others=st.lists(st.floats(width=32), max_size=5),
)
def test_waves_are_exact_for_any_float32_or_null(
    period: float, offset: float, turns: list[float], others: list[float]
) -> None:
    factor = 2 * math.pi / period
    x = np.array([*(turn * period for turn in turns), *others], F)
    high, low, phase = (F(value) for value in wave_parameters(factor, offset))
    expected = np.array([exact_sine(value, factor, offset) for value in x.tolist()])
    assert_near(over(wave, x, high, low, phase), expected, rtol=0, atol=1e-6)
    assert_near(reference.sine(x, factor, offset).astype(F), expected, rtol=0, atol=1e-7)


def test_the_period_of_two_is_that_of_every_integer_that_float32_holds() -> None:
    x = np.array([2**24, 2**24 - 1, -(2**24), 2**24 + 2], F)
    got = over(wave, x, *map(F, wave_parameters(math.pi, math.pi / 2)))
    np.testing.assert_allclose(got, [1, -1, 1, math.nan], atol=1e-6)


def test_the_arctangent_is_that_of_all_quadrants() -> None:
    rng = np.random.default_rng(4)
    y, x = ((rng.normal(size=50_000) * 10 ** rng.uniform(-5, 5, 50_000)).astype(F) for _ in range(2))
    assert_near(over(arctangent, y, x), np.arctan2(wide(y), wide(x)), rtol=3e-7)
    y, x = np.array([0, -1, 1, 0, 1], F), np.array([0, 0, 0, -2, 1], F)
    assert_near(over(arctangent, y, x), np.arctan2(wide(y), wide(x)), 3e-7)
    assert np.isnan(over(arctangent, np.array([math.nan, 1], F), np.array([1, math.nan], F))).all()


def path(*points: np.ndarray, origin: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return distance and bearing by the formulas and in float64, with latitudes relative to `origin`."""
    at = [p.astype(F) for p in points]

    def far(a: Any, b: Any, c: Any, d: Any, o: Any) -> Any:
        north, east, inwards = course(a, b, c, d, o)
        return distance(north, east, inwards, F(1.0))

    def where(a: Any, b: Any, c: Any, d: Any, o: Any) -> Any:
        north, east, _ = course(a, b, c, d, o)
        return bearing(north, east)

    lat1, lon1, lat2, lon2 = at
    exact = reference.degrees(lat1, lon1, lat2, lon2, origin)
    got = over(far, *at, F(origin)), over(where, *at, F(origin))
    return *got, reference.central_angle(*exact), reference.bearing(*exact)


def test_distances_within_a_city_keep_their_digits() -> None:
    rng = np.random.default_rng(5)
    lat, lon = rng.uniform(-0.3, 0.3, 50_000), rng.uniform(-74.2, -73.7, 50_000)
    far, where, exact_far, exact_where = path(lat, lon, lat + rng.normal(size=50_000) * 0.01, lon + 0.01, origin=40.75)
    np.testing.assert_allclose(far, exact_far, rtol=6e-7)
    assert (np.abs((where - exact_where + 180) % 360 - 180) < 1e-4).all()


def test_distances_across_the_world_and_to_antipodes_hold() -> None:
    rng = np.random.default_rng(6)
    lat, lon = rng.uniform(-90, 90, 50_000), rng.uniform(-180, 180, 50_000)
    lat2, lon2 = rng.permutation(lat), rng.permutation(lon)
    lat2[:5000], lon2[:5000] = -lat[:5000] + 1e-3, lon[:5000] + 180
    far, where, exact_far, exact_where = path(lat, lon, lat2, lon2, origin=0.0)
    np.testing.assert_allclose(far, exact_far, rtol=0, atol=1.5e-6)
    clear = np.sin(exact_far) > 0.01  # nearly any course leads to an antipode
    assert (np.abs((where - exact_where + 180) % 360 - 180)[clear] < 1e-2).all()


def test_coordinates_that_are_not_in_degrees_are_null_and_longitudes_start_anywhere() -> None:
    past = np.nextafter(F(90), F(99))
    cases = [
        (90, 0, 0, 0), (-90, 0, 0, 0), (0, 1, 0, 361), (0, 1, 0, -359), (0, -360, 10, 360), (past, 0, 0, 0),
        (0, 1, 0, 721.5), (0, 721, 0, 721), (0, 5e7, 0, 5e7), (50, 1, -90.5, 1), (math.inf, 0, 0, 0), (NAN, 7, 0, 7),
        (0, 7, NAN, 7), (0, 7, 0, NAN), (0, -math.inf, 0, math.inf),
    ]  # fmt: skip
    lat, lon, lat2, lon2 = np.array(cases).T
    far, where, exact_far, exact_where = path(lat, lon, lat2, lon2, origin=0.0)
    np.testing.assert_allclose(far, exact_far, rtol=0, atol=1e-6)
    assert np.isnan(far).tolist() == [False] * 5 + [True] * 10
    np.testing.assert_array_equal(np.isnan(where), np.isnan(far))
    np.testing.assert_array_equal(np.isnan(exact_where), np.isnan(far))


def test_a_point_has_no_distance_to_itself_and_its_bearing_is_0() -> None:
    lat, lon = np.array([0.0, -33.3, 90.0, -90.0]), np.array([0.0, 151.2, 10.0, -180.0])
    far, where, _, _ = path(lat, lon, lat, lon, origin=0.0)
    assert far.tolist() == where.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("which", list(CalendarPart))
def test_calendar_parts_in_32_bits_are_those_of_python_integers(which: CalendarPart) -> None:
    rng = np.random.default_rng(7)
    days = np.arange(-100 * 366, 100 * 366) * DAY
    ends = [-(2**63) + 1, 2**63 - 1, -1, 0, DAY - 1, DAY, -DAY, -DAY - 1]
    times = np.concatenate([days + rng.integers(0, DAY, days.size), rng.integers(-(2**63) + 1, 2**63, 20_000), ends])
    expected = [calendar.part(time, which) for time in times.tolist()]
    np.testing.assert_array_equal(over(part, times, np.int32(which)), expected)


def test_a_missing_time_is_nan_or_the_last_entry() -> None:
    times = np.array([NAT, 3 * DAY])
    np.testing.assert_array_equal(over(part_value, times, np.int32(CalendarPart.DAY)), np.array([math.nan, 4], F))
    np.testing.assert_array_equal(over(part_index, times, np.int32(CalendarPart.DAY), np.int32(32)), [32, 4])
    np.testing.assert_array_equal(over(elapsed, times, float(DAY), 1 / DAY), np.array([math.nan, 2], F))
    np.testing.assert_array_equal(over(between, times, times[::-1].copy(), 1.0), np.array([math.nan, math.nan], F))
    np.testing.assert_array_equal(over(between, times, np.int64(DAY), 1 / DAY), np.array([math.nan, 2], F))


def test_filling_clipping_and_what_is_not_finite_follow_the_policy() -> None:
    x = np.array([math.nan, -2, -0.0, 3, math.inf, -math.inf], F)
    np.testing.assert_array_equal(over(fill, x, F(7)), np.array([7, -2, -0.0, 3, math.inf, -math.inf], F))
    np.testing.assert_array_equal(over(clip, x, F(-1), F(2)), np.array([math.nan, -1, -0.0, 2, 2, -1], F))
    assert np.isnan(over(clip, x, NAN, F(2))).all()
    assert np.isnan(over(clip, x, F(-1), NAN)).all()
    got = over(finite, EVERYWHERE)
    np.testing.assert_array_equal(got, np.where(np.isfinite(EVERYWHERE), EVERYWHERE, NAN))
    np.testing.assert_array_equal(np.signbit(got[EVERYWHERE == 0]), np.signbit(EVERYWHERE[EVERYWHERE == 0]))


@pytest.mark.parametrize("n_edges", [0, 1, 2, 3, 8, 100])
def test_a_bin_is_that_of_searchsorted(n_edges: int) -> None:
    edges = np.sort(np.random.default_rng(n_edges).normal(size=n_edges)).astype(F)
    padded = np.concatenate([np.array([99, 99], F), edges, np.array([-99], F)])
    x = np.concatenate([edges, edges + F(1e-3), np.array([math.inf, -math.inf, 0.0, -0.0], F)])

    @njit
    def bins(x: Any, edges: Any) -> Any:
        return [bin_of(v, edges, np.uint64(2), np.int32(n_edges), np.int32(3)) for v in x]

    np.testing.assert_array_equal(bins(x, padded), 3 + np.searchsorted(edges, x, side="right"))
    assert bins(np.array([math.nan], F), padded) == [0]


def test_an_entry_is_clipped_to_its_table() -> None:
    got = over(entry, np.array([-(2**31), -1, 0, 4, 5, 2**31 - 1], np.int32), np.int32(5))
    np.testing.assert_array_equal(got, [0, 0, 0, 4, 4, 4])
