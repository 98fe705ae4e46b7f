"""Quantiles by selection, against NumPy's by sorting."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.features.statistics import quantiles as module
from gpupipe.features.statistics.quantiles import (
    compute_quantiles,
    find_brackets,
    merge_brackets,
    read_brackets,
    values_at_ranks,
)
from gpupipe_kernels.reduce.engine import LANES
from gpupipe_kernels.reduce.numba import engine as numba_engine
from gpupipe_kernels.reduce.numpy import engine as numpy_engine
from tests.examples import examples

ENGINES = {"numpy": numpy_engine, "numba": numba_engine}
SHARES = [0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0]


def drawn(seed: int, n: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ties, wide = rng.integers(0, 4, n) * 1.0, np.ldexp(rng.normal(size=n), rng.integers(-30, 30, n))
    return {
        "wide": wide,
        "ties": ties,
        "nulls": np.where(ties < 2, np.nan, wide),
        "zeros": np.where(ties < 3, -0.0, ties),
    }[kind]


VALUES = st.one_of(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20).map(np.array),
    st.builds(
        drawn, st.integers(0, 2**32 - 1), st.integers(1, 300), st.sampled_from(["wide", "ties", "nulls", "zeros"])
    ),
)


@contextmanager
def few(n: int) -> Iterator[None]:
    """Lower the threshold for brackets, so that small examples use them."""
    with patch.object(module, "FEW_VALUES", n):
        yield


def compute(x: np.ndarray, shares: list[float], engine: Any, n_parts: int = 1) -> list[float]:
    """Return the quantiles as they are put together of several parts of the rows."""
    given, pieces = find_brackets(x, shares, engine), []
    for part in np.array_split(x, n_parts):
        out, found = np.empty((len(given), len(part)), x.dtype), np.zeros((len(given), 2), np.int64)
        engine.sweep(part, 0.0, np.empty((0, LANES)), given, out, found)
        pieces.append(read_brackets(given, out, found))
    inside = [merge_brackets(parts) for parts in zip(*pieces, strict=True)]
    return compute_quantiles(x, int(np.isnan(x).sum()), shares, inside, engine)


def assert_exact(x: np.ndarray, shares: list[float], got: list[float]) -> None:
    known = x[~np.isnan(x)].astype(np.float64)
    if len(known) == 0:
        assert got == [0.0] * len(shares)
        return
    # NumPy interpolates in another order of operations.
    np.testing.assert_allclose(got, np.quantile(known, shares), rtol=1e-15, atol=1e-15 * np.abs(known).max())
    between = [share * (len(known) - 1) for share in shares]
    ordered = np.sort(known)
    for value, rank in zip(got, between, strict=True):
        if rank == int(rank):
            assert value == ordered[int(rank)]


@examples(150)
@given(
    values=VALUES,
    order=st.sampled_from(["as drawn", "sorted", "reversed"]),
    dtype=st.sampled_from(["float32", "float64"]),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    threshold=st.integers(2, 80),
    n_parts=st.integers(1, 3),
    name=st.sampled_from(sorted(ENGINES)),
)
def test_quantiles_match_numpy_for_any_values(
    values: np.ndarray, order: str, dtype: str, shares: list[float], threshold: int, n_parts: int, name: str
) -> None:
    x = values.astype(dtype)
    if order != "as drawn":
        x = np.sort(x)[:: 1 if order == "sorted" else -1].copy()
    with few(threshold):
        assert_exact(x, shares, compute(x, shares, ENGINES[name], n_parts))


@pytest.mark.parametrize("name", sorted(ENGINES))
@pytest.mark.parametrize(
    "make",
    [
        lambda rng, n: rng.normal(size=n),
        lambda rng, n: rng.integers(0, 9, n) * 1.0,
        lambda rng, n: np.sort(rng.lognormal(size=n)),
        lambda rng, n: np.sort(rng.lognormal(size=n))[::-1].copy(),
        lambda rng, n: np.where(np.arange(n) % 64 < 3, 5.0, rng.normal(size=n)),
        lambda rng, n: np.where(rng.random(n) < 0.9, np.nan, rng.normal(size=n)),
        lambda rng, n: np.full(n, 7.25),
        lambda rng, n: np.full(n, np.nan),
        lambda rng, n: np.concatenate([[rng.normal()], np.full(n - 1, np.nan)]),
    ],
    ids=["normal", "nine values", "sorted", "reversed", "periodic", "nine nulls in ten", "constant", "null", "one"],
)
def test_quantiles_of_many_rows(make: Any, name: str) -> None:
    for dtype in ("float32", "float64"):
        x = make(np.random.default_rng(0), 100_003).astype(dtype)
        assert len(find_brackets(x, SHARES, ENGINES[name])) == len(SHARES)  # it is not partitioned at once
        assert_exact(x, SHARES, compute(x, SHARES, ENGINES[name], 3))


def test_a_bracket_that_misses_is_detected() -> None:
    x = np.random.default_rng(1).normal(size=50_000)
    given = np.array([[2.0, 3.0]])  # far from the median
    out, found = np.empty((1, len(x))), np.zeros((1, 2), np.int64)
    numpy_engine.sweep(x, 0.0, np.empty((0, LANES)), given, out, found)
    assert compute_quantiles(x, 0, [0.5], read_brackets(given, out, found), numpy_engine) == [
        pytest.approx(np.median(x), abs=1e-15)
    ]


@pytest.mark.parametrize("high", [4.0, 5.0])
def test_a_bracket_that_holds_one_of_two_ranks_is_not_enough(high: float) -> None:
    x, given = np.arange(10.0), np.array([[high - 4.0, high]])  # the median is between 4 and 5
    out, found = np.empty((1, 10)), np.zeros((1, 2), np.int64)
    numpy_engine.sweep(x, 0.0, np.empty((0, LANES)), given, out, found)
    (inside,) = read_brackets(given, out, found)
    assert inside.holds((4, 5)) is (high == 5.0)
    assert compute_quantiles(x, 0, [0.5], [inside], numpy_engine) == [4.5]


def test_infinities_are_values_and_a_quantile_between_two_is_one() -> None:
    x = np.concatenate([np.full(30_000, -np.inf), np.arange(30_001.0), np.full(40_000, np.inf)])
    np.random.default_rng(0).shuffle(x)
    assert compute(x, [0.1, 0.45, 0.9], numpy_engine) == [-math.inf, pytest.approx(15_000), math.inf]


def test_a_zero_is_the_zero_that_is_not_negative() -> None:
    for n in (5, 50_000):
        (found,) = compute(np.full(n, -0.0), [0.5], numpy_engine)
        assert math.copysign(1.0, found) == 1.0


def test_many_quantiles_are_found_at_once() -> None:
    x = np.random.default_rng(2).normal(size=30_000)
    x[::7] = np.nan
    shares = [i / 64 for i in range(65)]
    assert len(find_brackets(x, shares, numpy_engine)) == 0
    assert_exact(x, shares, compute(x, shares, numpy_engine))


def test_a_column_without_rows_has_no_quantile() -> None:
    assert compute(np.empty(0), [0.5, 1.0], numpy_engine) == [0.0, 0.0]
    assert compute_quantiles(np.arange(3.0), 0, [], [], numpy_engine) == []


@examples(60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 300),
    digits=st.integers(0, 6),
    deviations=st.sampled_from([0.0, 3.0]),
    data=st.data(),
)
def test_two_ranks_are_those_of_the_sorted_values_whether_brackets_hold_or_miss(
    seed: int, n: int, digits: int, deviations: float, data: st.DataObject
) -> None:
    values = np.round(np.random.default_rng(seed).normal(size=n), digits)
    low = data.draw(st.integers(0, n - 1))
    high = data.draw(st.integers(low, n - 1))
    ordered = np.sort(values)
    with few(4), patch.object(module, "DEVIATIONS", deviations):
        assert values_at_ranks(values, (low, high), numpy_engine) == (ordered[low], ordered[high])
