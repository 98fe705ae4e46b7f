"""Keyed engine in NumPy: the readable reference, also used for small inputs. It imports no compiler."""

from __future__ import annotations

import numpy as np

from gpupipe_kernels.keyed.engine import COUNT, MEAN, SUM, History, KeyedCodes, KeyedColumn, KeyedEvents, Queries
from gpupipe_kernels.keyed.numpy.events import (
    LARGEST,
    NO_MOMENTS,
    NOISE,
    climb,
    decayed_sums,
    first_of_keys,
    is_first,
    least_of,
    least_tree,
    moments_of,
    moments_tree,
    number_of_keys,
)
from gpupipe_kernels.program.opcodes import NAT
from gpupipe_kernels.typing import Array


class NumpyEngine:
    """See `gpupipe_kernels.keyed.engine.KeyedEngine`."""

    name = "numpy"

    def given(self, array: Array, dtype: str) -> Array:
        if dtype == "int32" and max(int(array.max(initial=0)), -1 - int(array.min(initial=0))) > np.iinfo(np.int32).max:
            raise ValueError(f"expected codes in the range of int32, got {array.min()} to {array.max()}")
        return np.require(array, dtype, ["C", "A", "W"])  # compiled loops accept only such arrays

    def sort(self, key: Array, time: Array, n_keys: int | None) -> tuple[Array, Array, Array]:
        events = np.flatnonzero((key >= 0) & (time != NAT))
        keys, times = key[events], time[events]
        is_in_time = bool((times[1:] >= times[:-1]).all())
        order = events[np.argsort(keys, kind="stable") if is_in_time else np.lexsort((times, keys))].astype(np.int32)
        return order, *self.place(order, key, time, n_keys)

    def place(self, order: Array, key: Array, time: Array, n_keys: int | None) -> tuple[Array, Array]:
        n_keys = number_of_keys(key, n_keys)
        start = np.searchsorted(key[order], np.arange(n_keys + 1))
        return start.astype(np.int32), time[order]

    def repeated(self, value: int, n: int) -> Array:
        return np.full(n, value, np.int64)

    def flags(self, where: Array) -> Array:
        return where.astype(bool, copy=False)

    def numbers(self, values: Array) -> Array:
        return self.given(values, "float64")

    def known_numbers(self, values: Array) -> Array | None:
        return _unless_all(values == values)

    def known_codes(self, codes: Array, null: int) -> Array | None:
        return _unless_all(codes != null)

    def level_codes(self, values: Array) -> Array:
        return np.unique(values, return_inverse=True)[1].astype(np.int32)

    def rank(self, keep: Array) -> Array:
        before = np.zeros(len(keep) + 1, np.int32)
        np.cumsum(keep, out=before[1:])
        return before

    def compact(self, array: Array, keep: Array, rank: Array) -> Array:
        kept: Array = array[keep]
        return kept

    def take(self, array: Array, index: Array) -> Array:
        taken: Array = array[index]
        return taken

    def of_events(self, history: History, include_current: bool) -> tuple[Array, Array]:
        low = np.repeat(history.start[:-1], np.diff(history.start))
        return low, np.arange(include_current, len(low) + include_current, dtype=np.int32)

    def before(self, history: History, key: Array, time: Array) -> tuple[Array, Array]:
        n_keys = len(history.start) - 1
        sees = (key >= 0) & (key < n_keys) & (time != NAT)
        safe = np.where(sees, key, 0) if n_keys else np.zeros(len(key), np.int32)
        ends = np.append(history.start, history.start[-1])
        low = np.where(sees, history.start[safe], 0)
        high = _first_after(history.time, low, np.where(sees, ends[safe + 1], 0), time - 1)
        return low.astype(np.int32), high

    def last_rows(self, queries: Queries, n: int) -> Array:
        low: Array = np.maximum(queries.low, queries.high - min(n, queries.history.n_events))
        return low.astype(np.int32)

    def last_span(self, queries: Queries, span: int) -> Array:
        open_side = span + int(not queries.includes_current)  # times are integers, so [T - span, is (T - span - 1,
        bound = np.where(queries.time >= NAT + open_side, queries.time - open_side, NAT)
        return _first_after(queries.history.time, queries.low, queries.high, bound)

    def gaps(self, history: History, unit: float) -> Array:
        made: Array = np.diff(history.time.astype(np.float64), prepend=np.nan) / unit
        made[first_of_keys(history.start)] = np.nan
        return made

    def count(self, events: KeyedEvents, queries: Queries) -> Array:
        low, high = _seen(events, queries)
        return _placed(high - low, queries, 0.0)

    def moment(self, column: KeyedColumn, queries: Queries, kind: int) -> Array:
        events = column.known
        if kind == COUNT:
            return self.count(events, queries)
        low, high = _seen(events, queries)
        n = (high - low).astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            tree = events.once("moments", moments_tree)
            _, total, squares = climb(tree, low, high, moments_of, NO_MOMENTS)
            if kind == SUM:
                return _placed(total, queries, 0.0)
            if kind == MEAN:
                return _placed(total / n, queries, np.nan)
            squares = np.where(squares <= NOISE * total * (total / n), 0.0, squares)
            return _placed(np.sqrt(squares / np.where(n > 1, n - 1, np.nan)), queries, np.nan)

    def extreme(self, column: KeyedColumn, queries: Queries, sign: float) -> Array:
        events = column.known
        low, high = _seen(events, queries)
        tree = events.once(("least", sign), lambda e: least_tree(e.values, sign))
        (least,) = climb(tree, low, high, least_of, (np.inf,))
        return _placed(np.where(low < high, sign * least, np.nan), queries, np.nan)

    def pick(self, events: KeyedEvents, queries: Queries, back: int, fill: float) -> Array:
        assert events.values is not None
        low, high = _seen(events, queries)
        return _placed(_picked(events.values, low, high, back, fill), queries, fill)

    def since(self, events: KeyedEvents, queries: Queries, back: int, unit: float) -> Array:
        low, high = _seen(events, queries)
        then = _picked(events.time.astype(np.float64), low, high, back, np.nan)
        return _placed((queries.time.astype(np.float64) - then) / unit, queries, np.nan)

    def nunique(self, codes: KeyedCodes, queries: Queries) -> Array:
        events = codes.known
        low, high = _seen(events, queries)
        before = events.once("firsts", lambda e: self.rank(is_first(e)))
        return _placed(before[high] - before[low], queries, 0.0)

    def decayed(self, column: KeyedColumn | None, queries: Queries, rate: float) -> Array:
        events = queries.history.events if column is None else column.known
        low, high = _seen(events, queries)
        x = np.ones(len(events.time)) if events.values is None else events.values
        with np.errstate(invalid="ignore", over="ignore"):
            sums = events.once(("decayed", rate), lambda e: decayed_sums(np.where(abs(x) <= LARGEST, x, 0.0), e, rate))
            age = queries.time.astype(np.float64) - _picked(events.time.astype(np.float64), low, high, 1, np.nan)
            made = np.where(low < high, _picked(sums, low, high, 1, 0.0) * 2.0 ** (-age * rate), 0.0)
            made = made + _infinities(x, low, high)
        return _placed(made, queries, 0.0)

    def sessions(self, events: KeyedEvents, queries: Queries, gap: int, unit: float) -> tuple[Array, Array, Array]:
        low, high = _seen(events, queries)
        before, first = events.once(("sessions", gap), lambda e: self._session_begins(e, gap))
        sees = low < high
        count = np.where(sees, 1 + before[high] - before[np.minimum(low + 1, high)], 0)
        begin = high.copy()
        begin[sees] = np.maximum(first[before[high[sees]] - 1], low[sees])
        age = queries.time.astype(np.float64) - _picked(events.time.astype(np.float64), begin, high, 0, np.nan)
        return _placed(count, queries, 0.0), _placed(high - begin, queries, 0.0), _placed(age / unit, queries, np.nan)

    def _session_begins(self, events: KeyedEvents, gap: int) -> tuple[Array, Array]:
        """Return the number of sessions that begin before each position, and the start of each session."""
        begins = first_of_keys(events.start)
        begins[1:] |= np.diff(events.time.astype(np.float64)) > gap
        return self.rank(begins), np.flatnonzero(begins).astype(np.int32)


