"""Features of the events that queries see: one float32 per query, in the order of the queries. Nulls are skipped."""

from __future__ import annotations

import math
from typing import Literal

from gpupipe_kernels.keyed.engine import MOMENTS, KeyedCodes, KeyedColumn, Queries
from gpupipe_kernels.keyed.history import checked, column
from gpupipe_kernels.typing import Array

Function = Literal["count", "sum", "mean", "std", "min", "max", "first", "last", "nunique"]


def count(queries: Queries) -> Array:
    """Return the number of events that each query sees."""
    return queries.history.engine.count(queries.history.events, queries)


def aggregate(values: Array | KeyedColumn, queries: Queries, function: Function) -> Array:
    """Return an aggregate of the values that each query sees.

    Raise ValueError if the function is not one of these, or is nunique on a window.

    Parameters
    ----------
    values : array of numbers, shape (history.n_events,), or KeyedColumn
        In the order of the history; NaN is null. Absolute values over 1e100 count as infinite in sums, means and
        standard deviations.
    function : {"count", "sum", "mean", "std", "min", "max", "first", "last", "nunique"}
        ``std`` is the sample standard deviation, NaN for one value. Without values, count, nunique and sum are 0 and
        the others NaN.
    """
    engine, wanted = queries.history.engine, _column(values, queries)
    if function in MOMENTS:
        return engine.moment(wanted, queries, MOMENTS.index(function))
    if function in ("min", "max"):
        return engine.extreme(wanted, queries, 1.0 if function == "min" else -1.0)
    if function in ("first", "last"):
        return engine.pick(wanted.known, queries, int(function == "last"), math.nan)
    if function == "nunique":
        return _nunique(wanted.levels, queries)
    raise ValueError(f"unknown aggregate {function!r}")


def aggregate_codes(codes: Array, queries: Queries, function: Literal["count", "nunique"], null: int = 0) -> Array:
    """Return the number of codes, or of distinct codes, that each query sees.

    Raise ValueError if the function is not one of these, or is nunique on a window.

    Parameters
    ----------
    codes : array of int, shape (history.n_events,)
        In the order of the history, from 0.
    function : {"count", "nunique"}
    null : int
        The code of null.
    """
    wanted = _codes(codes, queries, null)
    if function == "count":
        return queries.history.engine.count(wanted.known, queries)
    if function == "nunique":
        return _nunique(wanted, queries)
    raise ValueError(f"unknown aggregate of codes {function!r}: expected count or nunique")


def pick(codes: Array, queries: Queries, which: Literal["first", "last"], null: int = 0) -> Array:
    """Return the first or last code that each query sees, int32; `null` if there is none.

    Parameters
    ----------
    codes : array of int, shape (history.n_events,)
        In the order of the history.
    which : {"first", "last"}
    null : int
        The code of null, which is skipped.
    """
    return queries.history.engine.pick(_codes(codes, queries, null).known, queries, _back(which), null)


def lag(values: Array | KeyedColumn, queries: Queries, k: int) -> Array:
    """Return the value of the `k`-th last event that each query sees, null or not, like pandas' ``shift``.

    NaN if there is none. If a query includes its own event, lag 1 is that event's value, and lag 2 the previous one.
    Raise ValueError if `k` is less than 1.
    """
    if k < 1:
        raise ValueError(f"expected a lag of at least 1, got {k}")
    return queries.history.engine.pick(_column(values, queries).events, queries, k, math.nan)


def row(queries: Queries, k: int) -> Array:
    """Return the row of the table that is the `k`-th last event that each query sees, int32; -1 if there is none.

    For values that float32 does not hold. Raise ValueError if `k` is less than 1.
    """
    if k < 1:
        raise ValueError(f"expected an event from 1, the last one, got {k}")
    history = queries.history
    return history.engine.pick(history.where(None, history.order), queries, k, -1)


def decayed_sum(values: Array | KeyedColumn | None, queries: Queries, half_life: float) -> Array:
    """Return the sum of ``x * 2 ** (-age / half_life)`` over the events that each query sees; without values, x is 1.

    Raise ValueError if the half-life is not a positive number, or the queries are windowed.

    Parameters
    ----------
    values : array of numbers, shape (history.n_events,), or KeyedColumn, optional
        As for `aggregate`; an infinite value does not decay.
    queries : Queries
        Not windowed: the half-life takes the role of a window.
    half_life : float
        Microseconds. Ages are measured at the cut-off of the query.
    """
    if not (half_life > 0 and math.isfinite(half_life)):
        raise ValueError(f"expected a half-life of more than 0 microseconds, got {half_life}")
    if queries.windowed:
        raise ValueError("a decayed sum uses all events before the cut-off: it cannot be combined with a window")
    column = None if values is None else _column(values, queries)
    return queries.history.engine.decayed(column, queries, 1.0 / half_life)


def sessions(queries: Queries, gap: int, unit: float = 1.0) -> tuple[Array, Array, Array]:
    """Return the number of sessions that each query sees, and the number of events and age of the last one.

    A session ends if more than `gap` passes until the next event of the same key.

    Parameters
    ----------
    gap : int
        Microseconds.
    unit : float
        Microseconds per unit of the result.

    Returns
    -------
    count, events, age : arrays of float32
        0, 0 and NaN if no event is seen. The part of a session before a window is not seen.
    """
    if gap < 0:
        raise ValueError(f"expected a gap of at least 0 microseconds, got {gap}")
    found: tuple[Array, Array, Array] = queries.history.engine.sessions(queries.history.events, queries, gap, unit)
    return found


def time_since(
    queries: Queries, which: Literal["first", "last"] = "last", unit: float = 1.0, where: Array | None = None
) -> Array:
    """Return the time from the first or last event that each query sees to its cut-off; NaN if there is none.

    Parameters
    ----------
    queries : Queries
        If a query includes its own event, the time since the last event is 0.
    which : {"first", "last"}
    unit : float
        Microseconds per unit of the result.
    where : array of bool, shape (history.n_events,), optional
        Flags of the events to consider, in the order of the history.
    """
    history = queries.history
    events = history.events if where is None else history.where(history.engine.flags(checked(history, where)))
    return history.engine.since(events, queries, _back(which), unit)


def _nunique(codes: KeyedCodes, queries: Queries) -> Array:
    if queries.windowed:
        raise ValueError("nunique uses all events before the cut-off: it cannot be combined with a window")
    return queries.history.engine.nunique(codes, queries)


def _column(values: Array | KeyedColumn, queries: Queries) -> KeyedColumn:
    made = values if isinstance(values, KeyedColumn) else column(queries.history, values)
    if made.history is not queries.history:
        raise ValueError("the column and the queries belong to different histories")
    return made


def _codes(codes: Array, queries: Queries, null: int) -> KeyedCodes:
    engine = queries.history.engine
    values = engine.given(checked(queries.history, codes), "int32")
    return KeyedCodes(queries.history, values, engine.known_codes(values, null))


def _back(which: str) -> int:
    """Return the number of events from `which` to the cut-off; 0 stands for the first event."""
    if which not in ("first", "last"):
        raise ValueError(f"expected first or last, got {which!r}")
    return int(which == "last")
