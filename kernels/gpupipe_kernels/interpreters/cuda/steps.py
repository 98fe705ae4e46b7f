"""Execution of one instruction on the device, for eight rows per thread at once.

Eight rows share the cost of decoding an instruction, and their reads are in flight together. Row j of a thread is
``first + j * stride``, so a position and a stride describe all eight. The accumulator and the index are tuples, which
are kept in registers. The stack is in shared memory, allocated only for programs that use one: dynamically indexed
variables would be in local memory, which is device memory.

Positions are unsigned, because a signed index would need a check for negative values, which count from the end.
"""

from __future__ import annotations

from numpy import float32, float64, int32, int64, uint32, uint64

from gpupipe_kernels.formulas.angle import wave
from gpupipe_kernels.formulas.calendar32 import part
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
    part_index,
    part_value,
)
from gpupipe_kernels.formulas.distance import bearing, course, distance
from gpupipe_kernels.formulas.logarithm import log1p
from gpupipe_kernels.formulas.power import yeo_johnson
from gpupipe_kernels.interpreters.cuda.opcodes import ARG, LUT, OP, ROW, SCALARS, SIZE, WIDE, DeviceOpcode
from gpupipe_kernels.launch import array_formula, formula
from gpupipe_kernels.program.opcodes import NAT

ROWS_A_THREAD = 8
NO_PART = -(2**31)


@array_formula
def cells(column, at, stride):
    """Return the cells of eight rows; `at` is the position of the first."""
    two = stride + stride
    four = two + two
    return (
        column[at],
        column[at + stride],
        column[at + two],
        column[at + two + stride],
        column[at + four],
        column[at + four + stride],
        column[at + four + two],
        column[at + four + two + stride],
    )


@array_formula
def column(block, row, first, stride):
    """Return the cells of eight rows of a column; `block` is an array and the step from one column to the next."""
    return cells(block[0], row * block[1] + first, stride)


@array_formula
def write(column, at, stride, x):
    """Write the cells of eight rows; `at` is the position of the first."""
    two = stride + stride
    four = two + two
    column[at], column[at + stride], column[at + two], column[at + two + stride] = x[0], x[1], x[2], x[3]
    column[at + four], column[at + four + stride] = x[4], x[5]
    column[at + four + two], column[at + four + two + stride] = x[6], x[7]


@array_formula
def each(function, x, *arguments):
    """Return ``function(x[j], *arguments)`` for eight rows."""
    return (
        function(x[0], *arguments),
        function(x[1], *arguments),
        function(x[2], *arguments),
        function(x[3], *arguments),
        function(x[4], *arguments),
        function(x[5], *arguments),
        function(x[6], *arguments),
        function(x[7], *arguments),
    )


@array_formula
def each_pair(function, x, y, *arguments):
    """Return ``function(x[j], y[j], *arguments)`` for eight rows."""
    return (
        function(x[0], y[0], *arguments),
        function(x[1], y[1], *arguments),
        function(x[2], y[2], *arguments),
        function(x[3], y[3], *arguments),
        function(x[4], y[4], *arguments),
        function(x[5], y[5], *arguments),
        function(x[6], y[6], *arguments),
        function(x[7], y[7], *arguments),
    )


@array_formula
def each_of_four(function, a, b, c, d, *arguments):
    """Return ``function(a[j], b[j], c[j], d[j], *arguments)`` for eight rows."""
    return (
        function(a[0], b[0], c[0], d[0], *arguments),
        function(a[1], b[1], c[1], d[1], *arguments),
        function(a[2], b[2], c[2], d[2], *arguments),
        function(a[3], b[3], c[3], d[3], *arguments),
        function(a[4], b[4], c[4], d[4], *arguments),
        function(a[5], b[5], c[5], d[5], *arguments),
        function(a[6], b[6], c[6], d[6], *arguments),
        function(a[7], b[7], c[7], d[7], *arguments),
    )


@array_formula
def zeros(kind):
    """Return eight zeros of a type."""
    return kind(0), kind(0), kind(0), kind(0), kind(0), kind(0), kind(0), kind(0)


@formula
def difference(x, y):
    """Return x - y, subtracted in their precision and rounded to float32."""
    return float32(x - y)


@formula
def is_equal(code, other):
    """Return 1 if two codes are equal, else 0."""
    return flag(int32(code) == other)


