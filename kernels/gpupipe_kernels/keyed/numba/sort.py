"""Stable counting sorts on the host; each thread has its own rows and its own counts."""

from __future__ import annotations

import numpy as np

from gpupipe_kernels.launch import host_walk
from gpupipe_kernels.threads import run_blocks
from gpupipe_kernels.typing import Array

DIGIT_BITS = 16
NO_ORDER = np.empty(0, np.int32)


@host_walk
def _count(code, cuts, counts, start, stop):
    for part in range(start, stop):
        for i in range(cuts[part], cuts[part + 1]):
            if code[i] >= 0:
                counts[part, code[i]] += 1


@host_walk
def _scatter(code, order, cuts, next_place, out, start, stop):
    for part in range(start, stop):
        for i in range(cuts[part], cuts[part + 1]):
            if code[i] >= 0:
                at = next_place[part, code[i]]
                next_place[part, code[i]] = at + 1
                out[at] = order[i] if order.size else i


def by_code(code: Array, n_codes: int, n_threads: int, order: Array = NO_ORDER) -> tuple[Array, Array]:
    """Sort by code, stably.

    Parameters
    ----------
    code : ndarray of int32, shape (n,)
        Below `n_codes`; rows with a code below 0 are dropped.
    order : ndarray of int32, shape (n,), optional
        Values to sort instead of the row numbers.

    Returns
    -------
    order : ndarray of int32
    start : ndarray of int32, shape (n_codes + 1,)
        The start of each code in `order`.
    """
    # With more codes than rows per thread, the counts would be larger than the rows.
    n_parts = max(1, min(n_threads, len(code) // max(n_codes, 1)))
    cuts = np.linspace(0, len(code), n_parts + 1).astype(np.int64)
    counts = np.zeros((n_parts, n_codes), np.int32)
    run_blocks(lambda start, stop: _count(code, cuts, counts, start, stop), n_parts, 1, n_threads)
    ends = np.cumsum(counts.T.ravel(), dtype=np.int32).reshape(n_codes, n_parts).T
    start = np.zeros(n_codes + 1, np.int32)
    start[1:] = ends[-1]
    out, place = np.empty(start[-1], np.int32), np.ascontiguousarray(ends - counts)
    run_blocks(lambda start, stop: _scatter(code, order, cuts, place, out, start, stop), n_parts, 1, n_threads)
    return out, start


def by_time(time: Array, order: Array, n_threads: int) -> Array:
    """Return `order` sorted by time, stably: a radix sort with 16-bit digits, lowest first."""
    since_first = time[order].view(np.uint64) ^ np.uint64(1 << 63)  # the same order as unsigned integers
    since_first -= since_first.min(initial=np.uint64(2**64 - 1))
    for shift in range(0, int(since_first.max(initial=np.uint64(0))).bit_length(), DIGIT_BITS):
        digit = (since_first >> np.uint64(shift)).astype(np.uint16).astype(np.int32)
        place, _ = by_code(digit, 1 << DIGIT_BITS, n_threads)
        order, since_first = order[place], since_first[place]
    return order
