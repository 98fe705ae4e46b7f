"""Event histories sorted by key and time, columns in that order, and queries on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpupipe_kernels.engines import HostEngine, choose_engine
from gpupipe_kernels.keyed.engine import History, KeyedColumn, KeyedEngine, Queries
from gpupipe_kernels.typing import Allocate, Array

MOST_EVENTS = 2**31 - 1  # positions are int32
LONGEST_SPAN = 2**62


def order_events(
    key: Array,
    time: Array,
    n_keys: int | None = None,
    *,
    order: Array | None = None,
    engine: HostEngine | None = None,
    n_threads: int = 1,
    allocate: Allocate | None = None,
) -> History:
    """Sort events by key, time and position in the table.

    Raise ValueError if lengths differ, `key` is not integer, `time` is not int64, or an argument required on the device
    is missing.

    Parameters
    ----------
    key : array of int, shape (rows,)
        Codes from 0; below 0 is null.
    time : array of int64, shape (rows,)
        Microseconds; NAT (the least int64) is missing.
    n_keys : int, optional
        Greater than the largest code. Required on the device.
    order : array of int32, shape (events,), optional
        The sorted rows that have a key and a time. Required on the device, where CuPy sorts.
    engine : {"numpy", "numba"}, optional
        The host engine of this history and of everything derived from it; None: see `gpupipe_kernels.engines`.
    n_threads : int
        Threads of the compiled loops on the host.
    allocate : callable, optional
        A function of (length, dtype) that returns an uninitialised device array, like ``cupy.empty``, for all arrays of
        this history. By default, Numba allocates, bypassing the memory pool that other libraries share.

    Returns
    -------
    History
    """
    if key.shape != time.shape or key.ndim != 1:
        raise ValueError(f"key and time must have the same length, got shapes {key.shape} and {time.shape}")
    if key.dtype.kind not in "iu" or time.dtype != np.int64:
        raise ValueError(f"expected an integer key and an int64 time, got {key.dtype} and {time.dtype}")
    if len(key) > MOST_EVENTS:
        raise ValueError(f"expected at most {MOST_EVENTS:,} rows, got {len(key):,}")
    chosen = _engine(key, engine, n_threads, allocate)
    key, time = chosen.given(key, "int32"), chosen.given(time, "int64")
    if order is None:
        order, start, sorted_time = chosen.sort(key, time, n_keys)
    else:
        order = chosen.given(order, "int32")
        start, sorted_time = chosen.place(order, key, time, n_keys)
    return History(order, start, sorted_time, len(key), chosen)


def _engine(key: Array, name: HostEngine | None, n_threads: int, allocate: Allocate | None) -> KeyedEngine:
    """Return the engine for an array: by its location, then by `name` if given, else by its length."""
    if type(key).__module__.partition(".")[0] != "numpy":
        if name is not None:
            raise ValueError(f"engine {name!r} cannot compute on device arrays")
        from gpupipe_kernels.keyed.cuda.engine import CudaEngine

        return CudaEngine(allocate)
    name = name or choose_engine("keyed", len(key), n_threads)
    if name == "numpy":
        from gpupipe_kernels.keyed.numpy.engine import NumpyEngine

        return NumpyEngine()
    if name == "numba":
        from gpupipe_kernels.keyed.numba.engine import NumbaEngine

        return NumbaEngine(n_threads)
    raise ValueError(f"unknown host engine {name!r}: expected numpy or numba")


def column(history: History, values: Array) -> KeyedColumn:
    """Return a column for several features, which share cached intermediate results.

    Raise ValueError if the length does not match.

    Parameters
    ----------
    values : array of numbers, shape (history.n_events,)
        In the order of the history, see `in_order`. NaN is null.
    """
    return KeyedColumn(history, history.engine.numbers(checked(history, values)))


def in_order(history: History, values: Array) -> Array:
    """Return a column of the table in the order of the history: ``values[history.order]``, multithreaded.

    Raise ValueError if the length does not match.

    Parameters
    ----------
    values : array of numbers, shape (history.n_rows,)
    """
    if values.shape != (history.n_rows,):
        raise ValueError(f"expected {history.n_rows} values, one per row of the table; got shape {values.shape}")
    return history.engine.take(values, history.order)


def checked(history: History, values: Array) -> Array:
    """Return `values` if there is one per event of the history.

    Raise ValueError if the number of values differs.
    """
    if values.shape != (history.n_events,):
        raise ValueError(f"expected {history.n_events} values, one per event; got shape {values.shape}")
    return values


def gaps(history: History, unit: float = 1.0) -> Array:
    """Return the time since the previous event, in the order of the history: float64, NaN for the first of a key.

    Parameters
    ----------
    unit : float
        Microseconds per unit of the result.
    """
    return history.engine.gaps(history, unit)


def queries_of_events(history: History, include_current: bool = False) -> Queries:
    """Return queries where each event sees the earlier events of its key; ties in time are in table order.

    Parameters
    ----------
    include_current : bool
        Whether an event also sees itself, as its last event.

    Returns
    -------
    Queries
        Results have one value per row of the table; rows that are not events see no event.
    """
    low, high = history.engine.of_events(history, include_current)
    return Queries(history, low, high, history.time, history.order, history.n_rows, include_current)


def queries_before(history: History, key: Array, time: Array) -> Queries:
    """Return queries where each row sees the events of its key before a cut-off.

    Raise ValueError if lengths or dtypes do not match.

    Parameters
    ----------
    key : array of int, shape (rows,)
        Codes as in `order_events`; rows with a null key or a key without events see no event.
    time : array of int64, shape (rows,) or ()
        The cut-off in microseconds, per row or for all rows. Events exactly at the cut-off are not seen; a row with NAT
        sees no event.
    """
    if key.dtype.kind not in "iu" or time.dtype != np.int64:
        raise ValueError(f"expected an integer key and an int64 time, got {key.dtype} and {time.dtype}")
    if time.ndim == 0:
        time = history.engine.repeated(int(time), len(key))
    if key.shape != time.shape:
        raise ValueError(f"key and time must have the same length, got shapes {key.shape} and {time.shape}")
    key, time = history.engine.given(key, "int32"), history.engine.given(time, "int64")
    low, high = history.engine.before(history, key, time)
    return Queries(history, low, high, time, None, len(key))


def last_rows(queries: Queries, n: int) -> Queries:
    """Return the queries limited to the last `n` events; nulls count as events.

    Raise ValueError if `n` is less than 1.
    """
    if n < 1:
        raise ValueError(f"expected a window of at least 1 row, got {n}")
    return replace(queries, low=queries.history.engine.last_rows(queries, n), windowed=True)


def last_span(queries: Queries, span: int) -> Queries:
    """Return the queries limited to events at most `span` old.

    A query that includes its own event at T sees the times (T - span, T], like pandas' ``rolling("7D")``. Other queries
    see [T - span, T), as with ``closed="left"``, except that an event also sees events at the same time above it. Raise
    ValueError if `span` is less than 1, or more than 146 000 years.

    Parameters
    ----------
    span : int
        Microseconds.
    """
    if not 1 <= span <= LONGEST_SPAN:
        raise ValueError(f"expected a window of 1 to {LONGEST_SPAN} microseconds, got {span}")
    return replace(queries, low=queries.history.engine.last_span(queries, span), windowed=True)
