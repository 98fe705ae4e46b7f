"""Moments after imputing and scaling, against NumPy on the transformed values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.features.statistics.moments import Moments, find_pivot

NUMBERS = st.floats(-1e4, 1e4)


def moments_of(values: list[float], pivot: float) -> Moments:
    known = np.array([value for value in values if value == value])
    away = known - pivot
    n_null = len(values) - len(known)
    return Moments.of_sums(len(known), n_null, n_null, pivot, float(away.sum()), float((away**2).sum()))


@given(
    values=st.lists(NUMBERS | st.just(float("nan")), min_size=1, max_size=30),
    pivot=st.floats(-10, 10),
    fill=NUMBERS,
    center=NUMBERS,
    factor=st.floats(1e-3, 1e3),
)
def test_moments_follow_transformations_of_the_values(
    values: list[float], pivot: float, fill: float, center: float, factor: float
) -> None:
    found = moments_of(values, pivot).filled(fill).centred(center, factor)
    exact = (np.where(np.isnan(values), fill, values) - center) * factor
    size = 1e-7 * np.abs(exact).max() + 1e-7 * abs(center * factor) + 1e-9
    assert (found.n, found.n_null) == (len(values), 0)
    assert found.mean == pytest.approx(exact.mean(), abs=size)
    # With a large mean, sums lose a small deviation; here the pivot is far from the data, and a variance below 1e-13 of
    # the square of this distance is taken for rounding.
    far = 4e-7 * factor * max(abs(value - pivot) for value in [0.0, *values] if value == value)
    assert found.deviation == pytest.approx(exact.std(), abs=1e3 * size + far)


def test_a_small_spread_around_a_large_mean_is_kept_by_a_pivot_near_it() -> None:
    x = 1e9 + np.random.default_rng(0).normal(size=1000)
    found = moments_of(x.tolist(), find_pivot(x))
    assert found.mean == pytest.approx(x.mean(), rel=1e-15)
    assert found.deviation == pytest.approx(x.std(), rel=1e-9)


@pytest.mark.parametrize("value", [0.1, 1e9 + 0.1, -3e-7])
def test_a_constant_has_deviation_0_before_and_after_filling(value: float) -> None:
    found = moments_of([value] * 7 + [float("nan")] * 2, pivot=value)
    assert found.deviation == 0.0
    assert found.filled(value).deviation == 0.0
    assert found.filled(value + 1).deviation == pytest.approx(np.std([0] * 7 + [1] * 2), rel=1e-6)


def test_a_difference_below_the_resolution_is_ignored() -> None:
    found = moments_of([0.3] * 5 + [float("nan")], pivot=0.3)
    assert found.filled(0.3 + 1e-8, resolution=1e-7).deviation == 0.0
    assert found.filled(0.3 + 1e-8).deviation > 0.0


def test_only_nulls() -> None:
    found = moments_of([float("nan")] * 3, pivot=0.0)
    assert (found.mean, found.deviation, found.n_null) == (0.0, 0.0, 3)
    assert found.filled(4.5) == Moments(3, 0, 0.0, 4.5, 0.0)


@pytest.mark.parametrize("n_before", [0, 1, 255, 256, 257, 5000])
def test_the_pivot_is_found_after_leading_nulls(n_before: int) -> None:
    x = np.concatenate([np.full(n_before, np.nan), [np.inf, 3.0, 1.0, 2.0, -np.inf]])
    assert find_pivot(x) in (1.0, 2.0, 3.0)


def test_without_a_finite_value_it_is_0() -> None:
    assert find_pivot(np.full(10_000, np.nan)) == 0.0
    assert find_pivot(np.array([np.inf])) == 0.0
    assert find_pivot(np.empty(0)) == 0.0
