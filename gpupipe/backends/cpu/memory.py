"""New memory of the host that every library takes as it is."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal

import numpy as np

ALIGNMENT = 64  # bytes: a line of the cache, and what JAX demands of memory that it is not to copy


def empty(shape: Sequence[int], dtype: Any, order: Literal["C", "F"] = "C") -> np.ndarray:
    """Return an uninitialised array whose first element lies at a multiple of `ALIGNMENT` bytes.

    NumPy alone begins 16 bytes after one where arrays are large, and asks for huge pages by itself.
    """
    kind = np.dtype(dtype)
    raw = np.empty(prod(shape) * kind.itemsize + ALIGNMENT, "uint8")
    return np.ndarray(tuple(shape), kind, raw, -raw.ctypes.data % ALIGNMENT, order=order)


def copy_of(array: np.ndarray, order: Literal["C", "F"] | None = None) -> np.ndarray:
    """Return a copy in such memory, without gaps, in the machine's byte order.

    Parameters
    ----------
    array : numpy.ndarray
    order : {"C", "F"}, optional
        Row-major or column-major; None: the one that `array` is nearer to.
    """
    if order is None:
        steps = [abs(step) for step in array.strides]
        order = "F" if array.ndim > 1 and steps[0] < steps[-1] else "C"
    out = empty(array.shape, array.dtype.newbyteorder("="), order)
    out[...] = array
    return out
