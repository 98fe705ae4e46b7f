"""64 random bits per row, by Philox4x64-10: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).

Philox encrypts a counter, so no row depends on earlier draws. Rows 4 k to 4 k + 3 are the four words of counter k + 1
under the key (seed, stream), in the order of `numpy.random.Philox`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpupipe_kernels.draws import WORDS


def on_host(n_rows: int, seed: int, stream: int, start: int) -> Any:
    """Return the bits of rows `start` to ``start + n_rows - 1``: uint64, shape (n_rows,)."""
    key = np.array([seed, stream], np.uint64)
    bits = np.random.Philox(key=key, counter=start // WORDS)
    skipped = start % WORDS
    return bits.random_raw(skipped + n_rows)[skipped:]


def fill(out: Any, seed: int, stream: int, start: int) -> None:
    """Write the bits of the rows from `start` on to a host or device array.

    Raise ValueError if a device array is not contiguous.

    Parameters
    ----------
    out : array of uint64, shape (rows,), contiguous
    seed, stream : int
        0 to 2**64 - 1. The streams of a seed are independent.
    start : int
        0 to 2**62.
    """
    if isinstance(out, np.ndarray):
        out[:] = on_host(len(out), seed, stream, start)
    else:
        from gpupipe_kernels.draws.cuda.loops import fill_on_device

        fill_on_device(out, seed, stream, start)
