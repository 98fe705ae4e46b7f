"""Receipt of a hand-over: the tensor's memory, and whether it is a copy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Receipt:
    """The memory of a tensor that was handed over."""

    library: str  # library of the tensor
    pointer: int  # address of its first element
    bytes: int  # size of its elements in bytes
    strides: tuple[int, ...]  # bytes from one element to the next, along each axis
    shape: tuple[int, ...]
    dtype: str  # NumPy's name, such as ``"float32"``
    device: str  # ``"cpu"`` or ``"cuda:0"``
    copied: bool  # whether the memory is a copy, made because ``copy=True`` was passed
    reason: str = ""  # the obstacle to a zero-copy hand-over; ``""`` without one

    def __str__(self) -> str:
        how = "copied" if self.copied else "no copy"
        memory = (
            f"{self.library}: {self.dtype} {self.shape} at {self.pointer:#x} on {self.device}, strides {self.strides}"
        )
        return f"{memory}, {self.bytes:,} bytes, {how}" + (f" (it {self.reason})" if self.reason else "")
