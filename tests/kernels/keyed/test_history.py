"""Sorting of events, and rejected arguments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe_kernels import keyed
from gpupipe_kernels.engines import COSTS, HostEngine
from gpupipe_kernels.program.opcodes import NAT
from tests.examples import examples

ENGINES = pytest.mark.parametrize("engine", ["numpy", "numba"])
TIMES = st.integers(0, 3) | st.sampled_from([NAT, NAT + 1, 2**63 - 1]) | st.integers(-(2**62), 2**62)
EVENTS = st.lists(st.tuples(st.integers(-2, 4), TIMES), max_size=40)
I32 = np.int32


@ENGINES
@examples(60)
@given(events=EVENTS, in_time=st.booleans())
def test_events_stand_by_key_then_time_then_place(
    engine: HostEngine, events: list[tuple[int, int]], in_time: bool
) -> None:
    events = sorted(events, key=lambda event: event[1]) if in_time else events
    key, time = np.array([k for k, _ in events], I32), np.array([t for _, t in events], np.int64)

    history = keyed.order_events(key, time, engine=engine, n_threads=2)

    expected = sorted((k, t, i) for i, (k, t) in enumerate(events) if k >= 0 and t != NAT)
    assert history.order.tolist() == [i for _, _, i in expected]
    assert history.time.tolist() == [t for _, t, _ in expected]
    n_keys = max((k for k, _ in events), default=-1) + 1
    assert history.start.tolist() == [sum(k < key for k, _, _ in expected) for key in range(max(n_keys, 0) + 1)]


@ENGINES
def test_many_rows_in_no_order_are_sorted_as_numpy_does(engine: HostEngine) -> None:
    rng = np.random.default_rng(0)
    key = np.where(rng.random(200_000) < 0.5, 3, rng.integers(0, 5000, 200_000)).astype(I32)
    time = rng.integers(0, 10**15, 200_000) // 10**9 * 10**9
    order = keyed.order_events(key, time, engine=engine, n_threads=3).order
    np.testing.assert_array_equal(order, np.lexsort((time, key)))


@ENGINES
def test_an_order_that_is_given_is_taken(engine: HostEngine) -> None:
    key, time = np.array([1, -1, 0, 1], I32), np.array([5, 1, 2, NAT])
    history = keyed.order_events(key, time, 4, order=np.array([2, 0], I32), engine=engine)
    assert (history.start.tolist(), history.time.tolist()) == ([0, 1, 2, 2, 2], [2, 5])


@ENGINES
def test_arrays_need_not_be_contiguous_or_writable(engine: HostEngine) -> None:
    key, time = np.arange(8, dtype=np.int64)[::2] // 4, np.arange(4)[::-1]
    key.flags.writeable = False
    history = keyed.order_events(key, time, engine=engine)
    queries = keyed.queries_before(history, key, np.full(8, 9)[::2])
    assert history.order.tolist() == [1, 0, 3, 2]
    assert keyed.count(queries).tolist() == [2, 2, 2, 2]
    column = np.arange(8, dtype=np.float32)[::2]
    assert keyed.aggregate(column, queries, "sum").tolist() == [2, 2, 10, 10]


@ENGINES
def test_a_column_of_the_table_is_put_in_order(engine: HostEngine) -> None:
    history = keyed.order_events(np.array([1, -1, 0, 0], I32), np.array([5, 1, 9, 2]), engine=engine)
    for values in (np.arange(4.0), np.array(list("abcd")), np.arange(8, dtype=np.int8)[::2]):
        assert keyed.in_order(history, values).tolist() == [values[3], values[2], values[0]]
    with pytest.raises(ValueError, match="expected 4 values"):
        keyed.in_order(history, np.arange(3))


@ENGINES
def test_a_cut_off_for_all_rows_is_one_number(engine: HostEngine) -> None:
    history = keyed.order_events(np.zeros(5, I32), np.arange(5), engine=engine)
    queries = keyed.queries_before(history, np.array([0, 0, 1, -1], I32), np.array(3))
    assert keyed.count(queries).tolist() == [3, 3, 0, 0]


@ENGINES
def test_events_that_cannot_be_sorted_are_rejected(engine: HostEngine) -> None:
    key, time = np.zeros(3, I32), np.arange(3)
    for wrong, message in (
        ((key, time[:2]), "same length"),
        ((key[None], time[None]), "same length"),
        ((key.astype(float), time), "expected an integer key"),
        ((key, time.astype("datetime64[us]")), "an int64 time"),
        ((np.array([0, 2**31, 1]), time), "codes in the range of int32"),
        ((np.array([0, 7, 1]), time, 5), "key codes below 5, got 7"),
    ):
        with pytest.raises(ValueError, match=message):
            keyed.order_events(*wrong, engine=engine)


def test_an_unknown_engine_is_rejected() -> None:
    with pytest.raises(ValueError, match="unknown host engine 'cuda'"):
        keyed.order_events(np.zeros(3, I32), np.arange(3), engine="cuda")  # type: ignore[arg-type]


@ENGINES
def test_invalid_queries_are_rejected(engine: HostEngine) -> None:
    history = keyed.order_events(np.zeros(3, I32), np.arange(3), engine=engine)
    other = keyed.order_events(np.zeros(3, I32), np.arange(3))
    queries, x = keyed.queries_of_events(history), np.arange(3.0)
    window = keyed.last_rows(queries, 2)
    for ask, message in (
        (lambda: keyed.last_rows(queries, 0), "at least 1 row"),
        (lambda: keyed.last_span(queries, 0), "1 to"),
        (lambda: keyed.last_span(queries, 2**62 + 1), "1 to"),
        (lambda: keyed.lag(x, queries, 0), "at least 1, got 0"),
        (lambda: keyed.aggregate(x[:2], queries, "sum"), "expected 3 values"),
        (lambda: keyed.aggregate(keyed.column(other, x), queries, "sum"), "different histories"),
        (lambda: keyed.aggregate(x, queries, "median"), "unknown aggregate 'median'"),  # type: ignore[arg-type]
        (lambda: keyed.aggregate(x, window, "nunique"), "cannot be combined with a window"),
        (lambda: keyed.aggregate_codes(np.ones(3, I32), queries, "mean"), "of codes 'mean'"),  # type: ignore[arg-type]
        (lambda: keyed.pick(np.ones(3, I32), queries, "second"), "first or last"),  # type: ignore[arg-type]
        (lambda: keyed.time_since(queries, where=np.ones(2, bool)), "expected 3 values"),
        (lambda: keyed.sessions(queries, -1), "at least 0"),
        (lambda: keyed.decayed_sum(x, queries, 0.0), "more than 0"),
        (lambda: keyed.decayed_sum(x, queries, float("inf")), "more than 0"),
        (lambda: keyed.decayed_sum(x, window, 1.0), "cannot be combined with a window"),
        (lambda: keyed.queries_before(history, np.zeros(2, I32), np.arange(3)), "same length"),
        (lambda: keyed.queries_before(history, np.zeros(3), np.arange(3)), "expected an integer key"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


def test_an_engine_is_chosen_by_the_number_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COSTS, "keyed", replace(COSTS["keyed"], compile_seconds=1e-6, saved_ns=95.0))
    made = [keyed.order_events(np.zeros(n, I32), np.zeros(n, np.int64)).engine.name for n in (10, 11)]
    assert made == ["numpy", "numba"]
