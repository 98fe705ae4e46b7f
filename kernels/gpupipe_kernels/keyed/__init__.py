"""History features: statistics of each key's events before the cut-off of each row, without leakage.

*Events* are the rows of a table that have a key and a time. `order_events` sorts them once, by key, time and position
in the table, so that ties in time keep the table's order. It returns a `History`, on which everything else is based;
columns are passed in its order (`in_order`).

*Queries* define which events each row sees: positions ``low:high`` of its key in the history, and the cut-off, to which
ages are measured. With `queries_of_events`, each event sees the events before it; with `queries_before`, the rows of
any table see the events before a cut-off. `last_rows` and `last_span` limit queries to windows. Events at or after
``high`` are never read, so changing an event at or after the cut-off changes no result.

*Features* are functions of columns and queries: one float32 (or code) per query. Nulls are skipped. Values are computed
in float64, sums in pairs of float64, and rounded at the end. The running time does not depend on the distribution of
events over keys, because no kernel runs one thread per key.

A minimal example, of a table that is its own event log::

    history = keyed.order_events(customer, time)
    before = keyed.queries_of_events(history)
    spend = keyed.column(history, keyed.in_order(history, amount))
    keyed.aggregate(spend, before, "mean")
    keyed.aggregate(spend, keyed.last_span(before, 30 * DAY), "sum")
    keyed.time_since(before, "last", unit=DAY)

Three engines implement the features: NumPy (``keyed.numpy``), compiled loops on the host (``keyed.numba``) and CUDA
kernels (``keyed.cuda``). `order_events` chooses one by the location and length of the arrays.
"""

from __future__ import annotations

from gpupipe_kernels.keyed.engine import History, KeyedColumn, Queries
from gpupipe_kernels.keyed.features import (
    aggregate,
    aggregate_codes,
    count,
    decayed_sum,
    lag,
    pick,
    row,
    sessions,
    time_since,
)
from gpupipe_kernels.keyed.history import (
    column,
    gaps,
    in_order,
    last_rows,
    last_span,
    order_events,
    queries_before,
    queries_of_events,
)

__all__ = [
    "History",
    "KeyedColumn",
    "Queries",
    "aggregate",
    "aggregate_codes",
    "column",
    "count",
    "decayed_sum",
    "gaps",
    "in_order",
    "lag",
    "last_rows",
    "last_span",
    "order_events",
    "pick",
    "queries_before",
    "queries_of_events",
    "row",
    "sessions",
    "time_since",
]
