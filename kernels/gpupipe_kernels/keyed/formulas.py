"""Formulas per event and per query, shared by the host and device loops."""

from __future__ import annotations

import math

from gpupipe_kernels.keyed.engine import MEAN, SUM
from gpupipe_kernels.keyed.numpy.events import NOISE
from gpupipe_kernels.keyed.pairs import deviation, in_range
from gpupipe_kernels.launch import array_formula, formula
from gpupipe_kernels.program.opcodes import NAT


@formula
def elapsed(later, earlier):
    """Return the difference of two times in microseconds, as float64, which cannot overflow."""
    return float(later) - float(earlier)


@formula
def faded(age, rate):
    """Return the decay weight at an `age`; 1 for rate 0."""
    exponent = age * rate
    return 1.0 if exponent == 0.0 else 2.0**-exponent


@array_formula
def share_at(i, time, head, rate):
    """Return the share of the sum before event `i` that remains; 0 at the start of a key."""
    return 0.0 if head[i] else faded(elapsed(time[i], time[i - 1]), rate)


@array_formula
def infinity(up, down, low, high):
    """Return the sum of the infinite values of ``low:high``; `up` and `down` count them, and are empty without any."""
    if up.size == 0:
        return 0.0
    n_up, n_down = up[high] - up[low], down[high] - down[low]
    if n_up > 0 and n_down > 0:
        return math.nan
    if n_up > 0:
        return math.inf
    return -math.inf if n_down > 0 else 0.0


@array_formula
def first_after(time, low, high, bound):
    """Return the first position of ``low:high`` whose time is after `bound`, or `high`."""
    while low < high:
        middle = (low + high) // 2
        if time[middle] > bound:
            high = middle
        else:
            low = middle + 1
    return low


@array_formula
def first_after_from(near, time, high, bound):
    """Return the same by an exponential search from `near`, which must not be after the result."""
    step = 1
    while near + step <= high and time[near + step - 1] <= bound:
        near += step
        step *= 2
    return first_after(time, near, min(near + step, high), bound)


@array_formula
def least(tree, low, high):
    """Return the minimum of the leaves ``low:high`` of a tree (see `keyed.numpy.events`); the range is not empty."""
    n = tree.size // 2
    low, high = low + n, high + n
    found = tree[low]
    while low < high:
        left, right = tree[low], tree[high - 1]
        found = min(found, left if low & 1 else found)
        found = min(found, right if high & 1 else found)
        low, high = (low + 1) // 2, high // 2
    return found


@array_formula
def seen(i, low, high, rank):
    """Return the range of the events that query `i` sees."""
    if rank.size == 0:
        return low[i], high[i]
    return rank[low[i]], rank[high[i]]


@array_formula
def place(i, row):
    """Return the position of the result of query `i`."""
    return row[i] if row.size else i


@array_formula
def count_at(i, low, high, row, rank, out):
    """Write the number of events."""
    a, b = seen(i, low, high, rank)
    out[place(i, row)] = b - a


@array_formula
def moment_at(i, low, high, row, rank, head, hi, lo, squares, squares_lo, up, down, kind, out):
    """Write the sum, mean or standard deviation."""
    a, b = seen(i, low, high, rank)
    made = math.nan if kind != SUM else 0.0
    if b > a:
        n = float(b - a)
        s, s_lo = in_range(hi, lo, head, a, b)
        wild = infinity(up, down, a, b)
        if kind == SUM:
            made = s + wild
        elif kind == MEAN:
            made = s / n + wild
        elif b - a > 1 and wild == 0.0:
            q, q_lo = in_range(squares, squares_lo, head, a, b)
            made = deviation(n, s, s_lo, q, q_lo, NOISE * squares[b - 1])
    out[place(i, row)] = made


@array_formula
def extreme_at(i, low, high, row, rank, tree, sign, out):
    """Write the minimum; for sign -1, where the tree has negated values, the maximum."""
    a, b = seen(i, low, high, rank)
    out[place(i, row)] = sign * least(tree, a, b) if b > a else math.nan


@array_formula
def pick_at(i, low, high, row, rank, values, back, fill, out):
    """Write the value `back` events before the cut-off; the first value for 0."""
    a, b = seen(i, low, high, rank)
    at = b - back if back else a
    out[place(i, row)] = values[at] if a <= at < b else fill


@array_formula
def since_at(i, low, high, row, rank, cutoff, time, back, unit, out):
    """Write the time from the last event (the first event if `back` is 0) to the cut-off."""
    a, b = seen(i, low, high, rank)
    out[place(i, row)] = elapsed(cutoff[i], time[b - 1 if back else a]) / unit if b > a else math.nan


@array_formula
def nunique_at(i, low, high, row, rank, before, out):
    """Write the number of set flags in the range; `before` is the number before each position."""
    a, b = seen(i, low, high, rank)
    out[place(i, row)] = before[b] - before[a]


@array_formula
def decayed_at(i, low, high, row, rank, cutoff, time, sums, rate, up, down, out):
    """Write the decayed sum at the last event, decayed further to the cut-off."""
    a, b = seen(i, low, high, rank)
    made = 0.0
    if b > a:
        made = sums[b - 1] * faded(elapsed(cutoff[i], time[b - 1]), rate) + infinity(up, down, a, b)
    out[place(i, row)] = made


@array_formula
def session_at(i, low, high, row, rank, cutoff, time, before, first, unit, count, events, age):
    """Write the number of sessions, and the number of events and age of the last one.

    `first` is the start of each session, `before` the number of sessions that begin before each position.
    """
    a, b = seen(i, low, high, rank)
    n, begin, since = 0, b, math.nan
    if b > a:
        n = 1 + before[b] - before[a + 1]
        begin = max(first[before[b] - 1], a)
        since = elapsed(cutoff[i], time[begin]) / unit
    at = place(i, row)
    count[at], events[at], age[at] = n, b - begin, since


@array_formula
def before_at(i, start, time, key, cutoff, low, high):
    """Write the range of a key's events before a cut-off."""
    low[i] = high[i] = 0
    if 0 <= key[i] < start.size - 1 and cutoff[i] != NAT:
        low[i] = start[key[i]]
        high[i] = first_after(time, start[key[i]], start[key[i] + 1], cutoff[i] - 1)


@formula
def before_span(cutoff, span):
    """Return the time `span` before a cut-off, or the minimum time on overflow."""
    return cutoff - span if cutoff >= NAT + span else NAT


@array_formula
def span_at(i, low, high, cutoff, time, span, out):
    """Write the first event younger than `span`."""
    out[i] = first_after(time, low[i], high[i], before_span(cutoff[i], span))


@array_formula
def gap_at(i, head, time, unit, out):
    """Write the time since the previous event."""
    out[i] = math.nan if head[i] else elapsed(time[i], time[i - 1]) / unit
