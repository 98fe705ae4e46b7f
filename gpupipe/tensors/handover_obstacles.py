"""Reasons a zero-copy hand-over of memory is impossible."""

from __future__ import annotations

from typing import Any

COPY = "say copy=True: that makes one copy"
KINDS = "biufc"  # booleans, integers, floats, complex numbers: what DLPack knows


class ZeroCopyObstacle(Exception):
    """The reason a zero-copy hand-over is impossible: becomes a user error, or is solved by a copy.

    Attributes
    ----------
    reason : str
        The rest of the sentence "it ...".
    fix : str
        What helps: `COPY`, or another instruction where a copy would not.
    """

    def __init__(self, reason: str, fix: str = COPY) -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix

    @property
    def copy_helps(self) -> bool:
        """Whether one copy takes it away."""
        return self.fix == COPY


def demand_numbers(dtype: Any) -> None:
    """Demand a NumPy dtype that tensors have; a copy would not change it."""
    if dtype.kind not in KINDS or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        name = str(dtype)
        raise ZeroCopyObstacle(f"is of dtype {name}, which tensors do not have", "convert it: X.astype('float32')")


def demand_plain(array: Any, read_only: bool) -> None:
    """Demand memory that any library may see as it is, and write to.

    PyTorch must never see some of it: given negative strides, its ``from_dlpack`` ends the process, and read-only
    memory it lets its user write to.
    """
    demand_numbers(array.dtype)
    if not array.dtype.isnative:
        raise ZeroCopyObstacle(f"is of the other byte order ({array.dtype.str})")
    if read_only:
        raise ZeroCopyObstacle("is read-only, which tensors cannot be")
    if any(stride < 0 for stride in array.strides):
        raise ZeroCopyObstacle(f"has negative strides {array.strides}")
    if any(stride % array.dtype.itemsize for stride in array.strides):
        raise ZeroCopyObstacle(f"has strides {array.strides} that are no multiples of its {array.dtype.itemsize} bytes")
    demand_alignment(array, array.dtype.itemsize)


def demand_alignment(array: Any, size: int) -> None:
    """Demand that the first element lies at a multiple of `size` bytes."""
    if pointer(array) % size:
        raise ZeroCopyObstacle(f"is not aligned to {size} bytes")


def demand_no_gaps(array: Any) -> None:
    """Demand that the elements fill their memory, whatever the order of the axes."""
    expected = array.dtype.itemsize
    for stride, length in sorted((s, n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if array.size and stride != expected:
            raise ZeroCopyObstacle(f"has gaps: strides {array.strides} of a shape {array.shape}")
        expected *= length


def pointer(array: Any) -> int:
    """Return the address of the first element of an array of NumPy or CuPy."""
    interface = array.__cuda_array_interface__ if on_device(array) else array.__array_interface__
    return int(interface["data"][0])


def on_device(array: Any) -> bool:
    """Return whether an array of NumPy or CuPy lies in device memory."""
    return hasattr(array, "__cuda_array_interface__")
