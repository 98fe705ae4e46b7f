"""Comparison of every keyed feature with plain Python loops, for host and device arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpupipe_kernels import keyed
from gpupipe_kernels.keyed import naive
from gpupipe_kernels.keyed.engine import History
from gpupipe_kernels.keyed.features import Function
from tests.kernels.keyed.tables import Table

Array = Any
Put = Callable[[np.ndarray], Array]
Make = Callable[[], keyed.Queries]

FUNCTIONS: tuple[Function, ...] = ("count", "sum", "mean", "std", "min", "max", "first", "last")
SPAN, GAP, HALF_LIFE, N_ROWS = 70, 20, 50.0, 3  # times are multiples of 10: some are as far apart as that


def compare(table: Table, history: History, put: Put, order: Array, some: slice = slice(None)) -> None:
    """Compare all features, with and without windows.

    Parameters
    ----------
    table : Table
    history : History
        Of the table.
    put : callable
        Copies an array to the memory of the history.
    order : ndarray
        The order of the history, on the host.
    some : slice
        Which of `all_queries`.
    """
    x, codes, where = put(table.x[order]), put(table.codes[order]), put(table.x[order] > 0)
    column = keyed.column(history, x)
    for make, seen, cutoff in all_queries(table, history, put)[some]:
        queries = make()
        compare_numbers(table, queries, seen, column)
        compare_times(table, queries, seen, cutoff, where)
        compare_codes(table, queries, seen, codes)
        if not queries.windowed:
            compare_whole_histories(table, queries, seen, cutoff, column, codes)


def all_queries(table: Table, history: History, put: Put) -> list[tuple[Make, list[list[int]], Array]]:
    """Return the queries, the rows that each one sees, and their cut-offs."""
    key, time, cutoff = table.key, table.time, table.cutoff
    queries: list[tuple[Make, list[list[int]], Array]] = []
    for make, seen, at in (
        (lambda: keyed.queries_of_events(history), naive.seen_by_events(key, time, False), time),
        (
            lambda: keyed.queries_before(history, put(table.query_key), put(cutoff)),
            naive.seen_before(key, time, table.query_key, cutoff),
            cutoff,
        ),
        (lambda: keyed.queries_of_events(history, True), naive.seen_by_events(key, time, True), time),
    ):
        within = naive.within_span(seen, time, at, SPAN, at is time and make().includes_current)
        queries += [
            (make, seen, at),
            (partial(in_span, make), within, at),
            (partial(in_rows, make), [rows[-N_ROWS:] for rows in seen], at),
        ]
    return queries


def in_span(make: Make) -> keyed.Queries:
    return keyed.last_span(make(), SPAN)


def in_rows(make: Make) -> keyed.Queries:
    return keyed.last_rows(make(), N_ROWS)


def compare_numbers(table: Table, queries: keyed.Queries, seen: list[list[int]], column: keyed.KeyedColumn) -> None:
    assert_same(keyed.count(queries), [len(rows) for rows in seen])
    for function in FUNCTIONS:
        assert_same(keyed.aggregate(column, queries, function), naive.aggregate(table.x, seen, function))
    for k in (1, 2):
        assert_same(keyed.lag(column, queries, k), naive.lag(table.x, seen, k))


def compare_times(table: Table, queries: keyed.Queries, seen: list[list[int]], cutoff: Array, where: Array) -> None:
    for which in ("first", "last"):
        assert_same(keyed.time_since(queries, which), naive.time_since(table.time, seen, cutoff, which))
        some = naive.time_since(table.time, seen, cutoff, which, table.x > 0)
        assert_same(keyed.time_since(queries, which, where=where), some)
    for made, expected in zip(keyed.sessions(queries, GAP), naive.sessions(table.time, seen, cutoff, GAP), strict=True):
        assert_same(made, expected)


def compare_codes(table: Table, queries: keyed.Queries, seen: list[list[int]], codes: Array) -> None:
    known = np.where(table.codes == 0, np.nan, table.codes)
    assert_same(keyed.aggregate_codes(codes, queries, "count"), naive.aggregate(known, seen, "count"))
    for which in ("first", "last"):
        picked = host(keyed.pick(codes, queries, which))
        assert picked.dtype == np.int32
        np.testing.assert_array_equal(picked, np.nan_to_num(naive.aggregate(known, seen, which)))


def compare_whole_histories(
    table: Table, queries: keyed.Queries, seen: list[list[int]], cutoff: Array, column: keyed.KeyedColumn, codes: Array
) -> None:
    known = np.where(table.codes == 0, np.nan, table.codes)
    assert_same(keyed.aggregate(column, queries, "nunique"), naive.aggregate(table.x, seen, "nunique"))
    assert_same(keyed.aggregate_codes(codes, queries, "nunique"), naive.aggregate(known, seen, "nunique"))
    for values, given in ((table.x, column), (np.ones(len(table.x)), None)):
        expected = naive.decayed_sum(values, table.time, seen, cutoff, HALF_LIFE)
        assert_same(keyed.decayed_sum(given, queries, HALF_LIFE), expected)


def host(array: Array) -> np.ndarray:
    return np.asarray(array.copy_to_host() if hasattr(array, "copy_to_host") else array)


def assert_same(made: Array, expected: Any) -> None:
    made = host(made)
    assert made.dtype == np.float32
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(made, np.asarray(expected).astype(np.float32), rtol=2e-6, atol=1e-5)
