"""Interface of the keyed engines and the data they work on: histories, events, columns and queries.

They are in one module because they refer to each other: a history has the engine that computes on its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from gpupipe_kernels.typing import Array

MOMENTS = ("count", "sum", "mean", "std")
"""Aggregates based on sums; engines identify them by their positions here."""

COUNT, SUM, MEAN, STD = range(4)


class KeyedEngine(Protocol):
    """The operations of an engine, on NumPy arrays or device arrays.

    `Queries` and `KeyedEvents` group the input arrays. Results of queries are float32 arrays (int32 for codes) of
    length `Queries.n_rows`.

    Attributes
    ----------
    name : {"numpy", "numba", "cuda"}
    """

    name: str

    def given(self, array: Array, dtype: str) -> Array:
        """Return a caller's array as a contiguous array of a dtype for this engine."""

    def sort(self, key: Array, time: Array, n_keys: int | None) -> tuple[Array, Array, Array]:
        """Return (order, start, sorted time) of `order_events`; raise ValueError on the device."""

    def place(self, order: Array, key: Array, time: Array, n_keys: int | None) -> tuple[Array, Array]:
        """Return (start, sorted time) of rows that are already sorted."""

    def repeated(self, value: int, n: int) -> Array:
        """Return an int64 array of length `n` filled with `value`."""

    def flags(self, where: Array) -> Array:
        """Return a caller's booleans as flags for `rank`."""

    def numbers(self, values: Array) -> Array:
        """Return a caller's numbers as float64."""

    def known_numbers(self, values: Array) -> Array | None:
        """Return flags of the values that are not NaN; None if there is no NaN."""

    def known_codes(self, codes: Array, null: int) -> Array | None:
        """Return flags of the codes that are not `null`; None if there is no null."""

    def level_codes(self, values: Array) -> Array:
        """Return int32 codes from 0, equal for equal float64 values; arbitrary for NaN."""

    def rank(self, keep: Array) -> Array:
        """Return the number of set flags before each position: int32, one element longer than the flags."""

    def compact(self, array: Array, keep: Array, rank: Array) -> Array:
        """Return the elements with a set flag."""

    def take(self, array: Array, index: Array) -> Array:
        """Return the elements at an index."""

    def of_events(self, history: History, include_current: bool) -> tuple[Array, Array]:
        """Return (low, high) of `queries_of_events`."""

    def before(self, history: History, key: Array, time: Array) -> tuple[Array, Array]:
        """Return (low, high) of `queries_before`."""

    def last_rows(self, queries: Queries, n: int) -> Array:
        """Return the `low` of windows of `n` events."""

    def last_span(self, queries: Queries, span: int) -> Array:
        """Return the `low` of windows of `span` microseconds."""

    def gaps(self, history: History, unit: float) -> Array:
        """Return the time since the previous event, float64."""

    def count(self, events: KeyedEvents, queries: Queries) -> Array:
        """Return the number of events."""

    def moment(self, column: KeyedColumn, queries: Queries, kind: int) -> Array:
        """Return one of the `MOMENTS`."""

    def extreme(self, column: KeyedColumn, queries: Queries, sign: float) -> Array:
        """Return the minimum for sign 1, the maximum for -1."""

    def pick(self, events: KeyedEvents, queries: Queries, back: int, fill: float) -> Array:
        """Return the value `back` events before the cut-off, the first one for 0; `fill` if there is none."""

    def since(self, events: KeyedEvents, queries: Queries, back: int, unit: float) -> Array:
        """Return the time from that event to the cut-off."""

    def nunique(self, codes: KeyedCodes, queries: Queries) -> Array:
        """Return the number of distinct codes."""

    def decayed(self, column: KeyedColumn | None, queries: Queries, rate: float) -> Array:
        """Return the sum of ``x * 2 ** (-age * rate)``; without a column, x is 1."""

    def sessions(self, events: KeyedEvents, queries: Queries, gap: int, unit: float) -> tuple[Array, Array, Array]:
        """Return (number of sessions, events of the last session, its age)."""


