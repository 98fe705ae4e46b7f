"""One instruction on the device, for four rows of each thread at once.

Four rows share what it costs to decode an instruction, and their reads are on the way at the same time. The accumulator
and the index are tuples, so they live in registers. The stack lies in shared memory, and only programs that use one get
any: variables that are picked by number would lie in local memory, which is device memory.

Positions are unsigned: a signed index could be a negative one, which means an element from the end.
"""

from __future__ import annotations

from typing import Any

from numpy import float32, int32, uint64

from gpupipe_kernels.formulas.angle import wave
from gpupipe_kernels.formulas.cells import (
    between,
    bin_of,
    clip,
    elapsed,
    entry,
    fill,
    finite,
    flag,
    part_index,
    part_value,
)
from gpupipe_kernels.formulas.distance import bearing, course, distance
from gpupipe_kernels.formulas.logarithm import log1p
from gpupipe_kernels.formulas.power import yeo_johnson
from gpupipe_kernels.interpreters.schedule import ARG, BLOCK, LUT, OP, ROW, SIZE
from gpupipe_kernels.launch import array_formula, formula
from gpupipe_kernels.opcodes import BLOCKS, NAT, Op

ROWS_A_THREAD = 4
INT8, INT16, INT32, FLOAT32, FLOAT64, INT64 = range(len(BLOCKS))


@array_formula
def cells_at(column: Any, at: Any, rows: Any) -> Any:
    """Return the cells of four rows."""
    return column[at + rows[0]], column[at + rows[1]], column[at + rows[2]], column[at + rows[3]]


@array_formula
def codes_at(block: Any, at: Any, rows: Any, i8: Any, i16: Any, i32: Any) -> Any:
    """Return the codes of four rows, widened."""
    if block == INT8:
        a = cells_at(i8, at, rows)
        return int32(a[0]), int32(a[1]), int32(a[2]), int32(a[3])
    if block == INT16:
        b = cells_at(i16, at, rows)
        return int32(b[0]), int32(b[1]), int32(b[2]), int32(b[3])
    return cells_at(i32, at, rows)


@array_formula
def numbers_at(block: Any, at: Any, rows: Any, f32: Any, f64: Any) -> Any:
    """Return the numbers of four rows as float32."""
    if block == FLOAT32:
        return cells_at(f32, at, rows)
    x = cells_at(f64, at, rows)
    return float32(x[0]), float32(x[1]), float32(x[2]), float32(x[3])


@array_formula
def shifted(block: Any, at: Any, rows: Any, f32: Any, f64: Any, shift: Any, wide_shift: Any) -> Any:
    """Return the numbers of four rows less a shift, subtracted in the precision of the source."""
    if block == FLOAT32:
        x = cells_at(f32, at, rows)
        return x[0] - shift, x[1] - shift, x[2] - shift, x[3] - shift
    y = cells_at(f64, at, rows)
    return (
        float32(y[0] - wide_shift), float32(y[1] - wide_shift), float32(y[2] - wide_shift), float32(y[3] - wide_shift),
    )  # fmt: skip


@array_formula
def register(stack: Any, r: Any, lane: Any, lanes: Any) -> Any:
    """Return register `r` of the stack for the four rows of a thread."""
    at = uint64(ROWS_A_THREAD * r * lanes + lane)
    n = uint64(lanes)
    return stack[at], stack[at + n], stack[at + n + n], stack[at + n + n + n]


@array_formula
def store(stack: Any, r: Any, lane: Any, lanes: Any, values: Any) -> None:
    """Write register `r` of the stack."""
    at = uint64(ROWS_A_THREAD * r * lanes + lane)
    n = uint64(lanes)
    stack[at], stack[at + n], stack[at + n + n], stack[at + n + n + n] = values


@array_formula
def looked_up(tables: Any, at: Any, size: Any, ix: Any) -> Any:
    """Return the entries of four rows in a lookup table."""
    return (
        tables[at + uint64(entry(ix[0], size))], tables[at + uint64(entry(ix[1], size))],
        tables[at + uint64(entry(ix[2], size))], tables[at + uint64(entry(ix[3], size))],
    )  # fmt: skip


