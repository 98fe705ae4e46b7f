"""Distinct codes per key on the host. Each thread processes whole keys, with a table of each code's last occurrence.

A key is one sequential pass, mostly in the L1 cache, at about 4 ns per event. A key with half of the rows therefore
takes as long as the other half, and limits the useful number of threads to two.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.launch import host_walk
from gpupipe_kernels.threads import run_blocks
from gpupipe_kernels.typing import Array

MOST_CODES_A_ROW = 4  # sparser codes are renumbered, because each thread has a table of them


def first_of_codes(codes: Array, start: Array, head: Array, n_threads: int) -> npt.NDArray[np.bool_]:
    """Return flags of the first occurrences of each code within its key.

    Raise ValueError if a code is below 0.

    Parameters
    ----------
    codes : ndarray of int32, shape (n,)
        From 0.
    start : ndarray of int32, shape (keys + 1,)
    head : ndarray of uint8, shape (n,)
        1 for the first event of each key.
    """
    codes, cuts, last_seen = _tables(codes, start, n_threads)
    is_first = np.empty(len(codes), bool)
    run_blocks(partial(first_of_codes_block, codes, head, cuts, last_seen, is_first), n_threads, 1, n_threads)
    return is_first


def count_codes(
    codes: Array,
    keep: Array,
    start: Array,
    head: Array,
    row: Any,
    includes_current: bool,
    out: Array,
    n_threads: int,
) -> None:
    """Write the number of distinct codes of a key's events before each event, or up to and including it.

    Parameters
    ----------
    codes, start, head, n_threads
        As for `first_of_codes`; raises the same errors.
    keep : ndarray of bool, shape (n,) or (0,)
        Flags of the codes that are not null; empty if there is no null.
    row : ndarray of int32, shape (n,)
        The position of each event's result in `out`.
    out : ndarray of float32
    """
    codes, cuts, last_seen = _tables(codes, start, n_threads)
    given = codes, keep, head, row, includes_current, cuts, last_seen, out
    run_blocks(partial(count_codes_block, *given), n_threads, 1, n_threads)


def _tables(codes: Array, start: Array, n_threads: int) -> tuple[Array, Array, Array]:
    """Return dense codes, the cuts of the events between threads, and each thread's table of codes."""
    n = len(codes)
    if codes.min(initial=0) < 0:
        raise ValueError(f"expected codes from 0, got {codes.min()}")
    if codes.max(initial=0) > MOST_CODES_A_ROW * n:
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int32)
    cuts = start[np.searchsorted(start, np.linspace(0, n, n_threads + 1)[:-1])].astype(np.int64)
    return codes, np.append(cuts, n), np.full((n_threads, int(codes.max(initial=-1)) + 1), -1, np.int32)


@host_walk
def first_of_codes_block(codes, head, cuts, last_seen, is_first, start, stop):
    """Flag first occurrences; ``last_seen[c]`` is the start of the last key that contained code c."""
    for c in range(start, stop):
        key = np.int32(-1)
        for i in range(cuts[c], cuts[c + 1]):
            if head[i]:
                key = np.int32(i)
            is_first[i] = last_seen[c, codes[i]] != key
            last_seen[c, codes[i]] = key


@host_walk
def count_codes_block(codes, keep, head, row, includes_current, cuts, last_seen, out, start, stop):
    for c in range(start, stop):
        key, n = np.int32(-1), 0
        for i in range(cuts[c], cuts[c + 1]):
            if head[i]:
                key, n = np.int32(i), 0
            before = n
            if keep.size == 0 or keep[i]:
                n += last_seen[c, codes[i]] != key
                last_seen[c, codes[i]] = key
            out[row[i]] = n if includes_current else before
