"""64 random bits for each row, by Philox4x64-10: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).

It is a block cipher of a counter: no row depends on what was drawn before. Rows 4 k to 4 k + 3 are the four words of
counter k + 1 under the key (seed, stream), which is the order of `numpy.random.Philox`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WORDS = 4  # of a counter


def on_host(n_rows: int, seed: int, stream: int, start: int) -> Any:
    """Return the bits of rows `start` to ``start + n_rows - 1``: uint64, shape (n_rows,)."""
    key = np.array([seed, stream], np.uint64)
    bits = np.random.Philox(key=key, counter=start // WORDS)
    skipped = start % WORDS
    return bits.random_raw(skipped + n_rows)[skipped:]