@formula
def one_way(op: Any, lat1: Any, lon1: Any, lat2: Any, lon2: Any, radius: Any, origin: Any) -> Any:
    """Return the distance or the course from one point to another."""
    north, east, inwards = course(lat1, lon1, lat2, lon2, origin)
    return distance(north, east, inwards, radius) if op == Op.HAVERSINE else bearing(north, east)


@array_formula
def travelled(op: Any, stack: Any, r: Any, lane: Any, lanes: Any, acc: Any, radius: Any, origin: Any) -> Any:
    """Return distance or course between the points in three registers and the accumulators."""
    a = register(stack, r, lane, lanes)
    b = register(stack, r + 1, lane, lanes)
    c = register(stack, r + 2, lane, lanes)
    return (
        one_way(op, a[0], b[0], c[0], acc[0], radius, origin), one_way(op, a[1], b[1], c[1], acc[1], radius, origin),
        one_way(op, a[2], b[2], c[2], acc[2], radius, origin), one_way(op, a[3], b[3], c[3], acc[3], radius, origin),
    )  # fmt: skip


@array_formula
def call(number: Any, stack: Any, r: Any, lane: Any, lanes: Any, acc: Any) -> Any:
    """Stand in for users' kernels, which most programs have none of: see `interpret_cuda.interpreters_for`."""
    return acc


