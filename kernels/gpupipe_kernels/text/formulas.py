"""Scalar formulas on texts: code points, MurmurHash3 a byte at a time, buckets."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpupipe_kernels.launch import formula
from gpupipe_kernels.text.characters import LAST_CODE_POINT
from gpupipe_kernels.text.numpy.grams import GramValue

BINARY = int(GramValue.BINARY)


@formula
def code_point(lead: Any, second: Any, third: Any, fourth: Any) -> Any:
    """Return the code point of a character from its first byte and the three bytes behind that; at most the last."""
    if lead < 0xE0:
        code = (lead & 0x1F) << 6 | second & 0x3F
    elif lead < 0xF0:
        code = (lead & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F
    else:
        code = (lead & 0x07) << 18 | (second & 0x3F) << 12 | (third & 0x3F) << 6 | fourth & 0x3F
    return min(code, LAST_CODE_POINT)


@formula
def scramble(k: Any) -> Any:
    """Return a block of four bytes as MurmurHash3 mixes it in."""
    k = np.uint32(k * np.uint32(0xCC9E2D51))
    k = np.uint32(np.uint32(k << np.uint32(15)) | (k >> np.uint32(17)))
    return np.uint32(k * np.uint32(0x1B873593))


@formula
def absorb(h: Any, k: Any, n: Any, byte: Any) -> Any:
    """Return (hash, open block) of MurmurHash3 after one more byte; `n` bytes have come before it."""
    k = np.uint32(k | np.uint32(np.uint32(byte) << np.uint32(8 * (n & 3))))
    if n & 3 == 3:
        h = np.uint32(h ^ scramble(k))
        h = np.uint32(np.uint32(h << np.uint32(13)) | (h >> np.uint32(19)))
        h = np.uint32(np.uint32(h * np.uint32(5)) + np.uint32(0xE6546B64))
        k = np.uint32(0)
    return h, k


@formula
def finish(h: Any, k: Any, n: Any) -> Any:
    """Return the hash of the `n` bytes that were absorbed, uint32; more can still be absorbed."""
    h = np.uint32(np.uint32(h ^ scramble(k)) ^ np.uint32(n))
    h = np.uint32(np.uint32(h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


@formula
def bucket(h: Any, n_buckets: Any) -> Any:
    """Return the bucket of a hash: its magnitude as a signed number, modulo their number."""
    magnitude = np.uint32(~h + np.uint32(1)) if h >> np.uint32(31) else np.uint32(h)
    return np.int64(magnitude % np.uint32(n_buckets))


@formula
def counted(old: Any, h: Any, signed: Any, value: Any) -> Any:
    """Return the value of a bucket after one more n-gram of hash `h`."""
    if value == BINARY:
        return np.float32(1.0)
    return old - np.float32(1.0) if signed and h >> np.uint32(31) else old + np.float32(1.0)
