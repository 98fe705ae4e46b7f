"""Arrays in device memory: CuPy's, or those of Numba's simulator.

Kernels run on the default stream, whatever CuPy's current stream is, so these functions use it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpupipe_kernels.device.language import is_simulated
from gpupipe_kernels.typing import HostArray


def empty(shape: Any, dtype: Any, order: Literal["C", "F"] = "C") -> Any:
    """Return an uninitialised device array."""
    if is_simulated():
        from numba import cuda

        return cuda.device_array(shape, np.dtype(dtype), order=order)
    import cupy

    with cupy.cuda.Stream.null:
        return cupy.empty(shape, dtype, order)


def upload(array: Any) -> Any:
    """Return a host array as a device array."""
    if is_simulated():
        from numba import cuda

        return cuda.to_device(array)
    import cupy

    with cupy.cuda.Stream.null:
        return cupy.asarray(array)


def download(array: Any) -> HostArray:
    """Return a device array as a host array, after the kernels that write it."""
    if is_simulated():
        host: HostArray = array.copy_to_host()
        return host
    import cupy

    with cupy.cuda.Stream.null:
        found: HostArray = cupy.asnumpy(array, order="A")
        return found


def item(array: Any, index: int) -> int:
    """Return an element of a device array of integers, after the kernels that write it."""
    if is_simulated():
        return int(array[index])
    import cupy

    with cupy.cuda.Stream.null:
        return int(array[index])


def adopt(array: Any) -> Any:
    """Return a device array of any library as CuPy's, on the same memory."""
    if is_simulated() or type(array).__module__.startswith("cupy"):
        return array
    import cupy

    return cupy.asarray(array)


@dataclass(frozen=True)
class DeviceCells:
    """The memory of a device array from its first element on, as an array of one axis.

    Attributes
    ----------
    array : device array
        Kept alive.
    """

    array: Any
    address: int
    dtype: Any
    size: int

    ndim = 1
    strides = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, ``(size,)``."""
        return (self.size,)


def cells(array: Any, size: int) -> Any:
    """Return the first `size` cells of an array's memory, including those between its rows or columns."""
    if is_simulated():  # its arrays wrap NumPy arrays
        return type(array)(as_strided(array._ary, (size,), (array.dtype.itemsize,)))
    if type(array).__module__.startswith("cupy"):
        return DeviceCells(array, array.data.ptr, array.dtype, size)
    shown = array.__cuda_array_interface__
    return DeviceCells(array, shown["data"][0], np.dtype(shown["typestr"]), size)


def address(array: Any) -> int:
    """Return the address of the first cell of an array of one axis, as `cells` returns it."""
    return int(array._ary.ctypes.data if is_simulated() else array.address)
