"""Kernel declarations: arguments, null policy, reference and tolerances."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpupipe_kernels.launch import DeviceLoop


@dataclass(frozen=True)
class Argument:
    """An argument or result of a kernel.

    Attributes
    ----------
    shape : tuple of str
        ``("rows",)`` for a column, ``()`` for a scalar.
    null : number, optional
        The value that represents null. An input with a null value may hold any other value of its dtype too; an
        input without one (a scalar, an order, offsets) holds what `KernelDeclaration.sample` returns.
    least, greatest : number
        The range of values of an input with nulls; unlimited by default.
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
    inputs, outputs : tuple of Argument
    nulls : str
        The null policy, in words.
    rtol, atol : float
        ``abs(result - reference) <= atol + rtol * abs(reference)`` holds for every value; NaN equals NaN.
    reference : callable
        A readable float64 implementation in NumPy or Python: ``reference(*inputs)`` returns an array or a tuple of
        arrays.
    cpu, gpu : callable
        Implementations with the reference's signature, for host and for device arrays.
    sample : callable
        ``sample(rng, n)`` returns inputs of n rows for a comparison, including nulls and extremes.
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
        """Signature in one line: ``yeo_johnson(x: float32[1, rows], exponent) -> float32[rows]``."""
        inputs = ", ".join(map(str, self.inputs))
        outputs = ", ".join(str(output).partition(": ")[2] for output in self.outputs)
        return f"{self.name}({inputs}) -> {outputs}"
