"""What runs along the events of a key on the host: running sums, and the first appearance of codes.

Events are cut into pieces for threads. A key with more events than a piece is cut too, at multiples of the piece's size
from its own first event, so what is rounded for one key depends on nothing but its own earlier events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.keyed.formulas import advance, elapsed, faded, share_at, term_at
from gpupipe_kernels.launch import array_formula, host_walk
from gpupipe_kernels.threads import run_blocks

Array = npt.NDArray[Any]

PIECE = 65_536
MOST_CODES_A_ROW = 4  # codes that are further apart are numbered anew: each thread has a table of them


def pieces(start: Array, size: int = PIECE) -> Array:
    """Return cuts of the events, shape (pieces + 1,), int64: at first events of keys, and inside of longer keys.

    A piece may be empty, and holds less than twice `size`.
    """
    n = int(start[-1])
    nominal = np.arange(0, n, size, dtype=np.int64)
    key = np.searchsorted(start, nominal, side="right") - 1
    begin, end = start[key].astype(np.int64), start[key + 1]
    return np.append(np.minimum(begin + -(-(nominal - begin) // size) * size, end), n)


def running_sums(
    values: Array, time: Array, head: Array, cuts: Array, rate: float, squared: bool, n_threads: int
) -> tuple[Array, Array]:
    """Return the sum up to each event of its key, as pairs.

    Parameters
    ----------
    values : ndarray of float64, shape (n,) or (0,)
        Without values, every one is 1.
    time : ndarray of int64, shape (n,)
        Microseconds.
    head : ndarray of uint8, shape (n,)
        Whether an event is the first of its key.
    cuts : ndarray of int64
        See `pieces`.
    rate : float
        Half-lives a microsecond; with 0 nothing fades.
    squared : bool
        Whether the squares are summed.
    n_threads : int
    """
    n_pieces = len(cuts) - 1
    hi, lo, before = np.empty(len(time)), np.empty(len(time)), np.zeros((n_pieces + 1, 2))
    given = (values, time, head, cuts, rate, squared, hi, lo, before)
    run_blocks(lambda start, stop: _inner_pieces(*given, start, stop), n_pieces - 1, 1, n_threads)
    _join_pieces(time, head, cuts, rate, before)
    run_blocks(lambda start, stop: _all_pieces(*given, start, stop), n_pieces, 1, n_threads)
    return hi, lo


@array_formula
def _walk(
    values: Array, time: Array, head: Array, rate: float, squared: bool, hi: Array, lo: Array, begin: int, end: int,
    s: float, s_lo: float,
) -> None:  # fmt: skip
    """Write the running sums of ``begin:end``; `s` is the one before it."""
    for i in range(begin, end):
        x, x_lo = term_at(i, values, squared)
        s, s_lo = advance(share_at(i, time, head, rate), s, s_lo, x, x_lo)
        hi[i], lo[i] = s, s_lo


@host_walk
def _inner_pieces(
    values: Array, time: Array, head: Array, cuts: Array, rate: float, squared: bool, hi: Array, lo: Array,
    before: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Write to ``before[c + 1]`` what piece c leaves to the next one of its key, of its own events."""
    for c in range(start, stop):
        end = cuts[c + 1]
        if cuts[c] < end and head[end] == 0:
            begin = end - 1
            while begin > cuts[c] and head[begin] == 0:
                begin -= 1
            _walk(values, time, head, rate, squared, hi, lo, begin, end, 0.0, 0.0)
            before[c + 1, 0], before[c + 1, 1] = hi[end - 1], lo[end - 1]


@host_walk
def _join_pieces(time: Array, head: Array, cuts: Array, rate: float, before: Array) -> None:
    """Add what the pieces before leave: ``before[c]`` is then the running sum before piece c."""
    for c in range(1, cuts.size - 2):
        end = cuts[c + 1]
        if cuts[c] < end and head[cuts[c]] == 0 and head[end] == 0:
            share = faded(elapsed(time[end - 1], time[cuts[c] - 1]), rate)
            s, s_lo = advance(share, before[c, 0], before[c, 1], before[c + 1, 0], before[c + 1, 1])
            before[c + 1, 0], before[c + 1, 1] = s, s_lo


@host_walk
def _all_pieces(
    values: Array, time: Array, head: Array, cuts: Array, rate: float, squared: bool, hi: Array, lo: Array,
    before: Array, start: int, stop: int,
) -> None:  # fmt: skip
    for c in range(start, stop):
        _walk(values, time, head, rate, squared, hi, lo, cuts[c], cuts[c + 1], before[c, 0], before[c, 1])


def first_of_codes(codes: Array, start: Array, head: Array, n_threads: int) -> npt.NDArray[np.bool_]:
    """Return which events have a code that their key has not had before.

    Parameters
    ----------
    codes : ndarray of int32, shape (n,)
        From 0.
    start : ndarray of int32, shape (keys + 1,)
    head : ndarray of uint8, shape (n,)
    n_threads : int
        Each thread takes whole keys: a key is one walk in the first-level cache, a few ns an event.

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
    cuts = start[np.searchsorted(start, np.linspace(0, n, n_threads + 1)[:-1])]
    cuts, last_seen = np.append(cuts, n), np.full((n_threads, int(codes.max(initial=-1)) + 1), -1, np.int32)
    run_blocks(lambda a, b: _first_of_codes(codes, head, cuts, last_seen, is_first, a, b), n_threads, 1, n_threads)
    return is_first


@host_walk
def _first_of_codes(
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
