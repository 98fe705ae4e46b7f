"""Tensor libraries: the memory that each accepts without a copy, and how it is handed over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, Literal

import numpy as np

from gpupipe.backends.cpu.memory import ALIGNMENT
from gpupipe.errors import ConfigError
from gpupipe.tensors.array_view import ArrayView, view
from gpupipe.tensors.handover_obstacles import (
    ZeroCopyObstacle,
    demand_alignment,
    demand_no_gaps,
    demand_numbers,
    demand_plain,
    on_device,
    pointer,
)


class TensorLibrary(ABC):
    """A tensor library.

    - `order` ({"C", None}): ``"C"`` if a copy for this library must be row-major
    - `host_only`: whether its arrays are always in host memory
    """

    name: str
    order: Literal["C"] | None = None
    host_only = False

    @abstractmethod
    def owns(self, X: Any) -> bool:
        """Return whether `X` is already a tensor of this library."""

    @abstractmethod
    def demand(self, seen: ArrayView) -> None:
        """Raise a `ZeroCopyObstacle` if the library cannot take this memory without a copy."""

    @abstractmethod
    def take(self, array: Any) -> Any:
        """Return a tensor over the memory of a NumPy or CuPy array; it keeps the memory alive."""

    def facts(self, tensor: Any) -> dict[str, Any]:
        """Return the fields of a receipt that describe the memory of `tensor`."""
        array = view(tensor).array
        return {
            "pointer": pointer(array), "bytes": array.nbytes, "strides": array.strides, "shape": array.shape,
            "dtype": str(array.dtype), "device": f"cuda:{array.device.id}" if on_device(array) else "cpu",
        }  # fmt: skip


class NumPy(TensorLibrary):
    """NumPy: any host memory; read-only memory stays read-only."""

    name = "numpy"
    host_only = True

    def owns(self, X: Any) -> bool:
        return isinstance(X, np.ndarray) and not isinstance(X, np.ma.MaskedArray)

    def demand(self, seen: ArrayView) -> None:
        """Raise ZeroCopyObstacle unless the array holds numbers in host memory."""
        demand_numbers(seen.array.dtype)
        if on_device(seen.array):
            raise ZeroCopyObstacle("is in device memory")

    def take(self, array: Any) -> Any:
        """Return the array."""
        return array


class Torch(TensorLibrary):
    """PyTorch: writable memory with any non-negative strides."""

    name = "torch"

    def owns(self, X: Any) -> bool:
        return isinstance(X, _load("torch", "'gpupipe[torch]'").Tensor)

    def demand(self, seen: ArrayView) -> None:
        demand_plain(*seen)

    def take(self, array: Any) -> Any:
        """Return a tensor made through DLPack: PyTorch's stream waits for the stream that the array was made on."""
        return _load("torch", "'gpupipe[torch]'").from_dlpack(array)

    def facts(self, tensor: Any) -> dict[str, Any]:
        """Return the fields of a receipt, read from the tensor itself: PyTorch has dtypes that NumPy lacks."""
        size = tensor.element_size()
        return {
            "pointer": tensor.data_ptr(), "bytes": tensor.numel() * size, "shape": tuple(tensor.shape),
            "strides": tuple(step * size for step in tensor.stride()), "dtype": str(tensor.dtype).rpartition(".")[2],
            "device": str(tensor.device),
        }  # fmt: skip


class Jax(TensorLibrary):
    """JAX: aligned memory without gaps, in a dtype that JAX is configured for.

    JAX assumes that its arrays are immutable. Writing to the source changes the array, and compiled code may have read
    either value.
    """

    name = "jax"

    def owns(self, X: Any) -> bool:
        return isinstance(X, _load("jax", "jax").Array)

    def demand(self, seen: ArrayView) -> None:
        """Raise ZeroCopyObstacle unless ``jax.dlpack.from_dlpack`` takes it unchanged; it silently narrows 64 bits."""
        demand_plain(*seen)
        narrow = seen.array.dtype.itemsize > (8 if seen.array.dtype.kind == "c" else 4)
        if narrow and not _load("jax", "jax").config.jax_enable_x64:
            fix = "convert it: X.astype('float32'), or call jax.config.update('jax_enable_x64', True)"
            raise ZeroCopyObstacle(f"has dtype {seen.array.dtype}, and JAX is configured for 32 bits", fix)
        demand_no_gaps(seen.array)
        demand_alignment(seen.array, ALIGNMENT)

    def take(self, array: Any) -> Any:
        return _load("jax", "jax").dlpack.from_dlpack(array, copy=False)


class TensorFlow(TensorLibrary):
    """TensorFlow: row-major memory without gaps."""

    name = "tensorflow"
    order: Literal["C"] | None = "C"

    def owns(self, X: Any) -> bool:
        return isinstance(X, _load("tensorflow", "tensorflow").Tensor)

    def demand(self, seen: ArrayView) -> None:
        demand_plain(*seen)
        if not seen.array.flags.c_contiguous:
            raise ZeroCopyObstacle(f"has strides {seen.array.strides}, and TensorFlow takes row-major memory only")

    def take(self, array: Any) -> Any:
        """Return a tensor made from a DLPack capsule, after the device is idle: TensorFlow ignores streams."""
        if on_device(array):
            from gpupipe.backends.gpu.memory import finish

            finish()
        return _load("tensorflow", "tensorflow").experimental.dlpack.from_dlpack(array.__dlpack__())


LIBRARIES = {library.name: library for library in (NumPy(), Torch(), Jax(), TensorFlow())}


def _load(name: str, install: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(f"{name} cannot be imported: {error}", fix=f"pip install {install}") from error
