"""Queries: which events of its key each row sees, and at which time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpupipe_kernels.keyed.engine import History, Queries
from gpupipe_kernels.typing import Array

LONGEST_SPAN = 2**62


def queries_of_events(history: History, include_current: bool = False) -> Queries:
    """Let each event see the events of its key that stand before it: earlier ones, and at the same time those above it.

    Parameters
    ----------
    history : History
    include_current : bool
        Whether an event sees itself too, as its last one.

    Returns
    -------
    Queries
        Results have a value for each row of the table; rows that are no events see nothing.
    """
    low, high = history.engine.of_events(history, include_current)
    return Queries(history, low, high, history.time, history.order, history.n_rows, include_current)


def queries_before(history: History, key: Array, time: Array) -> Queries:
    """Let each row see the events of a key that are earlier than a cut-off.

    Parameters
    ----------
    history : History
    key : array of int, shape (rows,)
        Codes as in `order_events`; a null and a key without events see nothing.
    time : array of int64, shape (rows,) or ()
        The cut-off in microseconds, of each row or of all. Events at that very time are not seen; NAT sees nothing.

    Raises
    ------
    ValueError
        If lengths or dtypes do not fit.
    """
    if key.dtype.kind not in "iu" or time.dtype != np.int64:
        raise ValueError(f"key must be of integers and time of int64, got {key.dtype} and {time.dtype}")
    if time.ndim == 0:
        time = history.engine.repeated(int(time), len(key))
    if key.shape != time.shape:
        raise ValueError(f"key and time are of one length, got shapes {key.shape} and {time.shape}")
    key, time = history.engine.given(key, "int32"), history.engine.given(time, "int64")
    low, high = history.engine.before(history, key, time)
    return Queries(history, low, high, time, None, len(key))


def last_rows(queries: Queries, n: int) -> Queries:
    """Let each query see the last `n` of its events only; nulls count as events.

    Raises
    ------
    ValueError
        If `n` is less than 1.
    """
    if n < 1:
        raise ValueError(f"a window has at least 1 row, got {n}")
    return replace(queries, low=queries.history.engine.last_rows(queries, n), windowed=True)


def last_span(queries: Queries, span: int) -> Queries:
    """Let each query see only events that are no older than `span`.

    A query that includes its own event at T sees the times (T - span, T], as pandas' ``rolling("7D")``. Any other one
    sees [T - span, T), as with ``closed="left"``; only that an event also sees those of its own time above it.

    Parameters
    ----------
    queries : Queries
    span : int
        Microseconds.

    Raises
    ------
    ValueError
        If `span` is less than 1, or more than 146 000 years.
    """
    if not 1 <= span <= LONGEST_SPAN:
        raise ValueError(f"a window spans 1 to {LONGEST_SPAN} microseconds, got {span}")
    return replace(queries, low=queries.history.engine.last_span(queries, span), windowed=True)
