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
from gpupipe_kernels.launch import host_walk
from gpupipe_kernels.typing import Array


@host_walk
def take(array: Array, index: Array, out: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        out[i] = array[index[i]]


@host_walk
def count(low: Array, high: Array, row: Array, rank: Array, out: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        count_at(i, low, high, row, rank, out)


@host_walk
def moment(
    low: Array, high: Array, row: Array, rank: Array, head: Array, hi: Array, lo: Array, squares: Array,
    squares_lo: Array, up: Array, down: Array, kind: int, out: Array, start: int, stop: int,
) -> None:  # fmt: skip
    for i in range(start, stop):
        moment_at(i, low, high, row, rank, head, hi, lo, squares, squares_lo, up, down, kind, out)


@host_walk
def extreme(
    low: Array, high: Array, row: Array, rank: Array, tree: Array, sign: float, out: Array, start: int, stop: int
) -> None:
    for i in range(start, stop):
        extreme_at(i, low, high, row, rank, tree, sign, out)


@host_walk
def pick(
    low: Array, high: Array, row: Array, rank: Array, values: Array, back: int, fill: float, out: Array,
    start: int, stop: int,
) -> None:  # fmt: skip
    for i in range(start, stop):
        pick_at(i, low, high, row, rank, values, back, fill, out)


@host_walk
def since(
    low: Array, high: Array, row: Array, rank: Array, cutoff: Array, time: Array, back: int, unit: float, out: Array,
    start: int, stop: int,
) -> None:  # fmt: skip
    for i in range(start, stop):
        since_at(i, low, high, row, rank, cutoff, time, back, unit, out)


@host_walk
def nunique(low: Array, high: Array, row: Array, rank: Array, before: Array, out: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        nunique_at(i, low, high, row, rank, before, out)


@host_walk
def decayed(
    low: Array, high: Array, row: Array, rank: Array, cutoff: Array, time: Array, sums: Array, rate: float, up: Array,
    down: Array, out: Array, start: int, stop: int,
) -> None:  # fmt: skip
    for i in range(start, stop):
        decayed_at(i, low, high, row, rank, cutoff, time, sums, rate, up, down, out)


@host_walk
def session(
    low: Array, high: Array, row: Array, rank: Array, cutoff: Array, time: Array, before: Array, first: Array,
    unit: float, count: Array, events: Array, age: Array, start: int, stop: int,
) -> None:  # fmt: skip
    for i in range(start, stop):
        session_at(i, low, high, row, rank, cutoff, time, before, first, unit, count, events, age)


@host_walk
def before(
    starts: Array, time: Array, key: Array, cutoff: Array, low: Array, high: Array, start: int, stop: int
) -> None:
    for i in range(start, stop):
        before_at(i, starts, time, key, cutoff, low, high)


@host_walk
def span(
    low: Array, high: Array, cutoff: Array, time: Array, microseconds: int, out: Array, start: int, stop: int
) -> None:
    for i in range(start, stop):
        if i > start and low[i] == low[i - 1] and high[i] >= high[i - 1] and cutoff[i] >= cutoff[i - 1]:
            bound = before_span(cutoff[i], microseconds)
            out[i] = first_after_from(out[i - 1], time, high[i], bound)  # a window moves with its event
        else:
            span_at(i, low, high, cutoff, time, microseconds, out)