@formula
def is_nan(x):
    """Return 1 if a number is NaN, else 0."""
    return flag(x != x)


@formula
def is_nat(time):
    """Return 1 if a time is NAT, else 0."""
    return flag(time == NAT)


@formula
def widen(code):
    """Return a code as int32."""
    return int32(code)


@formula
def pair(index, code, size):
    """Return the index of a pair of codes, the second of which has `size` levels."""
    return int32(index * size + code)


@formula
def of_fold(index, fold, size):
    """Return an index into the table of a fold; tables have `size` entries."""
    return int32(index + fold * size)


@formula
def scale(x, factor, offset):
    """Return x * factor + offset, NaN if not finite."""
    return finite(x * factor + offset)


@formula
def finite_log1p(x):
    """Return log(1 + x), NaN if not finite."""
    return finite(log1p(x))


@formula
def finite_power(x, exponent):
    """Return the Yeo-Johnson power transformation, NaN if not finite."""
    return finite(yeo_johnson(x, exponent))


@formula
def add(x, y):
    """Return x + y, NaN if not finite."""
    return finite(x + y)


@formula
def subtract(x, y):
    """Return x - y, NaN if not finite."""
    return finite(x - y)


@formula
def multiply(x, y):
    """Return x * y, NaN if not finite."""
    return finite(x * y)


@formula
def divide(x, y):
    """Return x / y, NaN if not finite."""
    return finite(x / y)


@formula
def haversine(lat1, lon1, lat2, lon2, radius, origin):
    """Return the distance between two points, given in degrees with latitudes relative to `origin`."""
    north, east, inwards = course(lat1, lon1, lat2, lon2, origin)
    return distance(north, east, inwards, radius)


@formula
def initial_course(lat1, lon1, lat2, lon2, origin):
    """Return the initial course from one point to another, 0 to 360 degrees."""
    north, east, _ = course(lat1, lon1, lat2, lon2, origin)
    return bearing(north, east)


@array_formula
def table_entry(index, tables, at, size):
    """Return an entry of the lookup table that starts at `at`."""
    return tables[at + uint64(entry(index, size))]


@array_formula
def bin_index(x, tables, at, size, lowest):
    """Return the bin of a float32 number; the edges start at `at`."""
    return bin_of(x, tables, at, size, lowest)


@array_formula
def wide_bin_index(x, tables, at, size, lowest):
    """Return the bin of a float64 number; the edges start at `at`."""
    return int32(0) if x != x else int32(lowest + count_up_to(wide_entry, x, tables, at, size))


@array_formula
def local_part(time, index, tables, at, size, which, is_picked):
    """Return a calendar part in a time zone, `NO_PART` if the time or the zone is missing.

    The n transitions of the zone, and the n + 1 offsets between them, start at `at`; if `is_picked`, those of zone
    `index` are in the table of time zones there.
    """
    if is_picked:
        zone = entry(index, int32(time_entry(tables, at, int32(0))) - int32(1))
        first = int32(time_entry(tables, at, zone))
        size = int32(int32(time_entry(tables, at, int32(zone + int32(1)))) - first)
        at = at + uint64(2) * uint64(first)
    if time == NAT or size == int32(0):
        return int32(NO_PART)
    n = int32(size >> 1)
    return int32(part(time + time_entry(tables, at, n + count_up_to(time_entry, time, tables, at, n)), which))


@formula
def part_number(found):
    """Return a calendar part as a number, NaN if it is missing."""
    return NAN if found == NO_PART else float32(found)


@formula
def next_index(found):
    """Return 1 + a calendar part as an index, 0 if it is missing."""
    return int32(0) if found == NO_PART else int32(found + int32(1))


@array_formula
def count_up_to(entry, x, tables, at, size):
    """Return the number of entries up to x of an ascending table."""
    low, high = int32(0), int32(size)
    while low < high:
        middle = int32((low + high) >> int32(1))
        if entry(tables, at, middle) <= x:
            low = int32(middle + int32(1))
        else:
            high = middle
    return low


@array_formula
def wide_entry(tables, at, i):
    """Return entry `i` of the float64 table that starts at `at`, each in two words, the low word first."""
    word = at + uint64(2) * uint64(i)
    return joined(tables[word].view(int32), tables[word + uint64(1)].view(int32)).view(float64)


