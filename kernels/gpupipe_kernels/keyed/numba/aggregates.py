"""Aggregates of the events that queries see, each in one pass that stores only the results.

``running_…_block``  all events before each event; the last arguments are the slices to process, see `slices`
``window_…_block``   sliding windows over the events; sums are pairs (see `pairs`), so a value that has left a window
                     leaves no rounding error, however large it was
``range_…_block``    one loop over its events per query: faster if queries together see at most as many events as there
                     are, as with one query per customer; see `engine`

An event with a NaN value gets a result but is not counted in others.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from gpupipe_kernels.keyed.engine import COUNT, MEAN, STD, SUM
from gpupipe_kernels.keyed.formulas import elapsed, faded
from gpupipe_kernels.keyed.numpy.events import LARGEST, NOISE
from gpupipe_kernels.keyed.pairs import add, add_one, deviation, product
from gpupipe_kernels.launch import formula, host_walk
from gpupipe_kernels.threads import run_blocks
from gpupipe_kernels.typing import Array

PARTS_A_THREAD = 8


@formula
def limited(x):
    """Return a value as used in sums: infinite if its absolute value exceeds `LARGEST`."""
    if x > LARGEST:
        return math.inf
    return -math.inf if x < -LARGEST else x


@formula
def fade(s, share):
    """Return the decayed sum; an infinite sum does not decay."""
    return s if abs(s) == math.inf else s * share


@formula
def joined(n, mean, squares, m, more, more_squares):
    """Return (count, mean, sum of squared deviations) of two samples combined, after T. F. Chan, G. H. Golub and
    R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979)."""
    if n == 0.0:
        return m, more, more_squares
    if m == 0.0:
        return n, mean, squares
    apart, both = more - mean, n + m
    return both, mean + apart * (m / both), squares + more_squares + apart * apart * (n * m / both)


@formula
def summary(kind, n, total, mean, squares):
    """Return the moment `kind` of a sample of `n` values."""
    if kind == COUNT:
        return n
    if kind == SUM:
        return total
    if n == 0.0:
        return math.nan
    if kind == MEAN:
        return total / n
    if n == 1.0 or squares != squares:
        return math.nan
    return math.sqrt(squares / (n - 1.0)) if squares > NOISE * n * mean * mean else 0.0


@host_walk
def running_moment_block(
    values, head, row, includes_current, kind, cuts, first, left, out, slices, is_last, start, stop
):
    """Write the count, sum, mean or standard deviation, the last after B. P. Welford, "Note on a method for calculating
    corrected sums of squares and products", Technometrics 4 (1962) 419."""
    for c in slices[start:stop]:
        n = total = mean = squares = 0.0
        for p in range(first[c] if is_last else c, c):
            total += left[p, 1]
            n, mean, squares = joined(n, mean, squares, left[p, 0], left[p, 2], left[p, 3])
        for i in range(cuts[c], cuts[c + 1]):
            if head[i]:
                n = total = mean = squares = 0.0
            if is_last and not includes_current:
                out[row[i]] = summary(kind, n, total, mean, squares)
            if values[i] == values[i]:
                x = limited(values[i])
                n += 1.0
                total += x
                if kind == STD:
                    apart = x - mean
                    mean += apart / n
                    squares += apart * (x - mean)
            if is_last and includes_current:
                out[row[i]] = summary(kind, n, total, mean, squares)
        if not is_last:
            left[c, 0] = n
            left[c, 1] = total
            left[c, 2] = mean
            left[c, 3] = squares


@host_walk
def running_extreme_block(
    values, head, row, includes_current, sign, cuts, first, left, out, slices, is_last, start, stop
):
    """Write the minimum, or for sign -1 the maximum; NaN if there is no value."""
    for c in slices[start:stop]:
        least = np.nan
        for p in range(first[c] if is_last else c, c):
            least = least if least <= left[p, 0] or left[p, 0] != left[p, 0] else left[p, 0]
        for i in range(cuts[c], cuts[c + 1]):
            if head[i]:
                least = np.nan
            if is_last and not includes_current:
                out[row[i]] = sign * least
            x = sign * values[i]
            least = least if least <= x or x != x else x
            if is_last and includes_current:
                out[row[i]] = sign * least
        if not is_last:
            left[c, 0] = least


