"""Reasons a zero-copy hand-over of memory is impossible."""

from __future__ import annotations

from typing import Any

COPY = "pass copy=True: it makes one copy"
KINDS = "biufc"  # the NumPy kinds of DLPack: boolean, signed and unsigned integer, float, complex


READ_ONLY = "is read-only, which tensors cannot be"


class ZeroCopyObstacle(Exception):
    """The reason a zero-copy hand-over is impossible; a copy solves it, or it becomes a user error.

    - `reason`: completes the sentence "it ..."
    - `fix`: instruction for the user: `COPY`, or another one if a copy does not help
    """

    def __init__(self, reason: str, fix: str = COPY) -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix

    @property
    def copy_helps(self) -> bool:
        """True if one copy removes the obstacle."""
        return self.fix == COPY


def demand_numbers(dtype: Any) -> None:
    """Raise ZeroCopyObstacle unless tensors have this NumPy dtype; a copy would not change it."""
    if dtype.kind not in KINDS or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        name = str(dtype)
        raise ZeroCopyObstacle(f"has dtype {name}, which tensors lack", "convert it: X.astype('float32')")


def demand_plain(array: Any, read_only: bool) -> None:
    """Raise ZeroCopyObstacle unless any library may read and write this memory as it is.

    PyTorch must be protected from some of it: its ``from_dlpack`` aborts the process on negative strides, and makes
    read-only memory writable.
    """
    demand_numbers(array.dtype)
    if not array.dtype.isnative:
        raise ZeroCopyObstacle(f"has non-native byte order ({array.dtype.str})")
    if read_only:
        raise ZeroCopyObstacle(READ_ONLY)
    if any(stride < 0 for stride in array.strides):
        raise ZeroCopyObstacle(f"has negative strides {array.strides}")
    if any(stride % array.dtype.itemsize for stride in array.strides):
        raise ZeroCopyObstacle(f"has strides {array.strides}, not multiples of its {array.dtype.itemsize}-byte items")
    demand_alignment(array, array.dtype.itemsize)


def demand_alignment(array: Any, size: int) -> None:
    """Raise ZeroCopyObstacle unless the address of the first element is a multiple of `size` bytes."""
    if pointer(array) % size:
        raise ZeroCopyObstacle(f"is not aligned to {size} bytes")


def demand_no_gaps(array: Any) -> None:
    """Raise ZeroCopyObstacle unless the elements are contiguous in some order of the axes."""
    expected = array.dtype.itemsize
    for stride, length in sorted((s, n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if array.size and stride != expected:
            raise ZeroCopyObstacle(f"has gaps: strides {array.strides} for shape {array.shape}")
        expected *= length


def pointer(array: Any) -> int:
    """Return the address of the first element of a NumPy or CuPy array."""
    interface = array.__cuda_array_interface__ if on_device(array) else array.__array_interface__
    return int(interface["data"][0])


def on_device(array: Any) -> bool:
    """Return whether a NumPy or CuPy array is in device memory."""
    return hasattr(array, "__cuda_array_interface__")
