"""Arrays of any library as NumPy (host) or CuPy (device) arrays over the same memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpupipe.backends.cpu.memory import copy_of
from gpupipe.errors import ConfigError
from gpupipe.tensors import arrow_arrays
from gpupipe.tensors.handover_obstacles import ZeroCopyObstacle, on_device

HOST = (1, 3)  # DLPack device types: host memory and pinned host memory
REFUSALS = (BufferError, RuntimeError, TypeError, ValueError)  # raised for arrays that DLPack cannot express
IMMUTABLE = ("jax", "jaxlib", "tensorflow")  # on a device, the library's name is the only mark of immutability
ACCEPTED = (
    "a NumPy, CuPy, PyTorch, JAX or TensorFlow array, a pyarrow Array, ChunkedArray, Table, RecordBatch or Tensor, or "
    "any object with __dlpack__ or __cuda_array_interface__; for a pandas or polars frame, pass frame.to_numpy()"
)


class ArrayView(NamedTuple):
    """An array over memory of another object, which it keeps alive.

    `array` is a NumPy or CuPy array; it is `read_only` if its owner treats the memory as immutable.
    """

    array: Any
    read_only: bool


def view(X: Any) -> ArrayView:
    """Return `X` as an array over its own memory.

    Raise ZeroCopyObstacle if it is not stored as one array, or its library refuses; ConfigError if `X` is not an array.
    """
    if arrow_arrays.is_arrow(X):
        array = arrow_arrays.view(X)
    elif isinstance(X, np.ndarray):
        if isinstance(X, np.ma.MaskedArray):
            raise ZeroCopyObstacle("has a mask", "fill the masked elements: X.filled(...)")
        array = X
    elif _is_on_host(X):
        array = _through_dlpack(X)
    else:
        return ArrayView(_on_device(X), type(X).__module__.partition(".")[0] in IMMUTABLE)
    return ArrayView(array, not array.flags.writeable)


def copy_values(X: Any, order: Any = None, to_host: bool = False) -> Any:
    """Copy the values of `X` once, to new memory of the same device or of the host.

    `order` is as for `gpupipe.backends.cpu.memory.copy_of`. Raise ZeroCopyObstacle if the values cannot be copied into
    one array of numbers.
    """
    if arrow_arrays.is_arrow(X):
        return arrow_arrays.copy(X, order)
    array = view(X).array
    if not on_device(array):
        return copy_of(array, order)
    return array.get(order=order or "A") if to_host else array.copy(order=order or "K")


def _is_on_host(X: Any) -> bool:
    if hasattr(X, "__dlpack_device__"):
        return X.__dlpack_device__()[0] in HOST
    if not hasattr(X, "__cuda_array_interface__"):
        raise ConfigError(f"expected an array; got {type(X).__module__}.{type(X).__qualname__}", fix=f"pass {ACCEPTED}")
    return False


def _through_dlpack(X: Any) -> np.ndarray:
    try:
        return np.from_dlpack(X)
    except REFUSALS as refusal:
        raise _obstacle(refusal) from refusal


def _on_device(X: Any) -> Any:
    from gpupipe.backends.gpu.memory import as_cupy, wait_for_kernels

    if not hasattr(X, "__dlpack__"):
        interface = X.__cuda_array_interface__
        if interface.get("mask") is not None:
            raise ZeroCopyObstacle("has nulls", "fill them: series.fillna(0)")
        if interface["data"][1]:
            raise ZeroCopyObstacle("is read-only, which CuPy arrays cannot be", "copy it with its own library")
    wait_for_kernels()  # copies and hand-overs run on CuPy's stream
    try:
        return as_cupy(X)
    except REFUSALS as refusal:
        raise _obstacle(refusal) from refusal


def _obstacle(refusal: Exception) -> ZeroCopyObstacle:
    return ZeroCopyObstacle(f"is refused: {refusal}", "pass a detached, dense tensor with a NumPy dtype")
