"""MurmurHash3 of many slices of a byte array, vectorised in NumPy.

The 32-bit x86 variant with seed 0 (Austin Appleby, public domain), as in scikit-learn's `HashingVectorizer`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.formulas.hashes import mix
from gpupipe_kernels.typing import HostArray

Hashes = npt.NDArray[np.uint32]

REST = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)  # masks of the last 0..3 bytes of a word


def murmur3(data: HostArray, starts: HostArray, stops: HostArray) -> Hashes:
    """Return the hash of each slice ``data[start:stop]``.

    Parameters
    ----------
    data : ndarray of uint8, shape (bytes,)
    starts, stops : ndarray of int64, shape (slices,)

    Returns
    -------
    ndarray of uint32, shape (slices,)
    """
    padded = np.concatenate([data, np.zeros(4, np.uint8)]).astype("<u4")
    words = (
        padded[:-3] | padded[1:-2] << 8 | padded[2:-1] << 16 | padded[3:] << 24
    )  # the four bytes from each position on
    lengths = stops - starts
    hashes = np.zeros(len(starts), np.uint32)
    long = np.flatnonzero(lengths >= 4)
    for at in range(0, int(lengths.max(initial=0)) - 3, 4):
        long = long[lengths[long] >= at + 4]
        h = hashes[long] ^ _scramble(words[starts[long] + at])
        hashes[long] = (h << 13 | h >> 19) * np.uint32(5) + np.uint32(0xE6546B64)
    rest = lengths & 3
    hashes ^= _scramble(words[stops - rest] & REST[rest])
    hashes ^= lengths.astype(np.uint32)
    return mix(hashes)


def _scramble(k: Hashes) -> HostArray:
    k = k * np.uint32(0xCC9E2D51)
    return (k << 15 | k >> 17) * np.uint32(0x1B873593)
