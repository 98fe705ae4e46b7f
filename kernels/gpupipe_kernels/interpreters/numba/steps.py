"""Vectorised loops of the host interpreter, each running one instruction over the rows of a tile.

`acc` is the accumulator, `ix` the index, `x` and `y` source columns, `r` one or three registers of the stack: arrays of
the tile's length. The formula of an instruction defines its meaning.
"""

from __future__ import annotations

from typing import Any

from numpy import float32, int32, uint64

from gpupipe_kernels.formulas.angle import wave
from gpupipe_kernels.formulas.calendar32 import clock_part, date_part, day_of, is_of_clock
from gpupipe_kernels.formulas.cells import (
    NAN,
    between,
    bin_of,
    clip,
    elapsed,
    entry,
    fill,
    finite,
    flag,
)
from gpupipe_kernels.formulas.distance import bearing, course, distance
from gpupipe_kernels.formulas.logarithm import log1p
from gpupipe_kernels.formulas.power import yeo_johnson
from gpupipe_kernels.launch import host_step
from gpupipe_kernels.program.opcodes import NAT

MISSING = int32(-(2**31))
FEW_EDGES = 64


@host_step
def load(x: Any, shift: Any, acc: Any) -> None:
    for i in range(x.size):
        acc[i] = x[i] - shift


@host_step
def equal(x: Any, code: Any, acc: Any) -> None:
    for i in range(x.size):
        acc[i] = flag(x[i] == code)


@host_step
def is_nan(x: Any, acc: Any) -> None:
    for i in range(x.size):
        acc[i] = flag(x[i] != x[i])


@host_step
def is_nat(x: Any, acc: Any) -> None:
    for i in range(x.size):
        acc[i] = flag(x[i] == NAT)


@host_step
def elapsed_times(x: Any, origin: Any, factor: Any, acc: Any) -> None:
    for i in range(x.size):
        acc[i] = elapsed(x[i], origin, factor)


@host_step
def between_times(x: Any, y: Any, factor: Any, acc: Any) -> None:
    for i in range(x.size):
        acc[i] = between(x[i], y[i], factor)


@host_step
def fills(value: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = fill(acc[i], value)


@host_step
def logarithms(acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = finite(log1p(acc[i]))


@host_step
def clips(low: Any, high: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = clip(acc[i], low, high)


@host_step
def scales(factor: Any, offset: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = finite(acc[i] * factor + offset)


@host_step
def waves(high: Any, low: Any, phase: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = wave(acc[i], high, low, phase)


@host_step
def powers(exponent: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = finite(yeo_johnson(acc[i], exponent))


@host_step
def takes(table: Any, ix: Any, acc: Any) -> None:
    size = int32(table.size)
    for i in range(acc.size):
        acc[i] = table[entry(ix[i], size)]


@host_step
def indices(x: Any, ix: Any) -> None:
    for i in range(x.size):
        ix[i] = x[i]


@host_step
def index_pairs(x: Any, stride: Any, ix: Any) -> None:
    for i in range(x.size):
        ix[i] = int32(ix[i] * stride) + int32(x[i])


@host_step
def index_folds(fold: Any, stride: Any, ix: Any) -> None:
    for i in range(fold.size):
        ix[i] = ix[i] + int32(fold[i] * stride)


@host_step
def index_parts(x: Any, which: Any, size: Any, ix: Any) -> None:
    for i in range(x.size):
        ix[i] = day_of(x[i])
    if is_of_clock(which):
        for i in range(x.size):
            ix[i] = clock_part(x[i], ix[i], which)
    else:
        for i in range(x.size):
            ix[i] = date_part(ix[i], which)
    for i in range(x.size):
        ix[i] = size if x[i] == NAT else ix[i]


@host_step
def parts(x: Any, which: Any, ix: Any, acc: Any) -> None:
    index_parts(x, which, MISSING, ix)
    for i in range(x.size):
        acc[i] = NAN if ix[i] == MISSING else float32(ix[i])


@host_step
def index_bins(x: Any, edges: Any, lowest: Any, ix: Any) -> None:
    if edges.size > FEW_EDGES:
        for i in range(x.size):
            ix[i] = bin_of(x[i], edges, uint64(0), edges.size, lowest)
        return
    for i in range(x.size):
        ix[i] = lowest
    for edge in edges:  # vectorised, unlike a search
        for i in range(x.size):
            ix[i] += edge <= x[i]
    for i in range(x.size):
        ix[i] = 0 if x[i] != x[i] else ix[i]


@host_step
def add(r: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = finite(r[i] + acc[i])


@host_step
def subtract(r: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = finite(r[i] - acc[i])


@host_step
def multiply(r: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = finite(r[i] * acc[i])


@host_step
def divide(r: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = finite(r[i] / acc[i])


@host_step
def courses(r: Any, origin: Any, acc: Any) -> None:
    for i in range(acc.size):
        r[0, i], r[1, i], r[2, i] = course(r[0, i], r[1, i], r[2, i], acc[i], origin)


@host_step
def distances(r: Any, radius: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = distance(r[0, i], r[1, i], r[2, i], radius)


@host_step
def bearings(r: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = bearing(r[0, i], r[1, i])


@host_step
def copy(x: Any, acc: Any) -> None:
    for i in range(acc.size):
        acc[i] = x[i]


@host_step
def transpose(tile: Any, n_rows: Any, out: Any, start: Any, row_stride: Any) -> None:
    """Write a tile of columns to the rows of the matrix, which stay in the L1 cache."""
    width = tile.shape[0]
    for i in range(n_rows):
        row = out[start + i * row_stride : start + i * row_stride + width]
        for j in range(row.size):
            row[j] = tile[j, i]
