"""Preparation of events on the device: elementwise loops, minimum trees, and first occurrences.

First occurrences are found by a hash table with open addressing, filled by atomic operations. Its final contents, the
first position of each value, do not depend on the order of the threads.
"""

from __future__ import annotations

from numba import float32, int32, int64

from gpupipe_kernels.device.language import cuda
from gpupipe_kernels.device.parameters import F32, F64, I32, I64, U8
from gpupipe_kernels.keyed.formulas import elapsed, first_after
from gpupipe_kernels.keyed.numpy.events import LARGEST
from gpupipe_kernels.launch import DeviceLoop, formula

EMPTY = -1  # as the bits of a float64, a NaN, so never a value of a table
NOBODY = 2**31 - 1


@formula
def slot_of(value, mask):
    """Return the first slot to probe for a value in a table of ``mask + 1`` slots; products stay below 2 ** 63."""
    high, low = (value >> 32) & 0x7FFFFFFF, value & 0x7FFFFFFF
    mixed = (high * 0x9E3779B1) ^ (low * 0x85EBCA6B)
    return (mixed ^ (mixed >> 29)) & mask


def _keyed_fill(value, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = value


def _keyed_take(array, index, out):
    for i in range(cuda.grid(1), index.size, cuda.gridsize(1)):
        out[i] = array[index[i]]


def _keyed_compact(array, keep, rank, out):
    for i in range(cuda.grid(1), keep.size, cuda.gridsize(1)):
        if keep[i]:
            out[rank[i]] = array[i]


def _keyed_positions(keep, rank, out):
    for i in range(cuda.grid(1), keep.size, cuda.gridsize(1)):
        if keep[i]:
            out[rank[i]] = i


def _keyed_starts(key, start):
    """Write the start of each key among sorted events; each thread writes the keys that end before its event."""
    n_keys = start.size - 1
    for i in range(cuda.grid(1), key.size + 1, cuda.gridsize(1)):
        first = max(key[i - 1] + 1, 0) if i > 0 else 0
        last = min(key[i], n_keys) if i < key.size else n_keys
        for k in range(first, last + 1):
            start[k] = i


def _keyed_heads(start, head):
    for k in range(cuda.grid(1), start.size - 1, cuda.gridsize(1)):
        if start[k] < start[k + 1]:
            head[start[k]] = 1


def _keyed_of_events(start, include_current, low, high):
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        low[i] = start[first_after(start, 0, start.size, i) - 1]
        high[i] = i + include_current


def _keyed_last_rows(low, high, n, out):
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        out[i] = max(low[i], high[i] - n)


def _keyed_numbers(values, out):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        out[i] = values[i] + 0.0  # -0.0 becomes 0.0, so that equal values have equal bits


def _keyed_known_numbers(values, keep):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        keep[i] = values[i] == values[i]


def _keyed_known_codes(codes, null, keep):
    for i in range(cuda.grid(1), codes.size, cuda.gridsize(1)):
        keep[i] = codes[i] != null


def _keyed_beyond(values, sign, flags):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        flags[i] = sign * values[i] > LARGEST


def _keyed_session_begins(time, head, gap, begins):
    for i in range(cuda.grid(1), time.size, cuda.gridsize(1)):
        begins[i] = head[i] or elapsed(time[i], time[i - 1]) > gap


def _keyed_leaves(values, sign, tree):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        tree[values.size + i] = float32(sign * values[i])


def _keyed_branches(tree, first, end):
    for i in range(first + cuda.grid(1), end, cuda.gridsize(1)):
        tree[i] = min(tree[2 * i], tree[2 * i + 1])


def _keyed_pairs(start, codes, out):
    """Write the key and code of each event as one integer; the start of the key represents the key."""
    for i in range(cuda.grid(1), codes.size, cuda.gridsize(1)):
        key = int64(start[first_after(start, 0, start.size, i) - 1])
        out[i] = (key << 32) | (int64(codes[i]) & 0xFFFFFFFF)  # with more than 2**31 slots a code is negative


def _keyed_insert(values, table, first, slots):
    """Insert values into an empty hash table; write the slot of each value, and the first position per slot."""
    mask = table.size - 1
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = slot_of(values[i], mask)
        found = cuda.atomic.cas(table, slot, EMPTY, values[i])
        while found != EMPTY and found != values[i]:
            slot = (slot + 1) & mask
            found = cuda.atomic.cas(table, slot, EMPTY, values[i])
        slots[i] = slot
        cuda.atomic.min(first, slot, int32(i))


def _keyed_is_first(first, slots, flags):
    for i in range(cuda.grid(1), slots.size, cuda.gridsize(1)):
        flags[i] = first[slots[i]] == i


VALUES = ("int32", "int64", "float64")

fill = DeviceLoop(_keyed_fill, "T", "T[::1]", types=("float32", "int32", "int64", "uint8"))
take = DeviceLoop(_keyed_take, "T[::1]", I32, "T[::1]", types=VALUES)
compact = DeviceLoop(_keyed_compact, "T[::1]", U8, I32, "T[::1]", types=VALUES)
positions = DeviceLoop(_keyed_positions, U8, I32, I32)
starts = DeviceLoop(_keyed_starts, I32, I32)
heads = DeviceLoop(_keyed_heads, I32, U8)
of_events = DeviceLoop(_keyed_of_events, I32, "int64", I32, I32)
last_rows = DeviceLoop(_keyed_last_rows, I32, I32, "int64", I32)
numbers = DeviceLoop(_keyed_numbers, "T[::1]", F64, types=("float32", "float64"))
known_numbers = DeviceLoop(_keyed_known_numbers, F64, U8)
known_codes = DeviceLoop(_keyed_known_codes, I32, "int64", U8)
beyond = DeviceLoop(_keyed_beyond, F64, "float64", U8)
session_begins = DeviceLoop(_keyed_session_begins, I64, U8, "int64", U8)
leaves = DeviceLoop(_keyed_leaves, F64, "float64", F32)
branches = DeviceLoop(_keyed_branches, F32, "int64", "int64")
pairs = DeviceLoop(_keyed_pairs, I32, I32, I64)
insert = DeviceLoop(_keyed_insert, I64, I64, I32, I32)
is_first = DeviceLoop(_keyed_is_first, I32, I32, U8)
