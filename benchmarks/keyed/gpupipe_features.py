"""Keyed features with gpupipe's compiled kernels: arrays in, arrays out, one value per event or customer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.keyed.event_log import CUT_OFF, SPAN, EventLog
from gpupipe.backends.machine import n_threads
from gpupipe.bench.clock import StageClock
from gpupipe.typing import Array
from gpupipe.units import DAY_US
from gpupipe_kernels import keyed

if TYPE_CHECKING:
    from benchmarks.keyed.event_log import Columns


def compiled(events: EventLog, clock: StageClock) -> Columns:
    """Compute all columns."""
    with clock("ordering"):
        history = keyed.order_events(events.key, events.time, engine="numba", n_threads=n_threads())
        spend = keyed.column(history, keyed.in_order(history, events.spend))
        stock = keyed.in_order(history, events.stock)
        seen = keyed.queries_of_events(history, include_current=True)
    columns: Columns = {}
    with clock("running"):
        columns["running"] = _running(history, spend, stock, seen)
    with clock("windows"):
        columns["windows"] = _windows(spend, seen)
    with clock("joined back"):
        columns["joined back"] = _joined_back(history, spend, stock)
    return columns


def _running(history: keyed.History, spend: keyed.KeyedColumn, stock: Array, seen: keyed.Queries) -> dict[str, Array]:
    return {
        "count": keyed.count(seen),
        "sum": keyed.aggregate(spend, seen, "sum"),
        "mean": keyed.aggregate(spend, seen, "mean"),
        "min": keyed.aggregate(spend, seen, "min"),
        "max": keyed.aggregate(spend, seen, "max"),
        "std": keyed.aggregate(spend, seen, "std"),
        "lag": keyed.lag(spend, seen, 2),  # 1 is the event itself
        "decayed": keyed.decayed_sum(spend, seen, SPAN),
        "days since": keyed.time_since(keyed.queries_of_events(history), unit=DAY_US),
        "stock codes": keyed.aggregate_codes(stock, seen, "nunique"),
    }


def _windows(spend: keyed.KeyedColumn, seen: keyed.Queries) -> dict[str, Array]:
    window = keyed.last_span(seen, SPAN)
    return {"30 d sum": keyed.aggregate(spend, window, "sum"), "30 d count": keyed.count(window)}


def _joined_back(history: keyed.History, spend: keyed.KeyedColumn, stock: Array) -> dict[str, Array]:
    customers = np.arange(len(history.start) - 1, dtype=np.int32)
    before = keyed.queries_before(history, customers, np.array(CUT_OFF))
    return {
        "count": keyed.count(before),
        "sum": keyed.aggregate(spend, before, "sum"),
        "mean": keyed.aggregate(spend, before, "mean"),
        "max": keyed.aggregate(spend, before, "max"),
        "stock codes": keyed.aggregate_codes(stock, before, "nunique"),
        "recency": keyed.time_since(before, "last", DAY_US),
        "age": keyed.time_since(before, "first", DAY_US),
    }
