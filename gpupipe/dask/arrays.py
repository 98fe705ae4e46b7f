"""Dask arrays of the rows that workers hold, for libraries with their own Dask training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array

from gpupipe.dask.workers import DaskHandle
from gpupipe.partitions.workers import ResultHandle
from gpupipe.typing import Array


def to_dask_array(
    partitions: Sequence[ResultHandle[Array]], heights: Sequence[int], width: tuple[int, ...], meta: Array
) -> Any:
    """Return partitions as one Dask array; nothing is moved.

    Parameters
    ----------
    partitions : sequence of handles
        Of arrays of shape (height, *width).
    heights : sequence of int
        Rows of each; partitions without rows are dropped.
    width : tuple of int
    meta : array
        Empty, of the library and dtype of the partitions.
    """
    return dask.array.concatenate(
        [
            dask.array.from_delayed(partition.future, (height, *width), meta.dtype, meta)
            for partition, height in zip(partitions, heights, strict=True)
            if isinstance(partition, DaskHandle) and height
        ]
    )
