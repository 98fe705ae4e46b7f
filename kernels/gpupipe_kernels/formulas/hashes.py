"""Hashes of level strings and of pairs of hashes: unsigned 32 bits, the same on every machine.

The hash of a string is the CRC-32 of its UTF-8 bytes, finalised by murmur3's 32-bit mixer (Austin Appleby, public
domain), which spreads the CRC's linear structure over all bits. Levels are hashed, not rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.typing import Array


@overload
def mix(h: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]: ...
@overload
def mix(h: Array) -> Array: ...
def mix(h: Array) -> Array:
    """Return `h` mixed by murmur3's finaliser, elementwise; uint32 arithmetic wraps."""
    h = h ^ (h >> np.uint32(16))
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h


def hash_strings(values: Sequence[str]) -> npt.NDArray[np.uint32]:
    """Return the hash of each string, shape (len(values),)."""
    crc = np.fromiter(map(zlib.crc32, map(str.encode, values)), np.uint32, len(values))
    return mix(crc)


def hash_pairs(left: npt.NDArray[np.uint32], right: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the hash of each (left, right) pair, shape (len(left), len(right)); order matters."""
    pairs: npt.NDArray[np.uint32] = left[:, None] * np.uint32(0x9E3779B1) + right[None, :]
    return mix(pairs)