@array_formula
def time_entry(tables, at, i):
    """Return entry `i` of the int64 table that starts at `at`, as `wide_entry`."""
    word = at + uint64(2) * uint64(i)
    return joined(tables[word].view(int32), tables[word + uint64(1)].view(int32))


@array_formula
def joined(low, high):
    """Return the 64 bits of two words, int32, as int64."""
    return int64(int64(high) << int64(32) | int64(uint32(low)))


@array_formula
def number(table, line, i):
    """Return the float32 parameter `i` of the instruction that starts at `line`."""
    return table[line + uint64(SCALARS + i)].view(float32)


@array_formula
def wide(table, line, i):
    """Return the float64 parameter `i` of the instruction that starts at `line`."""
    return joined(table[line + uint64(WIDE + 2 * i)], table[line + uint64(WIDE + 2 * i + 1)]).view(float64)


@array_formula
def lut(table, line, moved):
    """Return the position of the lookup table of the instruction that starts at `line`."""
    return uint64(table[line + uint64(LUT)] + moved)


@array_formula
def register(stack, r, lane, lanes):
    """Return register `r` of the stack for the eight rows of a thread."""
    return cells(stack, uint64(ROWS_A_THREAD * r * lanes + lane), uint64(lanes))


@array_formula
def call(number, stack, r, lane, lanes, acc):
    """Placeholder for calls of user kernels; `loops.interpreters_for` replaces it."""
    return acc


@array_formula
def of_registers(op, r, first, second, stack, lane, lanes, acc):
    """Return the accumulators after an instruction on the stack other than `CALL`; `first`, `second` are parameters."""
    if op == DeviceOpcode.STORE:
        write(stack, uint64(ROWS_A_THREAD * r * lanes + lane), uint64(lanes), acc)
        return acc
    x = register(stack, r, lane, lanes)
    if op == DeviceOpcode.ADD:
        return each_pair(add, x, acc)
    if op == DeviceOpcode.SUBTRACT:
        return each_pair(subtract, x, acc)
    if op == DeviceOpcode.MULTIPLY:
        return each_pair(multiply, x, acc)
    if op == DeviceOpcode.DIVIDE:
        return each_pair(divide, x, acc)
    y, z = register(stack, r + 1, lane, lanes), register(stack, r + 2, lane, lanes)
    if op == DeviceOpcode.HAVERSINE:
        return each_of_four(haversine, x, y, z, acc, first, second)
    return each_of_four(initial_course, x, y, z, acc, second)