@dataclass(frozen=True, eq=False)
class History:
    """The events of a table, sorted by key, time and position in the table.

    Attributes
    ----------
    order : array of int32, shape (events,)
        The row of each event in its table; rows without a key or a time are not events.
    start : array of int32, shape (keys + 1,)
        The events of key k are ``start[k]:start[k + 1]``.
    time : array of int64, shape (events,)
        Microseconds.
    n_rows : int
        Number of rows of the table.
    engine : KeyedEngine
        The engine for these arrays.
    """

    order: Array
    start: Array
    time: Array
    n_rows: int
    engine: KeyedEngine

    @property
    def n_events(self) -> int:
        """Number of events."""
        return len(self.order)

    @cached_property
    def events(self) -> KeyedEvents:
        """All events."""
        return KeyedEvents(self, self.start, self.time)

    def where(self, keep: Array | None, values: Array | None = None) -> KeyedEvents:
        """Return the events with a set flag, all for None; `values` are the values of all events."""
        if keep is None:
            return KeyedEvents(self, self.start, self.time, values=values)
        engine = self.engine
        rank = engine.rank(keep)
        kept = None if values is None else engine.compact(values, keep, rank)
        return KeyedEvents(self, engine.take(rank, self.start), engine.compact(self.time, keep, rank), rank, kept)


@dataclass(frozen=True, eq=False)
class KeyedEvents:
    """A subset of a history's events: those that a feature counts.

    Attributes
    ----------
    start, time : array
        As in `History`, for these events.
    rank : array of int32, shape (history.n_events + 1,), optional
        The number of these events before each event of the history; None if the subset is all events.
    values : array of float64 or int32, shape (events,), optional
    """

    history: History
    start: Array
    time: Array
    rank: Array | None = None
    values: Any = None
    _made: dict[Any, Any] = field(default_factory=dict, repr=False)

    def once(self, what: Any, make: Callable[[KeyedEvents], Any]) -> Any:
        """Return the result of `make` for these events, computed at the first call only."""
        if what not in self._made:
            self._made[what] = make(self)
        return self._made[what]


@dataclass(frozen=True, eq=False)
class KeyedColumn:
    """A column in the order of a history, with intermediate results cached for the next feature.

    Attributes
    ----------
    values : array of float64, shape (events,)
    """

    history: History
    values: Array

    @cached_property
    def events(self) -> KeyedEvents:
        """All events."""
        return self.history.where(None, self.values)

    @cached_property
    def known(self) -> KeyedEvents:
        """The events whose value is not NaN."""
        return self.history.where(self.history.engine.known_numbers(self.values), self.values)

    @cached_property
    def levels(self) -> KeyedCodes:
        """A code per value, equal for equal values."""
        engine = self.history.engine
        return KeyedCodes(self.history, engine.level_codes(self.values), engine.known_numbers(self.values))


@dataclass(frozen=True, eq=False)
class KeyedCodes:
    """A column of codes in the order of a history.

    Attributes
    ----------
    values : array of int32, shape (events,)
    keep : array of bool, shape (events,), optional
        Flags of the codes that are not null; None if there is no null.
    """

    history: History
    values: Array
    keep: Array | None

    @cached_property
    def known(self) -> KeyedEvents:
        """The events whose code is not null."""
        return self.history.where(self.keep, self.values)


@dataclass(frozen=True, eq=False)
class Queries:
    """The events that each query sees: ``low:high`` of a history, all of one key, none after the query's cut-off.

    Attributes
    ----------
    low, high : array of int32, shape (queries,)
        Positions in the history; equal if the query sees no event.
    time : array of int64, shape (queries,)
        The cut-offs in microseconds.
    row : array of int32, shape (queries,), optional
        The position of each query's result; None for the order of the queries.
    n_rows : int
        Length of the results. Rows without a query see no event.
    includes_current : bool
        Whether the last event of each query is the query's own event.
    windowed : bool
        Whether a query may start after the first event of its key.
    """

    history: History
    low: Array
    high: Array
    time: Array
    row: Array | None
    n_rows: int
    includes_current: bool = False
    windowed: bool = False

    @property
    def follow_events(self) -> bool:
        """True if the queries are the events themselves in their order, and each sees all events before it."""
        return self.row is not None and not self.windowed
