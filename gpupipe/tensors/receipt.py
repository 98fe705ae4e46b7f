"""Receipt of a hand-over: the tensor's memory, and whether it is a copy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Receipt:
    """The memory of a tensor that was handed over.

    Attributes
    ----------
    library : {"torch", "jax", "tensorflow", "numpy"}
        Library of the tensor.
    pointer : int
        Address of its first element.
    bytes : int
        Size of its elements in bytes.
    strides : tuple of int
        Bytes from one element to the next, along each axis.
    shape : tuple of int
    dtype : str
        NumPy's name, such as ``"float32"``.
    device : str
        ``"cpu"`` or ``"cuda:0"``.
    copied : bool
        Whether the memory is a copy, made because ``copy=True`` was passed.
    reason : str
        The obstacle to a zero-copy hand-over; ``""`` without one.
    """

    library: str
    pointer: int
    bytes: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str
    device: str
    copied: bool
    reason: str = ""

    def __str__(self) -> str:
        how = "copied" if self.copied else "no copy"
        memory = (
            f"{self.library}: {self.dtype} {self.shape} at {self.pointer:#x} on {self.device}, strides {self.strides}"
        )
        return f"{memory}, {self.bytes:,} bytes, {how}" + (f" (it {self.reason})" if self.reason else "")
