"""Events sorted by key and time, columns in that order, and queries: the events that each row sees."""

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
    """Sort events by key, then time, then their place in the table.

    Parameters
    ----------
    key : array of int, shape (rows,)
        Codes from 0; below 0 is null.
    time : array of int64, shape (rows,)
        Microseconds; NAT (the least int64) is missing.
    n_keys : int, optional
        More than the largest code. On the device it must be given.
    order : array of int32, shape (events,), optional
        The rows that have a key and a time, already sorted. On the device it must be given: sorting is CuPy's.
    engine : {"numpy", "numba"}, optional
        What computes on the host, here and with everything that is made of this history; None: see
        `gpupipe_kernels.engines`.
    n_threads : int
        Of the host, for the compiled loops.
    allocate : callable, optional
        (length, dtype) to an uninitialised array of the device: what makes all arrays of this history there, as
        ``cupy.empty``. Without, Numba allocates by itself, beside the allocator that other libraries share.

    Returns
    -------
    History

    Raises
    ------
    ValueError
        If lengths differ, `key` is not of integers, `time` is not int64, or something that the device needs is missing.
    """
    if key.shape != time.shape or key.ndim != 1:
        raise ValueError(f"key and time are of one length, got shapes {key.shape} and {time.shape}")
    if key.dtype.kind not in "iu" or time.dtype != np.int64:
        raise ValueError(f"key must be of integers and time of int64, got {key.dtype} and {time.dtype}")
    if len(key) > MOST_EVENTS:
        raise ValueError(f"{len(key)} rows: more than {MOST_EVENTS} events cannot be ordered at once")
    chosen = _engine(key, engine, n_threads, allocate)
    key, time = chosen.given(key, "int32"), chosen.given(time, "int64")
    if order is None:
        order, start, sorted_time = chosen.sort(key, time, n_keys)
    else:
        order = chosen.given(order, "int32")
        start, sorted_time = chosen.place(order, key, time, n_keys)
    return History(order, start, sorted_time, len(key), chosen)


def _engine(key: Array, name: HostEngine | None, n_threads: int, allocate: Allocate | None) -> KeyedEngine:
    """Return the engine for an array: by where it is, by `name` if that is given, or else by its length."""
    if type(key).__module__.partition(".")[0] != "numpy":
        if name is not None:
            raise ValueError(f"engine {name!r} is for arrays on the host")
        from gpupipe_kernels.keyed.cuda.engine import CudaEngine

        return CudaEngine(allocate)
    name = name or choose_engine("keyed", len(key), n_threads)
    if name == "numpy":
        from gpupipe_kernels.keyed.numpy.engine import NumpyEngine

        return NumpyEngine()
    if name == "numba":
        from gpupipe_kernels.keyed.numba.engine import NumbaEngine

        return NumbaEngine(n_threads)
    raise ValueError(f"no engine {name!r} for arrays on the host: numpy or numba")


def column(history: History, values: Array) -> KeyedColumn:
    """Return a column that several features are made of, so that each finds what another has already worked out.

    Parameters
    ----------
    history : History
    values : array of numbers, shape (history.n_events,)
        In the order of the history, see `in_order`. NaN is null.

    Raises
    ------
    ValueError
        If it is of another length.
    """
    return KeyedColumn(history, history.engine.numbers(checked(history, values)))


def in_order(history: History, values: Array) -> Array:
    """Return a column of the table in the order of the history: ``values[history.order]``, on all threads.

    Parameters
    ----------
    history : History
    values : array of numbers, shape (history.n_rows,)

    Raises
    ------
    ValueError
        If it is of another length.
    """
    if values.shape != (history.n_rows,):
        raise ValueError(f"the table of this history has {history.n_rows} rows, got shape {values.shape}")
    return history.engine.take(values, history.order)


def checked(history: History, values: Array) -> Array:
    """Return values, which must be as many as the history has events.

    Raises
    ------
    ValueError
        If there are more or less.
    """
    if values.shape != (history.n_events,):
        raise ValueError(f"a column of this history has {history.n_events} values, got shape {values.shape}")
    return values


def gaps(history: History, unit: float = 1.0) -> Array:
    """Return the time from the event before, in the order of the history, float64; NaN for the first of a key.

    Parameters
    ----------
    history : History
    unit : float
        Microseconds that are one in the result.
    """
    return history.engine.gaps(history, unit)


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
