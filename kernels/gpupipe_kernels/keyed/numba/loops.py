"""Host loops of the formulas over a block of queries or events; the arguments are those of the formulas."""

from __future__ import annotations

from gpupipe_kernels.keyed.formulas import (
    before_at,
    before_span,
    count_at,
    decayed_at,
    extreme_at,
    first_after_from,
    moment_at,
    nunique_at,
    pick_at,
    session_at,
    since_at,
    span_at,
)
from gpupipe_kernels.launch import host_walk, walk_of

count = walk_of(count_at, "keyed_count")
moment = walk_of(moment_at, "keyed_moment")
extreme = walk_of(extreme_at, "keyed_extreme")
pick = walk_of(pick_at, "keyed_pick")
since = walk_of(since_at, "keyed_since")
nunique = walk_of(nunique_at, "keyed_nunique")
decayed = walk_of(decayed_at, "keyed_decayed")
session = walk_of(session_at, "keyed_session")
before = walk_of(before_at, "keyed_before")


@host_walk
def take(array, index, out, start, stop):
    for i in range(start, stop):
        out[i] = array[index[i]]


@host_walk
def span(low, high, cutoff, time, microseconds, out, start, stop):
    for i in range(start, stop):
        if i > start and low[i] == low[i - 1] and high[i] >= high[i - 1] and cutoff[i] >= cutoff[i - 1]:
            bound = before_span(cutoff[i], microseconds)
            out[i] = first_after_from(out[i - 1], time, high[i], bound)  # a window moves with its event
        else:
            span_at(i, low, high, cutoff, time, microseconds, out)
