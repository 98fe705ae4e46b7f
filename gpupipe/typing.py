"""Types of arrays and frames. Importing this loads no library."""

from __future__ import annotations

from typing import Protocol

from gpupipe_kernels.typing import Array, ArrayNamespace, DeviceArray, HostArray

__all__ = ["Array", "ArrayNamespace", "DeviceArray", "HostArray", "Matrix"]


class Matrix(Protocol):
    """A feature matrix, float32: an array, or one in partitions."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
