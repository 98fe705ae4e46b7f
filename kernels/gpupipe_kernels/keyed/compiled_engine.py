"""Base class of the two compiled engines: the arguments of each loop. Subclasses allocate arrays and run loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from gpupipe_kernels.keyed.engine import COUNT, STD, SUM, History, KeyedCodes, KeyedColumn, KeyedEvents, Queries
from gpupipe_kernels.typing import Array

Pair = tuple[Array, Array]


class CompiledEngine(ABC):
    """Query operations of `gpupipe_kernels.keyed.engine.KeyedEngine` in compiled loops, on host or device."""

    @abstractmethod
    def _run(self, loop: str, n: int, *arguments: Any) -> None:
        """Run a loop over `n` queries."""

    @abstractmethod
    def _new(self, n: int, dtype: str, value: float | None = None) -> Array:
        """Return a new array, filled with a value or uninitialised."""

    @abstractmethod
    def _head(self, events: KeyedEvents) -> Array:
        """Return uint8 flags that mark the first event of each key."""

    @abstractmethod
    def _running_sums(self, events: KeyedEvents, rate: float, squared: bool) -> Pair:
        """Return the running sum per key up to each event, as pairs."""

    @abstractmethod
    def _infinities(self, events: KeyedEvents) -> Pair:
        """Return the number of +inf and of -inf values before each position; two empty arrays if there are none."""

    @abstractmethod
    def _tree(self, events: KeyedEvents, sign: float) -> Array:
        """Return the minimum tree of `sign` times the values."""

    @abstractmethod
    def _firsts(self, events: KeyedEvents) -> Array:
        """Return the number of first occurrences of a code within its key before each position."""

    @abstractmethod
    def _session_begins(self, events: KeyedEvents, gap: int) -> Pair:
        """Return the number of sessions that begin before each position, and the start of each session."""

    def before(self, history: History, key: Array, time: Array) -> Pair:
        low, high = self._new(len(key), "int32"), self._new(len(key), "int32")
        self._run("before", len(key), history.start, history.time, key, time, low, high)
        return low, high

    def last_span(self, queries: Queries, span: int) -> Array:
        low = self._new(len(queries.low), "int32")
        open_side = span + int(not queries.includes_current)  # times are integers, so [T - span, is (T - span - 1,
        times = queries.time, queries.history.time
        self._run("span", len(low), queries.low, queries.high, *times, open_side, low)
        return low

    def count(self, events: KeyedEvents, queries: Queries) -> Array:
        out = self._results(queries, "float32", 0.0)
        self._query("count", events, queries, out)
        return out

    def moment(self, column: KeyedColumn, queries: Queries, kind: int) -> Array:
        events = column.known
        if kind == COUNT:
            return self.count(events, queries)
        out = self._results(queries, "float32", 0.0 if kind == SUM else np.nan)
        sums = events.once("sums", lambda e: self._running_sums(e, 0.0, False))
        nothing = self._new(0, "float64")
        squares = (nothing, nothing)
        if kind == STD:
            squares = events.once("squares", lambda e: self._running_sums(e, 0.0, True))
        wild = events.once("infinities", self._infinities)
        self._query("moment", events, queries, events.once("head", self._head), *sums, *squares, *wild, kind, out)
        return out

    def extreme(self, column: KeyedColumn, queries: Queries, sign: float) -> Array:
        events = column.known
        out = self._results(queries, "float32", np.nan)
        tree = events.once(("tree", sign), lambda e: self._tree(e, sign))
        self._query("extreme", events, queries, tree, sign, out)
        return out

    def pick(self, events: KeyedEvents, queries: Queries, back: int, fill: float) -> Array:
        is_code = isinstance(fill, int)
        out = self._results(queries, "int32" if is_code else "float32", fill)
        self._query("pick_codes" if is_code else "pick", events, queries, events.values, back, fill, out)
        return out

    def since(self, events: KeyedEvents, queries: Queries, back: int, unit: float) -> Array:
        out = self._results(queries, "float32", np.nan)
        self._query("since", events, queries, queries.time, events.time, back, float(unit), out)
        return out

    def nunique(self, codes: KeyedCodes, queries: Queries) -> Array:
        events = codes.known
        out = self._results(queries, "float32", 0.0)
        self._query("nunique", events, queries, events.once("firsts", self._firsts), out)
        return out

    def decayed(self, column: KeyedColumn | None, queries: Queries, rate: float) -> Array:
        events = queries.history.events if column is None else column.known
        out = self._results(queries, "float32", 0.0)
        sums, _ = events.once(("decayed", rate), lambda e: self._running_sums(e, rate, False))
        wild = events.once("infinities", self._infinities)
        self._query("decayed", events, queries, queries.time, events.time, sums, rate, *wild, out)
        return out

    def sessions(self, events: KeyedEvents, queries: Queries, gap: int, unit: float) -> tuple[Array, Array, Array]:
        count, last, age = (self._results(queries, "float32", nothing) for nothing in (0.0, 0.0, np.nan))
        begins = events.once(("sessions", gap), lambda e: self._session_begins(e, gap))
        self._query("session", events, queries, queries.time, events.time, *begins, float(unit), count, last, age)
        return count, last, age

    def _query(self, loop: str, events: KeyedEvents, queries: Queries, *arguments: Any) -> None:
        row, rank = (self._new(0, "int32") if a is None else a for a in (queries.row, events.rank))
        self._run(loop, len(queries.low), queries.low, queries.high, row, rank, *arguments)

    def _results(self, queries: Queries, dtype: str, nothing: float) -> Array:
        all_are_written = len(queries.low) == queries.n_rows
        return self._new(queries.n_rows, dtype, None if all_are_written else nothing)
