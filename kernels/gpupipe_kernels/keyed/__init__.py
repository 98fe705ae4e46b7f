"""Features of keys over time: what a customer had done by the time of each row, and nothing of what came after.

*Events* are the rows of a table that have a key and a time. `order_events` sorts them once, by key, then time, then
their place in the table, so ties in time have an order: that of the table. The result, a `History`, is what all else
starts from; columns are given in its order (`in_order`).

*Queries* say which events each row sees: positions ``low:high`` of its key's part of the history, and the time that
ages are counted to. `queries_of_events` lets each event see those before it, `queries_before` lets rows of any table
see what is earlier than a cut-off; `last_rows` and `last_span` narrow them to windows. Nothing behind ``high`` is ever
read, so no change to an event at or after the cut-off changes a result.

*Features* are functions of columns and queries: one float32 (or code) for each query. Nulls are left out. All is
computed in float64, sums in pairs of them, and rounded at the end. The time taken does not depend on how events are
spread over keys: nothing runs a thread for each key.

A minimal use, of a table that refers to itself::

    history = keyed.order_events(customer, time)
    before = keyed.queries_of_events(history)
    spend = keyed.column(history, keyed.in_order(history, amount))
    keyed.aggregate(spend, before, "mean")
    keyed.aggregate(spend, keyed.last_span(before, 30 * DAY), "sum")
    keyed.time_since(before, "last", unit=DAY)

Three engines compute the same: NumPy (``keyed.numpy``), compiled loops on the host (``keyed.numba``) and CUDA kernels
(``keyed.cuda``). `order_events` chooses one, by where the arrays lie and how long they are.
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
    "sessions",
    "time_since",
]
