"""Aggregates of what queries see, each of which walks along its own events: nothing is stored but the results.

That is the quicker way while queries do not see more events than there are, as when each customer asks once; see
`engine`. An event whose value is NaN is not seen.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gpupipe_kernels.keyed.engine import STD
from gpupipe_kernels.keyed.numba.running_totals import limited, summary
from gpupipe_kernels.launch import host_walk
from gpupipe_kernels.threads import run_blocks
from gpupipe_kernels.typing import Array

PARTS_A_THREAD = 8


def along_ranges(walk: Any, low: Array, high: Array, n_threads: int, *arguments: Any) -> None:
    """Call ``walk(*arguments, low, high, cuts, start, stop)`` for parts of the queries that see about as many events.

    Part c is the queries ``cuts[c]:cuts[c + 1]``.
    """
    seen = np.cumsum(high - low, dtype=np.int64)
    n_parts = PARTS_A_THREAD * n_threads
    inner = np.searchsorted(seen, np.linspace(0, seen[-1] if len(seen) else 0, n_parts + 1)[1:-1])
    cuts = np.concatenate([[0], inner, [len(low)]])
    run_blocks(partial(walk, *arguments, low, high, cuts), n_parts, 1, n_threads)


def sees_few(low: Array, high: Array, n_events: int) -> bool:
    """Return whether queries together see no more events than there are."""
    return int((high - low).sum(dtype=np.int64)) <= n_events


@host_walk
def range_moment_block(
    values: Array,
    kind: int,
    out: Array,
    low: Array,
    high: Array,
    cuts: Array,
    start: int,
    stop: int,
) -> None:
    """Write count, sum, mean or standard deviation, the last as in `running_totals`."""
    for c in range(start, stop):
        for query in range(cuts[c], cuts[c + 1]):
            n, total, mean, squares = 0.0, 0.0, 0.0, 0.0
            for i in range(low[query], high[query]):
                if values[i] == values[i]:
                    x = limited(values[i])
                    n += 1.0
                    total += x
                    if kind == STD:
                        apart = x - mean
                        mean += apart / n
                        squares += apart * (x - mean)
            out[query] = summary(kind, n, total, mean, squares)


@host_walk
def range_extreme_block(
    values: Array,
    sign: float,
    out: Array,
    low: Array,
    high: Array,
    cuts: Array,
    start: int,
    stop: int,
) -> None:
    """Write the least value, or for sign -1 the greatest; NaN is that of none."""
    for c in range(start, stop):
        for query in range(cuts[c], cuts[c + 1]):
            least = np.nan
            for i in range(low[query], high[query]):
                x = sign * values[i]
                least = least if least <= x or x != x else x
            out[query] = sign * least
