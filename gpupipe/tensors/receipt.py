"""Receipts of hand-overs: the tensor's memory, and whether it is a copy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Receipt:
    """The memory of a tensor that was handed over.

    Attributes
    ----------
    library : {"torch", "jax", "tensorflow", "numpy"}
        Whose tensor it is.
    pointer : int
        Address of its first element.
    bytes : int
        Of its elements.
    strides : tuple of int
        Bytes from one element to the next, along each axis.
    shape : tuple of int
    dtype : str
        NumPy's name, such as ``"float32"``.
    device : str
        ``"cpu"`` or ``"cuda:0"``.
    copied : bool
        Whether the memory is a copy: then it is one, made because `copy` was asked for.
    reason : str
        What stood in the way of a hand-over without a copy; ``""`` where nothing did.
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
        said = (
            f"{self.library}: {self.dtype} {self.shape} at {self.pointer:#x} on {self.device}, strides {self.strides}"
        )
        return f"{said}, {self.bytes:,} bytes, {how}" + (f" (it {self.reason})" if self.reason else "")
