"""Different codes of a key on the host: each thread takes whole keys, and has a table of where each code was seen last.

A key is one walk, mostly in the first-level cache, of about 4 ns an event; so one that owns half of the rows costs no
more than the other half, and more than two threads gain nothing from it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.launch import host_walk
from gpupipe_kernels.threads import run_blocks
from gpupipe_kernels.typing import Array

MOST_CODES_A_ROW = 4  # codes that are further apart are numbered anew: each thread has a table of them


def first_of_codes(codes: Array, start: Array, head: Array, n_threads: int) -> npt.NDArray[np.bool_]:
    """Return which events have a code that their key has not had before.

    Parameters
    ----------
    codes : ndarray of int32, shape (n,)
        From 0.
    start : ndarray of int32, shape (keys + 1,)
    head : ndarray of uint8, shape (n,)
        Whether an event is the first of its key.
    n_threads : int

    Raises
    ------
    ValueError
        If a code is below 0.
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
    """Write how many different codes each event sees that stands before it, or up to itself.

    Parameters
    ----------
    codes, start, head, n_threads
        As for `first_of_codes`, which it raises the same as.
    keep : ndarray of bool, shape (n,) or (0,)
        Which codes are not null; empty for all.
    row : ndarray of int32, shape (n,)
        Where in `out` the result of each event belongs.
    includes_current : bool
    out : ndarray of float32
    """
    codes, cuts, last_seen = _tables(codes, start, n_threads)
    given = codes, keep, head, row, includes_current, cuts, last_seen, out
    run_blocks(partial(count_codes_block, *given), n_threads, 1, n_threads)


def _tables(codes: Array, start: Array, n_threads: int) -> tuple[Array, Array, Array]:
    """Return codes that are not far apart, cuts of the events for each thread, and its table of codes."""
    n = len(codes)
    if codes.min(initial=0) < 0:
        raise ValueError(f"codes count from 0, got {codes.min()}")
    if codes.max(initial=0) > MOST_CODES_A_ROW * n:
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int32)
    cuts = start[np.searchsorted(start, np.linspace(0, n, n_threads + 1)[:-1])].astype(np.int64)
    return codes, np.append(cuts, n), np.full((n_threads, int(codes.max(initial=-1)) + 1), -1, np.int32)


@host_walk
def first_of_codes_block(
    codes: Array, head: Array, cuts: Array, last_seen: Array, is_first: Array, start: int, stop: int
) -> None:
    """Flag first appearances; ``last_seen[c]`` of a code is where the last key that had it begins."""
    for c in range(start, stop):
        key = np.int32(-1)
        for i in range(cuts[c], cuts[c + 1]):
            if head[i]:
                key = np.int32(i)
            is_first[i] = last_seen[c, codes[i]] != key
            last_seen[c, codes[i]] = key


@host_walk
def count_codes_block(
    codes: Array, keep: Array, head: Array, row: Array, includes_current: bool, cuts: Array,
    last_seen: Array,
    out: Array, start: int, stop: int,
) -> None:  # fmt: skip
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