@array_formula
def execute(table, line, luts, moved, first, stride, has_fold, fold, stack, lane, lanes, acc, ix, blocks):
    """Return the accumulators and the indices of eight rows after instruction `k`.

    All threads of a block run the same instruction, so no branch divides them.

    Parameters
    ----------
    table : array of int32
        The instructions of `opcodes.device_table`, flattened.
    luts, moved : array of float32, int32
        Lookup tables, in shared or global memory, and their offset from the position in the instruction.
    first, stride : uint64
        The first row of the thread, and the step to the next one.
    has_fold, fold : bool, array of int8
        Whether rows read the table of their fold, and the folds.
    stack, lane, lanes : array of float32, int32, int32
        Shared memory: register r of this thread's row j is ``stack[(8 * r + j) * lanes + lane]``.
    acc, ix : tuples of eight float32 and eight int32
    blocks : tuple of (array, uint64)
        For each dtype, in the order of a kernel's parameters: the block, and the cells from one column to the next.
    """
    i8, i16, i32, f32, f64, i64 = blocks
    op = table[line + uint64(OP)]
    row, arg = uint64(uint32(table[line + uint64(ROW)])), table[line + uint64(ARG)]
    if op <= DeviceOpcode.TAKE:
        if op == DeviceOpcode.LOAD_FLOAT32:
            acc = each(difference, column(f32, row, first, stride), number(table, line, 0))
        elif op == DeviceOpcode.FILL:
            acc = each(fill, acc, number(table, line, 0))
        elif op == DeviceOpcode.SCALE:
            acc = each(scale, acc, number(table, line, 0), number(table, line, 1))
        elif op == DeviceOpcode.CLIP:
            acc = each(clip, acc, number(table, line, 0), number(table, line, 1))
        elif op == DeviceOpcode.EQUAL_INT8:
            acc = each(is_equal, column(i8, row, first, stride), arg)
        elif op == DeviceOpcode.INDEX_INT8:
            ix = each(widen, column(i8, row, first, stride))
        elif op == DeviceOpcode.TAKE:
            acc = each(table_entry, ix, luts, lut(table, line, moved), table[line + uint64(SIZE)])
    elif op <= DeviceOpcode.YEO_JOHNSON:
        if op == DeviceOpcode.EQUAL_INT16:
            acc = each(is_equal, column(i16, row, first, stride), arg)
        elif op == DeviceOpcode.EQUAL_INT32:
            acc = each(is_equal, column(i32, row, first, stride), arg)
        elif op == DeviceOpcode.IS_NULL_FLOAT32:
            acc = each(is_nan, column(f32, row, first, stride))
        elif op == DeviceOpcode.INDEX_INT16:
            ix = each(widen, column(i16, row, first, stride))
        elif op == DeviceOpcode.INDEX_INT32:
            ix = each(widen, column(i32, row, first, stride))
        elif op == DeviceOpcode.INDEX_PAIR_INT8:
            ix = each_pair(pair, ix, column(i8, row, first, stride), arg)
        elif op == DeviceOpcode.INDEX_PAIR_INT16:
            ix = each_pair(pair, ix, column(i16, row, first, stride), arg)
        elif op == DeviceOpcode.INDEX_PAIR_INT32:
            ix = each_pair(pair, ix, column(i32, row, first, stride), arg)
        elif op == DeviceOpcode.INDEX_BIN_FLOAT32:
            x = column(f32, row, first, stride)
            ix = each(bin_index, x, luts, lut(table, line, moved), table[line + uint64(SIZE)], arg)
        elif op == DeviceOpcode.INDEX_FOLD:
            if has_fold:
                ix = each_pair(of_fold, ix, cells(fold, first, stride), arg)
        elif op == DeviceOpcode.LOG1P:
            acc = each(finite_log1p, acc)
        elif op == DeviceOpcode.SINE:
            acc = each(wave, acc, number(table, line, 0), number(table, line, 1), number(table, line, 2))
        elif op == DeviceOpcode.YEO_JOHNSON:
            acc = each(finite_power, acc, number(table, line, 0))
    elif op == DeviceOpcode.CALL:
        acc = call(table[line + uint64(SIZE)], stack, arg, lane, lanes, acc)
    elif op < DeviceOpcode.CALL:
        acc = of_registers(op, arg, number(table, line, 0), number(table, line, 1), stack, lane, lanes, acc)
    elif op <= DeviceOpcode.INDEX_BIN_FLOAT64:
        y = column(f64, row, first, stride)
        if op == DeviceOpcode.LOAD_FLOAT64:
            acc = each(difference, y, wide(table, line, 0))
        elif op == DeviceOpcode.IS_NULL_FLOAT64:
            acc = each(is_nan, y)
        elif op == DeviceOpcode.INDEX_BIN_FLOAT64:
            ix = each(wide_bin_index, y, luts, lut(table, line, moved), table[line + uint64(SIZE)], arg)
    else:
        time = column(i64, row, first, stride)
        if op == DeviceOpcode.IS_NULL_INT64:
            acc = each(is_nat, time)
        elif op == DeviceOpcode.INDEX_PART:
            ix = each(part_index, time, arg, table[line + uint64(SIZE)])
        elif op == DeviceOpcode.PART:
            acc = each(part_value, time, arg)
        elif op == DeviceOpcode.ELAPSED:
            acc = each(elapsed, time, wide(table, line, 0), wide(table, line, 1))
        elif op == DeviceOpcode.BETWEEN:
            other = column(i64, uint64(uint32(arg)), first, stride)
            acc = each_pair(between, time, other, wide(table, line, 0))
        elif op >= DeviceOpcode.LOCAL_PART:
            at, is_picked = lut(table, line, moved), op >= DeviceOpcode.ZONED_PART
            found = each_pair(local_part, time, ix, luts, at, table[line + uint64(SIZE)], arg, is_picked)
            if op == DeviceOpcode.LOCAL_PART or op == DeviceOpcode.ZONED_PART:
                acc = each(part_number, found)
            else:
                ix = each(next_index, found)
    # Already float32, except in the simulator, where a formula returns a Python number.
    return each(float32, acc), ix