def _unless_all(keep: Array) -> Array | None:
    return None if keep.all() else keep


def _seen(events: KeyedEvents, queries: Queries) -> tuple[Array, Array]:
    """Return the ranges of the events that each query sees."""
    if events.rank is None:
        return queries.low, queries.high
    return events.rank[queries.low], events.rank[queries.high]


def _placed(made: Array, queries: Queries, nothing: float) -> Array:
    """Return results in the order of the queries: codes as int32, others as float32."""
    dtype = np.int32 if made.dtype == np.int32 and isinstance(nothing, int) else np.float32
    with np.errstate(over="ignore"):  # values too large for float32 become infinite
        if queries.row is None:
            return made.astype(dtype)
        out = np.full(queries.n_rows, nothing, dtype)
        out[queries.row] = made
        return out


def _picked(values: Array, low: Array, high: Array, back: int, fill: float) -> Array:
    at = high - back if back else low
    found = (low <= at) & (at < high)
    made = np.full(len(low), fill, values.dtype)
    made[found] = values[at[found]]
    return made


def _first_after(time: Array, low: Array, high: Array, bound: Array) -> Array:
    """Return the first position of each ``low:high`` with a time after `bound`, by bisection of all queries at once."""
    low, high = low.astype(np.int32), high.astype(np.int32)
    while (low < high).any():
        middle = (low + high) // 2
        is_after = time[np.minimum(middle, len(time) - 1)] > bound
        low, high = np.where((low < high) & ~is_after, middle + 1, low), np.where(is_after & (low < high), middle, high)
    return low


def _infinities(values: Array, low: Array, high: Array) -> Array:
    """Return the sum of the infinite values of ``low:high``, 0 if there are none."""
    up, down = (np.concatenate([[0], np.cumsum(flags)]) for flags in (values > LARGEST, values < -LARGEST))
    has_up, has_down = up[high] > up[low], down[high] > down[low]
    return np.where(has_up, np.inf, 0.0) + np.where(has_down, -np.inf, 0.0)
