"""What is declared of a kernel: its arguments, what it makes of nulls, its reference, how close it comes to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpupipe_kernels.launch import DeviceLoop


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel, or what it returns.

    Attributes
    ----------
    name : str
    dtype : str
    shape : tuple of str
        ``("rows",)`` for a column, ``()`` for a scalar.
    null : number, optional
        What stands for null. An input that has one may hold any other value of its dtype too; one that has none
        (a scalar, an order, offsets) holds what `KernelDeclaration.sample` gives.
    least, greatest : number
        The values that an input with nulls may hold, if not all.
    """

    name: str
    dtype: str
    shape: tuple[str, ...] = ("rows",)
    null: float | None = None
    least: float = -math.inf
    greatest: float = math.inf

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(self.shape)}]" if self.shape else self.name


@dataclass(frozen=True)
class KernelDeclaration:
    """The declaration of a kernel.

    Attributes
    ----------
    name, summary : str
    inputs, outputs : tuple of Argument
    nulls : str
        What it makes of null, in words.
    rtol, atol : float
        ``abs(result - reference) <= atol + rtol * abs(reference)`` holds for every value, NaN for NaN.
    reference : callable
        The same in plain float64 NumPy or Python, written to be read: ``reference(*inputs)`` returns an array, or a
        tuple of them.
    cpu, gpu : callable
        Both processors' kernels with the signature of the reference, on host and on device arrays.
    sample : callable
        ``sample(rng, n)`` returns inputs of n rows for a comparison, nulls and extremes among them.
    device : tuple of DeviceLoop
        The CUDA kernels that `gpu` launches.
    """

    name: str
    summary: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    nulls: str
    rtol: float
    atol: float
    reference: Callable[..., Any]
    cpu: Callable[..., Any]
    gpu: Callable[..., Any]
    sample: Callable[..., tuple[Any, ...]]
    device: tuple[DeviceLoop, ...]

    @property
    def signature(self) -> str:
        """``yeo_johnson(x: float32[1, rows], exponent) -> float32[rows]``, in one line."""
        inputs = ", ".join(map(str, self.inputs))
        outputs = ", ".join(str(output).partition(": ")[2] for output in self.outputs)
        return f"{self.name}({inputs}) -> {outputs}"
