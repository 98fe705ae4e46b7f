"""Both host engines against plain Python loops in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest

from gpupipe_kernels import keyed
from gpupipe_kernels.engines import HostEngine
from gpupipe_kernels.keyed import naive
from gpupipe_kernels.keyed.features import Function
from gpupipe_kernels.keyed.numba import engine as numba_engine
from gpupipe_kernels.keyed.numba import slices
from gpupipe_kernels.typing import Array
from tests.kernels.keyed.comparison import assert_same, compare
from tests.kernels.keyed.tables import table

BLOCK = 16
DAY = 86_400_000_000


@pytest.fixture(params=["numpy", "numba"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def small_blocks() -> Iterator[None]:
    """Use small blocks and slices, so that small tables have many of them and keys longer than a slice."""
    sliced = mock.patch.object(slices.slices_of, "__defaults__", (BLOCK,))
    walked = mock.patch.object(numba_engine, "LONGEST_WALKED", 2 * BLOCK)
    with sliced, walked, mock.patch.object(numba_engine, "BLOCK_QUERIES", BLOCK):
        yield


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("odd", [False, True], ids=["plain", "odd"])
@pytest.mark.parametrize("n", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 200])
def test_every_feature_is_that_of_plain_loops(engine: HostEngine, n: int, odd: bool) -> None:
    events = table(n, odd=odd)
    history = keyed.order_events(events.key, events.time, engine=engine, n_threads=2)
    compare(events, history, lambda array: array, history.order)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("lengths", [(20, 40, 100), (16, 32, 16), (5, 17, 3, 90), (160,)])
def test_keys_that_are_longer_than_a_piece_are_walked_in_pieces(engine: HostEngine, lengths: tuple[int, ...]) -> None:
    key = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    events = replace(table(len(key), seed=1), key=key)
    history = keyed.order_events(events.key, events.time, engine=engine, n_threads=3)
    compare(events, history, lambda array: array, history.order)


@pytest.mark.parametrize("lengths", [(1000,), (1, 0, 3, 500, 2), (0, 0, 4)])
@pytest.mark.parametrize("odd", [False, True], ids=["plain", "odd"])
def test_one_query_for_each_key_walks_along_its_events(engine: HostEngine, odd: bool, lengths: tuple[int, ...]) -> None:
    n_keys = len(lengths)
    key = np.repeat(np.arange(n_keys, dtype=np.int32), lengths)
    events = replace(table(len(key), odd=odd), key=key)
    cutoff = np.full(n_keys, np.median(events.time), np.int64)
    history = keyed.order_events(key, events.time, n_keys, engine=engine, n_threads=2)
    queries = keyed.queries_before(history, np.arange(n_keys, dtype=np.int32), cutoff)
    seen = naive.seen_before(key, events.time, np.arange(n_keys), cutoff)
    for function in ("count", "sum", "mean", "std", "min", "max"):
        made = keyed.aggregate(events.x[history.order], queries, function)
        assert_same(made, naive.aggregate(events.x, seen, function))


def test_a_column_of_nulls_has_no_values(engine: HostEngine) -> None:
    history = keyed.order_events(np.zeros(4, np.int32), np.arange(4), engine=engine)
    queries, column = keyed.queries_of_events(history), keyed.column(history, np.full(4, np.nan))
    totals: tuple[Function, ...] = ("count", "sum", "nunique")
    others: tuple[Function, ...] = ("mean", "std", "min", "max", "first", "last")
    for function in totals:
        assert_same(keyed.aggregate(column, queries, function), np.zeros(4))
    for function in others:
        assert_same(keyed.aggregate(column, queries, function), np.full(4, np.nan))
    assert_same(keyed.decayed_sum(column, queries, 1.0), np.zeros(4))


def test_a_small_spread_around_a_large_mean_is_not_lost(engine: HostEngine) -> None:
    spread = np.random.default_rng(0).normal(size=1000)
    history = keyed.order_events(np.zeros(1000, np.int32), np.arange(1000), engine=engine)
    queries = keyed.queries_of_events(history, include_current=True)
    whole = keyed.aggregate(1e9 + spread, queries, "std")
    window = keyed.aggregate(1e9 + spread, keyed.last_rows(queries, 10), "std")
    assert whole[-1] == pytest.approx(np.std(spread, ddof=1), rel=1e-6)
    assert window[-1] == pytest.approx(np.std(spread[-10:], ddof=1), rel=1e-6)


@pytest.mark.parametrize("value", [0.1, 1e9 + 1 / 3, -7.3e-5])
def test_equal_values_have_no_deviation(engine: HostEngine, value: float) -> None:
    history = keyed.order_events(np.zeros(300, np.int32), np.arange(300), engine=engine)
    windows = keyed.last_rows(keyed.queries_of_events(history, include_current=True), 7)
    np.testing.assert_array_equal(keyed.aggregate(np.full(300, value), windows, "std")[1:], 0.0)


@pytest.mark.parametrize("odd", [np.inf, -np.inf, 1e99, -1e15])
def test_a_value_has_no_part_in_windows_that_it_has_left(engine: HostEngine, odd: float) -> None:
    values = np.array([1.5, odd, 2.25, 4.0, 8.5, 16.0, 1.0])
    history = keyed.order_events(np.zeros(7, np.int32), np.arange(7), engine=engine)
    windows = keyed.last_rows(keyed.queries_of_events(history, include_current=True), 2)
    for function in ("sum", "mean", "min", "max"):
        made = keyed.aggregate(values, windows, function)
        expected = [getattr(np, function)(values[i - 1 : i + 1]) for i in range(3, 7)]
        np.testing.assert_array_equal(made[3:], np.array(expected, np.float32))


def test_infinities_of_both_signs_have_no_sum(engine: HostEngine) -> None:
    history = keyed.order_events(np.zeros(4, np.int32), np.arange(4), engine=engine)
    queries = keyed.queries_of_events(history, include_current=True)
    values = np.array([1.0, np.inf, 2.0, -np.inf])
    np.testing.assert_array_equal(keyed.aggregate(values, queries, "sum"), [1.0, np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(keyed.aggregate(values, queries, "max"), [1.0, np.inf, np.inf, np.inf])
    np.testing.assert_array_equal(keyed.decayed_sum(values, queries, 1.0), [1.0, np.inf, np.inf, np.nan])


def test_threads_do_not_change_a_bit() -> None:
    events = table(3000, odd=True)

    def features(n_threads: int, piece: int) -> list[Array]:
        with mock.patch.object(slices.slices_of, "__defaults__", (piece,)):
            history = keyed.order_events(events.key, events.time, engine="numba", n_threads=n_threads)
            queries, x = keyed.queries_of_events(history), events.x[history.order]
            made = [keyed.aggregate(x, queries, function) for function in ("sum", "std", "max", "nunique")]
            return [*made, keyed.decayed_sum(x, queries, 100.0), history.order]

    for one, many in zip(features(1, 1 << 16), features(5, 1 << 16), strict=True):
        np.testing.assert_array_equal(one, many)
    for one, cut in zip(features(1, 1 << 16), features(2, 7), strict=True):
        np.testing.assert_allclose(one, cut, rtol=2e-7)


@pytest.mark.parametrize("start", [[0], [0, 0], [0, 3, 3, 40, 41], [0, 16, 32], [0, 100], [0, 5, 90, 100]])
def test_pieces_begin_where_a_key_does_or_at_multiples_from_there(start: list[int]) -> None:
    cuts = slices.slices_of(np.array(start, np.int32), 16).cuts
    assert cuts[0] == 0 and cuts[-1] == start[-1] and (np.diff(cuts) >= 0).all() and (np.diff(cuts) < 32).all()
    for cut in cuts[1:-1]:
        begin = max(s for s in start if s <= cut)
        assert (cut - begin) % 16 == 0
    inside = {s + k for s, e in pairwise(start) for k in range(16, e - s, 16)}
    assert inside <= set(cuts.tolist())


def test_codes_that_are_far_apart_are_counted_too(engine: HostEngine) -> None:
    codes = np.array([5, 2_000_000_000, 5, 7, 2_000_000_000], np.int32)
    history = keyed.order_events(np.zeros(5, np.int32), np.arange(5), engine=engine)
    queries = keyed.queries_of_events(history, include_current=True)
    np.testing.assert_array_equal(keyed.aggregate_codes(codes, queries, "nunique"), [1, 2, 2, 3, 3])


def test_units_are_microseconds_unless_another_is_given(engine: HostEngine) -> None:
    history = keyed.order_events(np.zeros(3, np.int32), np.array([0, 1, 4]) * DAY, engine=engine)
    queries = keyed.queries_of_events(history)
    np.testing.assert_array_equal(keyed.time_since(queries), np.array([np.nan, DAY, 3 * DAY], np.float32))
    np.testing.assert_array_equal(keyed.time_since(queries, unit=DAY), [np.nan, 1.0, 3.0])
    np.testing.assert_array_equal(keyed.sessions(queries, DAY, unit=DAY)[2], [np.nan, 1.0, 4.0])
    np.testing.assert_array_equal(keyed.gaps(history, DAY), [np.nan, 1.0, 3.0])


def test_times_may_be_as_far_apart_as_int64_has_them(engine: HostEngine) -> None:
    least, most = -(2**63) + 1, 2**63 - 1
    history = keyed.order_events(np.zeros(4, np.int32), np.array([least, 0, most, most]), engine=engine)
    queries = keyed.queries_of_events(history)
    np.testing.assert_array_equal(keyed.time_since(queries), np.array([np.nan, 2.0**63, 2.0**63, 0.0], np.float32))
    np.testing.assert_array_equal(keyed.count(keyed.last_span(queries, 2**62)), [0.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(keyed.sessions(queries, 2**62)[0], [0.0, 1.0, 2.0, 3.0])
    edges = np.array([least, most, -(2**63)])
    np.testing.assert_array_equal(
        keyed.count(keyed.queries_before(history, np.zeros(3, np.int32), edges)), [0.0, 2.0, 0.0]
    )
