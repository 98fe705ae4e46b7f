"""Different codes of a key on the host: each thread takes whole keys, and has a table of where each code was seen last.

A key is one walk, mostly in the first-level cache, of about 4 ns an event; so one that owns half of the rows costs no
more than the other half, and more than two threads gain nothing from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.launch import host_walk
from gpupipe_kernels.threads import run_blocks

Array = npt.NDArray[Any]

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
    n, is_first = len(codes), np.empty(len(codes), bool)
    if codes.min(initial=0) < 0:
        raise ValueError(f"codes count from 0, got {codes.min()}")
    if codes.max(initial=0) > MOST_CODES_A_ROW * n:
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int32)
    cuts = start[np.searchsorted(start, np.linspace(0, n, n_threads + 1)[:-1])].astype(np.int64)
    last_seen = np.full((n_threads, int(codes.max(initial=-1)) + 1), -1, np.int32)
    given = codes, head, np.append(cuts, n), last_seen, is_first
    run_blocks(lambda a, b: first_of_codes_block(*given, a, b), n_threads, 1, n_threads)
    return is_first


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
