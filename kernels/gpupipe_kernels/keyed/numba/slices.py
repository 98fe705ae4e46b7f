"""Slices of events for host threads, and running sums per key.

A key with more events than a slice is split at multiples of the slice size from its first event, so the rounding of a
key's results depends only on its own earlier events. Running sums take two passes: the first over slices whose last key
continues in the next slice, to compute their carry; the second over all slices, each starting from the carry of the
slices before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpupipe_kernels.keyed.formulas import share_at
from gpupipe_kernels.keyed.pairs import advance, term_at
from gpupipe_kernels.launch import host_walk
from gpupipe_kernels.threads import run_blocks
from gpupipe_kernels.typing import Array

SLICE_EVENTS = 65_536


@dataclass(frozen=True)
class EventSlices:
    """Slices of the events.

    Attributes
    ----------
    cuts : ndarray of int64, shape (slices + 1,)
        Slice c is ``cuts[c]:cuts[c + 1]``; it may be empty.
    first : ndarray of int64, shape (slices,)
        The slice in which the first key of slice c begins.
    """

    cuts: Array
    first: Array

    def run(self, walk: Callable[[Array, bool, int, int], None], n_threads: int) -> None:
        """Call ``walk(slices, is_last, start, stop)`` for ``slices[start:stop]``, in both passes."""
        every = np.arange(len(self.first))
        going_on = every[:-1][self.first[1:] < every[1:]]
        for some, is_last in ((going_on, False), (every, True)):
            run_blocks(partial(walk, some, is_last), len(some), 1, n_threads)


def slices_of(start: Array, size: int = SLICE_EVENTS) -> EventSlices:
    """Return slices of about `size` events, less than ``2 * size``, for keys that begin at `start`."""
    n = int(start[-1])
    nominal = np.arange(0, n, size, dtype=np.int64)
    key = np.searchsorted(start, nominal, side="right") - 1
    begin, end = start[key].astype(np.int64), start[key + 1]
    cuts = np.append(np.minimum(begin + -(-(nominal - begin) // size) * size, end), n)
    begins = start[np.searchsorted(start, cuts[:-1], side="right") - 1]
    return EventSlices(cuts, np.searchsorted(cuts, begins, side="right") - 1)


def running_sums(
    values: Array, time: Array, head: Array, slices: EventSlices, rate: float, squared: bool, n_threads: int
) -> tuple[Array, Array]:
    """Return the running sum per key up to each event, as pairs, whose differences are the sums of windows.

    Parameters
    ----------
    values : ndarray of float64, shape (n,) or (0,)
        If empty, every value is 1.
    time : ndarray of int64, shape (n,)
        Microseconds.
    head : ndarray of uint8, shape (n,)
        1 for the first event of each key.
    rate : float
        Half-lives per microsecond; 0 for no decay.
    squared : bool
        Whether to sum the squares.
    """
    hi = np.empty(len(time))
    lo = np.empty(len(time))
    left = np.zeros((len(slices.first), 3))
    given = (values, time, head, rate, squared, slices.cuts, slices.first, left, hi, lo)
    slices.run(partial(running_sums_block, *given), n_threads)
    return hi, lo


@host_walk
def running_sums_block(values, time, head, rate, squared, cuts, first, left, hi, lo, slices, is_last, start, stop):
    """Process some slices; ``left[c]`` is the sum that slice c adds to its last key, and the share that remains."""
    for c in slices[start:stop]:
        s = 0.0
        s_lo = 0.0
        share = 1.0
        for part in range(first[c] if is_last else c, c):
            s, s_lo = advance(left[part, 2], s, s_lo, left[part, 0], left[part, 1])
        for i in range(cuts[c], cuts[c + 1]):
            kept = share_at(i, time, head, rate)
            x, x_lo = term_at(i, values, squared)
            s, s_lo = advance(kept, s, s_lo, x, x_lo)
            share *= kept
            hi[i], lo[i] = s, s_lo
        if not is_last:
            left[c, 0] = s
            left[c, 1] = s_lo
            left[c, 2] = share