@host_walk
def running_decayed_block(
    values, head, row, includes_current, time, rate, cuts, first, left, out, slices, is_last, start, stop
):
    """Write the decayed sum; without values, every value is 1. Infinite values do not decay."""
    for c in slices[start:stop]:
        s = 0.0
        for p in range(first[c] if is_last else c, c):
            s = fade(s, faded(elapsed(time[cuts[p + 1] - 1], time[cuts[p] - 1]), rate)) + left[p, 0]
        for i in range(cuts[c], cuts[c + 1]):
            s = 0.0 if head[i] else fade(s, faded(elapsed(time[i], time[i - 1]), rate))
            if is_last and not includes_current:
                out[row[i]] = s
            if values.size == 0:
                s += 1.0
            elif values[i] == values[i]:
                s += limited(values[i])
            if is_last and includes_current:
                out[row[i]] = s
        if not is_last:
            left[c, 0] = s


@formula
def window_summary(kind, n, n_up, n_down, s, s_lo, q, q_lo, most):
    """Return the moment `kind` of a window of `n` values, which may be infinite; `most` is the largest `q` so far."""
    if kind == COUNT:
        return float(n)
    wild = (math.inf if n_up > 0 else 0.0) + (-math.inf if n_down > 0 else 0.0)
    if kind == SUM:
        return s + wild
    if n == 0:
        return math.nan
    if kind == MEAN:
        return s / n + wild
    if n == 1 or wild != 0.0:
        return math.nan
    return deviation(float(n), s, s_lo, q, q_lo, NOISE * most)


@host_walk
def window_moment_block(values, low, row, includes_current, kind, cuts, out, start, stop):
    """Write the count, sum, mean or standard deviation of the events ``low[i]:i``, or up to and including event i."""
    for c in range(start, stop):
        first, end = 0, 0  # the window that the sums cover; an empty one resets them
        n = n_up = n_down = 0
        s = s_lo = q = q_lo = most = 0.0
        for i in range(cuts[c], cuts[c + 1]):
            if low[i] >= end or end == 0:
                first = end = int(low[i])
                n = n_up = n_down = 0
                s = s_lo = q = q_lo = most = 0.0
            while end < i + includes_current or first < low[i]:
                comes = end < i + includes_current
                x, step = (values[end], 1) if comes else (values[first], -1)
                if comes:
                    end += 1
                else:
                    first += 1
                if x == x:
                    n += step
                    if x > LARGEST:
                        n_up += step
                    elif x < -LARGEST:
                        n_down += step
                    else:
                        s, s_lo = add_one(s, s_lo, step * x)
                        if kind == STD:
                            square, square_lo = product(x, x)
                            q, q_lo = add(q, q_lo, step * square, step * square_lo)
                            most = max(most, q)
            out[row[i]] = window_summary(kind, n, n_up, n_down, s, s_lo, q, q_lo, most)


def along_ranges(walk: Any, low: Array, high: Array, n_threads: int, *arguments: Any) -> None:
    """Call ``walk(*arguments, low, high, cuts, start, stop)`` for parts of the queries with about equally many events.

    Part c is the queries ``cuts[c]:cuts[c + 1]``.
    """
    seen = np.cumsum(high - low, dtype=np.int64)
    n_parts = PARTS_A_THREAD * n_threads
    inner = np.searchsorted(seen, np.linspace(0, seen[-1] if len(seen) else 0, n_parts + 1)[1:-1])
    cuts = np.concatenate([[0], inner, [len(low)]])
    run_blocks(partial(walk, *arguments, low, high, cuts), n_parts, 1, n_threads)


def sees_few(low: Array, high: Array, n_events: int) -> bool:
    """Return whether queries together see at most as many events as there are."""
    return int((high - low).sum(dtype=np.int64)) <= n_events


@host_walk
def range_moment_block(values, kind, out, low, high, cuts, start, stop):
    """Write the count, sum, mean or standard deviation, the last as in `running_moment_block`."""
    for c in range(start, stop):
        for query in range(cuts[c], cuts[c + 1]):
            n = total = mean = squares = 0.0
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
def range_extreme_block(values, sign, out, low, high, cuts, start, stop):
    """Write the minimum, or for sign -1 the maximum; NaN if there is no value."""
    for c in range(start, stop):
        for query in range(cuts[c], cuts[c + 1]):
            least = np.nan
            for i in range(low[query], high[query]):
                x = sign * values[i]
                least = least if least <= x or x != x else x
            out[query] = sign * least
