"""Running sums along the events of a key, kept as pairs: what windows and cut-offs take differences of."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpupipe_kernels.keyed.formulas import share_at
from gpupipe_kernels.keyed.numba.slices import EventSlices
from gpupipe_kernels.keyed.pairs import advance, term_at
from gpupipe_kernels.launch import host_walk
from gpupipe_kernels.typing import Array


def running_sums(
    values: Array, time: Array, head: Array, slices: EventSlices, rate: float, squared: bool, n_threads: int
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
    slices : EventSlices
    rate : float
        Half-lives a microsecond; with 0 nothing fades.
    squared : bool
        Whether the squares are summed.
    n_threads : int
    """
    hi, lo, left = np.empty(len(time)), np.empty(len(time)), np.zeros((len(slices.first), 3))
    given = (values, time, head, rate, squared, slices.cuts, slices.first, left, hi, lo)
    slices.run(partial(running_sums_block, *given), n_threads)
    return hi, lo


@host_walk
def running_sums_block(
    values: Array, time: Array, head: Array, rate: float, squared: bool, cuts: Array,
    first: Array, left: Array,
    hi: Array, lo: Array, slices: Array, is_last: bool, start: int, stop: int,
) -> None:  # fmt: skip
    """Walk along some slices; ``left[c]`` is what slice c adds to the sum of its last key, and the share it keeps."""
    for c in slices[start:stop]:
        s, s_lo, share = 0.0, 0.0, 1.0
        for part in range(first[c] if is_last else c, c):
            s, s_lo = advance(left[part, 2], s, s_lo, left[part, 0], left[part, 1])
        for i in range(cuts[c], cuts[c + 1]):
            kept = share_at(i, time, head, rate)
            x, x_lo = term_at(i, values, squared)
            s, s_lo = advance(kept, s, s_lo, x, x_lo)
            share *= kept
            hi[i], lo[i] = s, s_lo
        if not is_last:
            left[c, 0], left[c, 1], left[c, 2] = s, s_lo, share
