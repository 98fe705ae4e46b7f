"""Leakage: events at or after the cut-off of a query do not change a bit of its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe_kernels import keyed
from gpupipe_kernels.engines import HostEngine
from gpupipe_kernels.keyed.features import Function
from gpupipe_kernels.program.opcodes import NAT
from tests.examples import examples

ENGINES = pytest.mark.parametrize("engine", ["numpy", "numba"])
VALUES = st.floats(-1e6, 1e6, width=32) | st.sampled_from([np.nan, np.inf, -np.inf, 1e-30, 1e30, 0.1])
TIMES = st.integers(0, 30) | st.just(NAT)
EVENT = st.tuples(st.integers(-1, 2), TIMES, VALUES, st.integers(0, 4))
EVENTS = st.lists(EVENT, min_size=1, max_size=25)
THREADS = 2


@dataclass(frozen=True)
class Rows:
    key: np.ndarray
    time: np.ndarray
    x: np.ndarray
    codes: np.ndarray

    @staticmethod
    def of(events: list[tuple[int, int, float, int]]) -> Rows:
        key, time, x, codes = zip(*events, strict=True) if events else ((), (), (), ())
        return Rows(np.array(key, np.int32), np.array(time, np.int64), np.array(x, float), np.array(codes, np.int32))


def results(rows: Rows, queries: keyed.Queries) -> list[Any]:
    """Return all features of queries, one array each."""
    order = queries.history.order
    x, codes = keyed.column(queries.history, rows.x[order]), rows.codes[order]
    made = []
    for window in (queries, keyed.last_rows(queries, 2), keyed.last_span(queries, 9)):
        functions: tuple[Function, ...] = ("count", "sum", "mean", "std", "min", "max", "first", "last")
        made += [keyed.aggregate(x, window, function) for function in functions]
        made += [keyed.lag(x, window, 1), keyed.lag(x, window, 3), *keyed.sessions(window, 3)]
        made += [keyed.time_since(window, which, where=rows.x[order] > 0) for which in ("first", "last")]
        made += [keyed.pick(codes, window, "first"), keyed.pick(codes, window, "last")]
    made += [keyed.decayed_sum(x, queries, 5.0), keyed.decayed_sum(None, queries, 0.3)]
    return [*made, keyed.aggregate(x, queries, "nunique"), keyed.aggregate_codes(codes, queries, "nunique")]


def before_cut_off(rows: Rows, engine: HostEngine, cutoff: int) -> list[Any]:
    history = keyed.order_events(rows.key, rows.time, 3, engine=engine, n_threads=THREADS)
    return results(rows, keyed.queries_before(history, np.arange(3, dtype=np.int32), np.array(cutoff)))


@ENGINES
@examples(60)
@given(events=EVENTS, later=EVENTS, cutoff=st.integers(0, 30), seed=st.integers(0, 9))
def test_events_from_the_cut_off_on_do_not_matter(
    engine: HostEngine, events: list[Any], later: list[Any], cutoff: int, seed: int
) -> None:
    known = [event for event in events if event[1] < cutoff]
    others = [event for event in later if event[1] == NAT or event[1] >= cutoff]
    mixed = known + others
    # The order of the table is that of equal times: what is known stays in it as it stood.
    places = np.random.default_rng(seed).permutation(len(mixed))
    kept = iter(sorted(places[: len(known)]))
    table: list[Any] = [None] * len(mixed)
    for event in known:
        table[next(kept)] = event
    free = iter(i for i, event in enumerate(table) if event is None)
    for event in others:
        table[next(free)] = event

    alone = before_cut_off(Rows.of(known), engine, cutoff)

    for a, b in zip(alone, before_cut_off(Rows.of(table), engine, cutoff), strict=True):
        np.testing.assert_array_equal(a, b)


@ENGINES
@examples(60)
@given(events=EVENTS, changed=EVENTS, at=st.integers(0, 24), include_current=st.booleans())
def test_an_event_does_not_see_itself_or_later_events(
    engine: HostEngine, events: list[Any], changed: list[Any], at: int, include_current: bool
) -> None:
    """Change or remove all events that event `at` must not see."""
    at %= len(events)
    key, time = events[at][:2]
    event = (key, time, *changed[0][2:]) if not include_current else events[at]
    seen = [e for i, e in enumerate(events) if e[0] == key and (e[1] < time or (e[1] == time and i < at))]
    later = [(e[0], max(e[1], time), *e[2:]) for e in changed]

    def features(rows: list[Any], row: int) -> list[Any]:
        table = Rows.of(rows)
        history = keyed.order_events(table.key, table.time, 3, engine=engine, n_threads=THREADS)
        return [made[row] for made in results(table, keyed.queries_of_events(history, include_current))]

    as_it_was = features(events, at)

    for a, b in zip(as_it_was, features([*seen, event, *later], len(seen)), strict=True):
        np.testing.assert_array_equal(a, b)
