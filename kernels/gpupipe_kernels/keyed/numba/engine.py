"""Keyed engine in compiled, multithreaded loops on the host; operations that NumPy does as fast use NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpupipe_kernels.keyed.compiled_engine import CompiledEngine
from gpupipe_kernels.keyed.engine import COUNT, SUM, KeyedCodes, KeyedColumn, KeyedEvents, Queries
from gpupipe_kernels.keyed.numba import aggregates, loops
from gpupipe_kernels.keyed.numba.codes import count_codes, first_of_codes
from gpupipe_kernels.keyed.numba.slices import SLICE_EVENTS, running_sums, slices_of
from gpupipe_kernels.keyed.numba.sort import by_code, by_time
from gpupipe_kernels.keyed.numpy.engine import NumpyEngine
from gpupipe_kernels.keyed.numpy.events import LARGEST, first_of_keys, least_tree, number_of_keys
from gpupipe_kernels.program.opcodes import NAT
from gpupipe_kernels.threads import run_blocks
from gpupipe_kernels.typing import Array

Pair = tuple[Array, Array]

BLOCK_QUERIES = 65_536
LONGEST_WALKED = SLICE_EVENTS  # events; each slice starts with a separate window


class NumbaEngine(CompiledEngine, NumpyEngine):
    """See `gpupipe_kernels.keyed.engine.KeyedEngine`."""

    name = "numba"

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads

    _session_begins = NumpyEngine._session_begins

    def sort(self, key: Array, time: Array, n_keys: int | None) -> tuple[Array, Array, Array]:
        n_keys, is_missing = number_of_keys(key, n_keys), time == NAT
        code = np.where(is_missing, np.int32(-1), key) if is_missing.any() else key
        order, start = by_code(code, n_keys, self.n_threads)
        sorted_time = self.take(time, order)
        late = sorted_time[1:] < sorted_time[:-1]
        if (late & ~first_of_keys(start)[1:]).any():  # an event log is mostly sorted by time
            order = by_time(time, np.flatnonzero(code >= 0).astype(np.int32), self.n_threads)
            order, _ = by_code(code[order], n_keys, self.n_threads, order)
            sorted_time = self.take(time, order)
        return order, start, sorted_time

    def take(self, array: Array, index: Array) -> Array:
        out = np.empty(len(index), array.dtype)
        self._run("take", len(index), np.require(array, None, ["C", "A", "W"]), index, out)
        return out

    def moment(self, column: KeyedColumn, queries: Queries, kind: int) -> Array:
        nothing = 0.0 if kind in (COUNT, SUM) else np.nan
        if queries.follow_events:
            return self._along(aggregates.running_moment_block, nothing, column, queries, kind)
        if self._are_ranges(queries):
            return self._along_ranges(aggregates.range_moment_block, queries, column.values, kind)
        if queries.row is None or _longest(queries) > LONGEST_WALKED:
            return super().moment(column, queries, kind)
        out = self._results(queries, "float32", nothing)
        cuts = queries.history.events.once("slices", lambda e: slices_of(e.start)).cuts
        given = column.values, queries.low, queries.row, queries.includes_current, kind, cuts, out
        run_blocks(partial(aggregates.window_moment_block, *given), len(cuts) - 1, 1, self.n_threads)
        return out

    def extreme(self, column: KeyedColumn, queries: Queries, sign: float) -> Array:
        if self._are_ranges(queries):
            return self._along_ranges(aggregates.range_extreme_block, queries, column.values, sign)
        if not queries.follow_events:
            return super().extreme(column, queries, sign)
        return self._along(aggregates.running_extreme_block, np.nan, column, queries, sign)

    def decayed(self, column: KeyedColumn | None, queries: Queries, rate: float) -> Array:
        if not queries.follow_events:
            return super().decayed(column, queries, rate)
        return self._along(aggregates.running_decayed_block, 0.0, column, queries, queries.history.time, rate)

    def nunique(self, codes: KeyedCodes, queries: Queries) -> Array:
        if not queries.follow_events:
            return super().nunique(codes, queries)
        out = self._results(queries, "float32", 0.0)
        keep = np.empty(0, bool) if codes.keep is None else codes.keep
        history, row = queries.history, queries.row
        head = history.events.once("head", self._head)
        count_codes(codes.values, keep, history.start, head, row, queries.includes_current, out, self.n_threads)
        return out

    def _along(
        self, walk: Callable[..., None], nothing: float, column: KeyedColumn | None, queries: Queries, *arguments: Any
    ) -> Array:
        """Return the result of a pass over all events."""
        events, out = queries.history.events, self._results(queries, "float32", nothing)
        slices = events.once("slices", lambda e: slices_of(e.start))
        given = np.empty(0) if column is None else column.values, events.once("head", self._head), queries.row
        left = np.zeros((len(slices.first), 4))
        walk = partial(walk, *given, queries.includes_current, *arguments, slices.cuts, slices.first, left, out)
        slices.run(walk, self.n_threads)
        return out

    def _are_ranges(self, queries: Queries) -> bool:
        return queries.row is None and aggregates.sees_few(queries.low, queries.high, queries.history.n_events)

    def _along_ranges(self, walk: Callable[..., None], queries: Queries, *arguments: Any) -> Array:
        """Return the results of queries that each loop over their own events."""
        out = np.empty(queries.n_rows, np.float32)
        aggregates.along_ranges(walk, queries.low, queries.high, self.n_threads, *arguments, out)
        return out

    def _run(self, loop: str, n: int, *arguments: Any) -> None:
        run = getattr(loops, "pick" if loop == "pick_codes" else loop)
        run_blocks(lambda start, stop: run(*arguments, start, stop), n, BLOCK_QUERIES, self.n_threads)

    def _new(self, n: int, dtype: str, value: float | None = None) -> Array:
        return np.empty(n, dtype) if value is None else np.full(n, value, dtype)

    def _head(self, events: KeyedEvents) -> Array:
        return first_of_keys(events.start).view(np.uint8)

    def _running_sums(self, events: KeyedEvents, rate: float, squared: bool) -> Pair:
        values = np.empty(0) if events.values is None else events.values
        head, slices = events.once("head", self._head), events.once("slices", lambda e: slices_of(e.start))
        return running_sums(values, events.time, head, slices, rate, squared, self.n_threads)

    def _infinities(self, events: KeyedEvents) -> Pair:
        values = events.values
        if values is None or max(values.max(initial=0.0), -values.min(initial=0.0)) <= LARGEST:
            return (np.empty(0, np.int32),) * 2
        return self.rank(values > LARGEST), self.rank(values < -LARGEST)

    def _tree(self, events: KeyedEvents, sign: float) -> Array:
        return least_tree(events.values, sign)[0]

    def _firsts(self, events: KeyedEvents) -> Array:
        head = events.once("head", self._head)
        return self.rank(first_of_codes(events.values, events.start, head, self.n_threads))


def _longest(queries: Queries) -> int:
    """Return the length of the longest key or, if that is too long for a linear scan, of the longest window."""
    longest = int(np.diff(queries.history.start).max(initial=0))
    return longest if longest <= LONGEST_WALKED else int((queries.high - queries.low).max(initial=0))
