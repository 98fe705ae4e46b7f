"""The libraries that tensors are handed to: what each of them takes without a copy, and how."""

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

    Attributes
    ----------
    name : str
    order : {"C", None}
        ``"C"`` where a copy for it must be row-major.
    host_only : bool
        Whether its arrays lie on the host, always.
    """

    name: str
    order: Literal["C"] | None = None
    host_only = False

    @abstractmethod
    def owns(self, X: Any) -> bool:
        """Return whether `X` is a tensor of this library already."""

    @abstractmethod
    def demand(self, seen: ArrayView) -> None:
        """Raise a `ZeroCopyObstacle` if the library cannot take this memory without a copy."""

    @abstractmethod
    def take(self, array: Any) -> Any:
        """Return a tensor over the memory of an array of NumPy or CuPy, which it keeps alive."""

    def facts(self, tensor: Any) -> dict[str, Any]:
        """Return what a receipt says of the memory of a tensor of this library."""
        array = view(tensor).array
        return {
            "pointer": pointer(array), "bytes": array.nbytes, "strides": array.strides, "shape": array.shape,
            "dtype": str(array.dtype), "device": f"cuda:{array.device.id}" if on_device(array) else "cpu",
        }  # fmt: skip


class NumPy(TensorLibrary):
    """NumPy: whatever lies on the host, read-only as its owner has it."""

    name = "numpy"
    host_only = True

    def owns(self, X: Any) -> bool:
        return isinstance(X, np.ndarray) and not isinstance(X, np.ma.MaskedArray)

    def demand(self, seen: ArrayView) -> None:
        """Demand numbers in host memory."""
        demand_numbers(seen.array.dtype)
        if on_device(seen.array):
            raise ZeroCopyObstacle("lies on a device")

    def take(self, array: Any) -> Any:
        """Return the array."""
        return array


class Torch(TensorLibrary):
    """PyTorch: any strides that are not negative, nothing read-only."""

    name = "torch"

    def owns(self, X: Any) -> bool:
        return isinstance(X, _load("torch", "'gpupipe[torch]'").Tensor)

    def demand(self, seen: ArrayView) -> None:
        demand_plain(*seen)

    def take(self, array: Any) -> Any:
        """Return a tensor by DLPack: its stream waits for the one that the array was made on."""
        return _load("torch", "'gpupipe[torch]'").from_dlpack(array)

    def facts(self, tensor: Any) -> dict[str, Any]:
        """Return the facts as PyTorch has them: it has dtypes that NumPy lacks."""
        size = tensor.element_size()
        return {
            "pointer": tensor.data_ptr(), "bytes": tensor.numel() * size, "shape": tuple(tensor.shape),
            "strides": tuple(step * size for step in tensor.stride()), "dtype": str(tensor.dtype).rpartition(".")[2],
            "device": str(tensor.device),
        }  # fmt: skip


class Jax(TensorLibrary):
    """JAX: memory without gaps, aligned, in dtypes that it is set to compute with.

    It believes its arrays immutable, and cannot know of a writable source: whoever writes to one changes the array,
    and what was compiled of it may have seen either.
    """

    name = "jax"

    def owns(self, X: Any) -> bool:
        return isinstance(X, _load("jax", "jax").Array)

    def demand(self, seen: ArrayView) -> None:
        """Demand what ``jax.dlpack.from_dlpack`` takes without a copy; 64 bits it would narrow in silence."""
        demand_plain(*seen)
        narrow = seen.array.dtype.itemsize > (8 if seen.array.dtype.kind == "c" else 4)
        if narrow and not _load("jax", "jax").config.jax_enable_x64:
            fix = "convert it: X.astype('float32'), or say jax.config.update('jax_enable_x64', True)"
            raise ZeroCopyObstacle(f"is of dtype {seen.array.dtype}, and JAX is set to 32 bits", fix)
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
            raise ZeroCopyObstacle(f"has strides {seen.array.strides}, and TensorFlow takes row-major memory alone")

    def take(self, array: Any) -> Any:
        """Return a tensor by a capsule; it knows of no streams, so the device finishes first."""
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
