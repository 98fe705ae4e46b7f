"""Sums over windows that move on with the events, in one walk along them: nothing is stored but the results.

Sums are pairs, see `pairs`: what has left a window has no part in it any more, however large it was.
"""

from __future__ import annotations

import math
from typing import Any

from gpupipe_kernels.keyed.engine import COUNT, MEAN, STD, SUM
from gpupipe_kernels.keyed.numpy.events import LARGEST, NOISE
from gpupipe_kernels.keyed.pairs import add, add_one, deviation, product
from gpupipe_kernels.launch import formula, host_walk
from gpupipe_kernels.typing import Array


@formula
def window_summary(
    kind: Any, n: int, n_up: int, n_down: int, s: float, s_lo: float, q: float, q_lo: float, most: float
) -> Any:
    """Return the moment `kind` of a window of `n` values, some of them infinite; `most` is the largest `q` so far."""
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
def window_moment_block(
    values: Array, low: Array, row: Array, includes_current: bool, kind: int, cuts: Array,
    out: Array, start: int,
    stop: int,
) -> None:  # fmt: skip
    """Write count, sum, mean or standard deviation of the events ``low[i]:i``, or up to event i itself."""
    for c in range(start, stop):
        first, end = 0, 0  # the window that the sums are of; an empty one starts them anew
        n, n_up, n_down = 0, 0, 0
        s, s_lo, q, q_lo, most = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(cuts[c], cuts[c + 1]):
            if low[i] >= end or end == 0:
                first = end = int(low[i])
                n, n_up, n_down = 0, 0, 0
                s, s_lo, q, q_lo, most = 0.0, 0.0, 0.0, 0.0, 0.0
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