@array_formula
def execute(
    instructions: Any, k: Any, scalars: Any, wide: Any, steps: Any, tables: Any, moved: Any, rows: Any, has_fold: Any,
    fold: Any, stack: Any, lane: Any, lanes: Any, acc: Any, ix: Any, i8: Any, i16: Any, i32: Any, f32: Any, f64: Any,
    i64: Any,
) -> Any:  # fmt: skip
    """Return the accumulators and the indices of four rows after instruction `k`.

    All threads of a block run the same instruction, so no branch divides them.

    Parameters
    ----------
    instructions, scalars, wide : arrays
        As in `gpupipe_kernels.interpreters.schedule.Schedule`.
    k : int
    steps : array of uint64, shape (6,)
        From column to column in each block.
    tables, moved : array of float32, int32
        Lookup tables, in shared memory or not, and how far away from where the instruction says.
    rows : tuple of four uint64
    has_fold, fold : bool, array of int8
        Whether rows read the table of their fold.
    stack, lane, lanes : array of float32, int32, int32
        Shared memory: register r of this thread's row j is ``stack[(4 * r + j) * lanes + lane]``.
    acc, ix : tuples of four float32 and four int32
    i8, i16, i32, f32, f64, i64 : arrays
        The blocks, one column behind the other.
    """
    op, block, arg = instructions[k, OP], instructions[k, BLOCK], instructions[k, ARG]
    size, table_at = instructions[k, SIZE], uint64(instructions[k, LUT] + moved)
    at = uint64(instructions[k, ROW]) * steps[block] if block >= 0 else uint64(0)
    p0, p1 = scalars[k, 0], scalars[k, 1]
    if op == Op.EQUAL:
        c = codes_at(block, at, rows, i8, i16, i32)
        acc = flag(c[0] == arg), flag(c[1] == arg), flag(c[2] == arg), flag(c[3] == arg)
    elif op == Op.LOAD:
        acc = shifted(block, at, rows, f32, f64, p0, wide[k, 0])
    elif op == Op.FILL:
        acc = fill(acc[0], p0), fill(acc[1], p0), fill(acc[2], p0), fill(acc[3], p0)
    elif op == Op.SCALE:
        acc = (
            finite(acc[0] * p0 + p1), finite(acc[1] * p0 + p1),
            finite(acc[2] * p0 + p1), finite(acc[3] * p0 + p1),
        )  # fmt: skip
    elif op == Op.TAKE:
        acc = looked_up(tables, table_at, size, ix)
    elif op == Op.INDEX:
        ix = codes_at(block, at, rows, i8, i16, i32)
    elif op == Op.INDEX_PAIR:
        c = codes_at(block, at, rows, i8, i16, i32)
        ix = int32(ix[0] * arg + c[0]), int32(ix[1] * arg + c[1]), int32(ix[2] * arg + c[2]), int32(ix[3] * arg + c[3])
    elif op == Op.INDEX_FOLD and has_fold:
        g = cells_at(fold, uint64(0), rows)
        ix = int32(ix[0] + g[0] * arg), int32(ix[1] + g[1] * arg), int32(ix[2] + g[2] * arg), int32(ix[3] + g[3] * arg)
    elif op == Op.INDEX_PART:
        t = cells_at(i64, at, rows)
        ix = (
            part_index(t[0], arg, size), part_index(t[1], arg, size),
            part_index(t[2], arg, size), part_index(t[3], arg, size),
        )  # fmt: skip
    elif op == Op.INDEX_BIN:
        x = numbers_at(block, at, rows, f32, f64)
        ix = (
            bin_of(x[0], tables, table_at, size, arg), bin_of(x[1], tables, table_at, size, arg),
            bin_of(x[2], tables, table_at, size, arg), bin_of(x[3], tables, table_at, size, arg),
        )  # fmt: skip
    elif op == Op.IS_NULL and block == INT64:
        t = cells_at(i64, at, rows)
        acc = flag(t[0] == NAT), flag(t[1] == NAT), flag(t[2] == NAT), flag(t[3] == NAT)
    elif op == Op.IS_NULL:
        x = numbers_at(block, at, rows, f32, f64)
        acc = flag(x[0] != x[0]), flag(x[1] != x[1]), flag(x[2] != x[2]), flag(x[3] != x[3])
    elif op == Op.CLIP:
        acc = clip(acc[0], p0, p1), clip(acc[1], p0, p1), clip(acc[2], p0, p1), clip(acc[3], p0, p1)
    elif op == Op.LOG1P:
        acc = finite(log1p(acc[0])), finite(log1p(acc[1])), finite(log1p(acc[2])), finite(log1p(acc[3]))
    elif op == Op.STORE:
        store(stack, arg, lane, lanes, acc)
    elif op == Op.ADD:
        r = register(stack, arg, lane, lanes)
        acc = finite(r[0] + acc[0]), finite(r[1] + acc[1]), finite(r[2] + acc[2]), finite(r[3] + acc[3])
    elif op == Op.SUBTRACT:
        r = register(stack, arg, lane, lanes)
        acc = finite(r[0] - acc[0]), finite(r[1] - acc[1]), finite(r[2] - acc[2]), finite(r[3] - acc[3])
    elif op == Op.MULTIPLY:
        r = register(stack, arg, lane, lanes)
        acc = finite(r[0] * acc[0]), finite(r[1] * acc[1]), finite(r[2] * acc[2]), finite(r[3] * acc[3])
    elif op == Op.DIVIDE:
        r = register(stack, arg, lane, lanes)
        acc = finite(r[0] / acc[0]), finite(r[1] / acc[1]), finite(r[2] / acc[2]), finite(r[3] / acc[3])
    elif op == Op.PART:
        t = cells_at(i64, at, rows)
        acc = part_value(t[0], arg), part_value(t[1], arg), part_value(t[2], arg), part_value(t[3], arg)
    elif op == Op.ELAPSED:
        t = cells_at(i64, at, rows)
        a, b = wide[k, 0], wide[k, 1]
        acc = elapsed(t[0], a, b), elapsed(t[1], a, b), elapsed(t[2], a, b), elapsed(t[3], a, b)
    elif op == Op.BETWEEN:
        t, a = cells_at(i64, at, rows), wide[k, 0]
        u = cells_at(i64, uint64(arg) * steps[INT64], rows)
        acc = between(t[0], u[0], a), between(t[1], u[1], a), between(t[2], u[2], a), between(t[3], u[3], a)
    elif op == Op.SINE:
        p2 = scalars[k, 2]
        acc = wave(acc[0], p0, p1, p2), wave(acc[1], p0, p1, p2), wave(acc[2], p0, p1, p2), wave(acc[3], p0, p1, p2)
    elif op == Op.HAVERSINE or op == Op.BEARING:
        acc = travelled(op, stack, arg, lane, lanes, acc, p0, p1)
    elif op == Op.YEO_JOHNSON:
        acc = (
            finite(yeo_johnson(acc[0], p0)), finite(yeo_johnson(acc[1], p0)),
            finite(yeo_johnson(acc[2], p0)), finite(yeo_johnson(acc[3], p0)),
        )  # fmt: skip
    elif op == Op.CALL:
        acc = call(size, stack, arg, lane, lanes, acc)
    # Rounded already, but in the simulator, where a formula returns one of Python's numbers.
    return (float32(acc[0]), float32(acc[1]), float32(acc[2]), float32(acc[3])), ix
