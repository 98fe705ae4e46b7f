"""Dask arrays of the rows that workers hold, for libraries with their own Dask training."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import dask.array
import numpy as np

from gpupipe.dask.workers import DaskHandle
from gpupipe.partitions.workers import ResultHandle
from gpupipe.typing import Array


def to_dask_array(
    partitions: Sequence[ResultHandle[Array]], heights: Sequence[int], width: tuple[int, ...], meta: Array
) -> Any:
    """Return partitions of shape (height, *width) as one Dask array; nothing is moved.

    `heights` are their numbers of rows; partitions without rows are dropped. `meta` is empty, of their library and
    dtype.
    """
    return dask.array.concatenate(
        [
            dask.array.from_delayed(partition.future, (height, *width), meta.dtype, meta)
            for partition, height in zip(partitions, heights, strict=True)
            if isinstance(partition, DaskHandle) and height
        ]
    )


def empty_array(device: str, n_dimensions: int, dtype: str) -> Array:
    """Return an array without elements, of the library of a device; of NumPy if CuPy is installed on workers only."""
    shape = (0,) * n_dimensions
    if device == "gpu" and find_spec("cupy") is not None:
        import cupy

        empty: Array = cupy.empty(shape, dtype)
        return empty
    return np.empty(shape, dtype)
