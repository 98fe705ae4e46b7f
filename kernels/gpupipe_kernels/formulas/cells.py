"""Scalar formulas of the simple instructions, called by both compiled interpreters.

`gpupipe_kernels.program.opcodes` defines their null policy.
"""

from __future__ import annotations

from numpy import float32, float64, int32, int64, uint64

from gpupipe_kernels.formulas.calendar32 import part
from gpupipe_kernels.launch import array_formula, formula
from gpupipe_kernels.program.opcodes import NAT

NAN = float32(float("nan"))
INF = float32(float("inf"))


@formula
def flag(condition):
    """Return 1 or 0."""
    return float32(1.0) if condition else float32(0.0)


@formula
def part_value(time, which):
    """Return a calendar part, NaN if the time is missing."""
    return NAN if time == NAT else float32(part(time, which))


@formula
def part_index(time, which, size):
    """Return a calendar part as an index, `size` if the time is missing."""
    return int32(size) if time == NAT else part(time, which)


@formula
def elapsed(time, origin, factor):
    """Return the time since `origin` in another unit; the subtraction is in float64."""
    return NAN if time == NAT else float32((float64(time) - origin) * factor)


@formula
def between(time, other, factor):
    """Return the time from `other` to `time` in another unit."""
    return NAN if time == NAT or other == NAT else float32((float64(time) - float64(other)) * factor)


@formula
def fill(x, value):
    """Return `value` instead of NaN, else `x`."""
    return value if x != x else x


@formula
def clip(x, low, high):
    """Return `x` clipped to two bounds; NaN if any of the three is NaN."""
    x = low if x < low or low != low else x
    return high if x > high or high != high else x


@formula
def finite(x):
    """Return `x`, or NaN if it is infinite."""
    # Not x - (x - x): if x is a product, a device would fuse it with the subtraction and get another result.
    return x if abs(x) < INF else NAN


@array_formula
def bin_of(x, edges, first, size, lowest):
    """Return `lowest` plus the number of edges <= x, or 0 if x is NaN; edges[first:first + size] are ascending."""
    if x != x:
        return int32(0)
    low, n = int32(0), int32(size)
    while n > int32(0):
        half = int32(n >> int32(1))
        if edges[first + uint64(low + half)] <= x:
            low, n = int32(low + half + int32(1)), int32(n - half - int32(1))
        else:
            n = half
    return int32(lowest + low)


@array_formula
def local_time(time, tables, first, size):
    """Return a time in the time zone in ``tables[first:first + size]``: n transitions, and the n + 1 offsets."""
    n = int32(size >> 1)
    offset = tables[first + uint64(int32(n + bin_of(float64(time), tables, first, n, int32(0))))]
    return time + int64(offset)


@array_formula
def zone_bounds(index, tables, first):
    """Return the bounds of time zone `index`, as positions in the table of time zones that starts at `first`."""
    n = int32(tables[first]) - int32(1)
    at = first + uint64(entry(int32(index), n))
    return int32(tables[at]), int32(tables[at + uint64(1)])


@formula
def entry(index, size):
    """Return an index clipped to a table of `size` entries."""
    index = index if index > int32(0) else int32(0)
    return index if index < size else int32(size - int32(1))
