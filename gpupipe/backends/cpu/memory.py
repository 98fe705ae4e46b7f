"""Allocation of aligned host memory, which every library accepts without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal

import numpy as np

ALIGNMENT = 64  # bytes: a cache line, and JAX's requirement for zero-copy memory


def empty(shape: Sequence[int], dtype: Any, order: Literal["C", "F"] = "C") -> np.ndarray:
    """Return an uninitialised array whose address is a multiple of `ALIGNMENT` bytes.

    NumPy starts large arrays 16 bytes after such an address; it requests huge pages by itself.
    """
    kind = np.dtype(dtype)
    raw = np.empty(prod(shape) * kind.itemsize + ALIGNMENT, "uint8")
    return np.ndarray(tuple(shape), kind, raw, -raw.ctypes.data % ALIGNMENT, order=order)


def copy_of(array: np.ndarray, order: Literal["C", "F"] | None = None) -> np.ndarray:
    """Return a contiguous, aligned copy in native byte order.

    Without `order`, it is row-major or column-major, whichever is closer to `array`.
    """
    if order is None:
        steps = [abs(step) for step in array.strides]
        order = "F" if array.ndim > 1 and steps[0] < steps[-1] else "C"
    out = empty(array.shape, array.dtype.newbyteorder("="), order)
    out[...] = array
    return out
