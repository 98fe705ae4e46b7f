"""Types of arrays and matrices. Importing this module loads no library."""

from __future__ import annotations

from typing import Protocol

from gpupipe_kernels.typing import Array, ArrayNamespace, DeviceArray, HostArray

__all__ = ["Array", "ArrayNamespace", "DeviceArray", "HostArray", "Matrix"]


class Matrix(Protocol):
    """Feature matrix, float32: one array, or an array in partitions."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and columns."""

    @property
    def nbytes(self) -> int:
        """Size of all rows in bytes."""
