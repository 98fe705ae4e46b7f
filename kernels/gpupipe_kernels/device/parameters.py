"""Argument types of a device loop, its entries, and how arguments are passed to them.

An entry takes plain C parameters: for an array, a pointer and its length along each axis (int64); for a scalar, a value
of the declared type. An entry is compiled from `Entry.wrapper`, which makes arrays of pointers and lengths and calls
the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from gpupipe_kernels.device.arrays import DeviceCells, adopt

ANY = "T"
"""The type that stands for each of `types` in the arguments of a `DeviceLoop`."""

I8 = "int8[::1]"
I32 = "int32[::1]"
I64 = "int64[::1]"
U8 = "uint8[::1]"
F32 = "float32[::1]"
F64 = "float64[::1]"


@dataclass(frozen=True)
class Parameter:
    """An argument of a device loop.

    Attributes
    ----------
    dtype : numpy.dtype
        Of the scalar, or of the array's elements.
    n_axes : int
        Axes of the array; 0 for a scalar.
    """

    dtype: np.dtype[Any]
    n_axes: int

    @staticmethod
    def parse(text: str) -> Parameter:
        """Return the parameter of a Numba type, such as ``"float32[:, ::1]"`` or ``"boolean"``."""
        name, _, axes = text.partition("[")
        return Parameter(np.dtype("bool" if name == "boolean" else name), axes.count(",") + 1 if axes else 0)

    @property
    def words(self) -> tuple[str, ...]:
        """The C parameters, in the words of the manifest: ``"float32*", "int64"``."""
        return (f"{self.dtype}*", *["int64"] * self.n_axes) if self.n_axes else (str(self.dtype),)

    def check(self, array: Any) -> None:
        """Raise TypeError if an array has another dtype or number of axes, ValueError if it is not contiguous."""
        is_flag = array.dtype == np.bool_ and self.dtype == np.uint8  # the same bytes
        if (array.dtype != self.dtype and not is_flag) or array.ndim != self.n_axes:
            raise TypeError(
                f"expected a device array of {self.dtype} with {self.n_axes} axes, got {array.dtype} {array.shape}"
            )
        step = self.dtype.itemsize
        for length, stride in zip(reversed(array.shape), reversed(array.strides or ()), strict=False):
            if stride != step and array.size > 1 and length > 1:
                raise ValueError("expected a contiguous device array")
            step *= length


@dataclass(frozen=True)
class Entry:
    """A function in machine code: a device loop for one choice of its types.

    Attributes
    ----------
    name : str
        Its name in the machine code.
    arguments : tuple of str
        Numba types.
    """

    name: str
    arguments: tuple[str, ...]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its arguments."""
        return tuple(map(Parameter.parse, self.arguments))

    @property
    def words(self) -> list[str]:
        """Its C parameters, in the words of the manifest."""
        return list(chain.from_iterable(parameter.words for parameter in self.parameters))

    @property
    def wrapper(self) -> str:
        """The Python source of the function ``entry``, which calls ``loop`` with arrays made by ``carray``."""
        names, values = [], []
        for i, parameter in enumerate(self.parameters):
            lengths = [f"n{i}_{axis}" for axis in range(parameter.n_axes)]
            names += [f"x{i}", *lengths]
            values.append(f"carray(x{i}, ({', '.join(lengths)},))" if lengths else f"x{i}")
        return f"def entry({', '.join(names)}):\n    loop({', '.join(values)})\n"

    def pack(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the C arguments: pointers as CuPy arrays or ``uint64``, lengths and scalars as NumPy scalars.

        Raise TypeError if the number of arguments, or the type of an array, is not as declared, and ValueError if an
        array is not contiguous.
        """
        arguments = [adopt(value) if hasattr(value, "__cuda_array_interface__") else value for value in arguments]
        self.check(arguments)
        packed: list[Any] = []
        for parameter, value in zip(self.parameters, arguments, strict=True):
            if parameter.n_axes:
                packed.append(np.uint64(value.address) if isinstance(value, DeviceCells) else value)
                packed.extend(map(np.int64, value.shape))
            else:
                packed.append(parameter.dtype.type(value))
        return tuple(packed)

    def check(self, arguments: Sequence[Any]) -> None:
        """Raise if arguments do not fit; see `pack`."""
        if len(arguments) != len(self.parameters):
            raise TypeError(f"{self.name}: expected {len(self.parameters)} arguments, got {len(arguments)}")
        for parameter, value in zip(self.parameters, arguments, strict=True):
            if parameter.n_axes:
                parameter.check(value)


def entries_of(name: str, arguments: tuple[str, ...], types: tuple[str, ...]) -> dict[str, Entry]:
    """Return the entries of a loop by the type that `ANY` stands for; a loop without `types` has one, ``""``."""
    if not types:
        return {"": Entry(name, arguments)}
    return {kind: Entry(f"{name}_{kind}", tuple(_of_type(text, kind) for text in arguments)) for kind in types}


def _of_type(text: str, kind: str) -> str:
    name, bracket, axes = text.partition("[")
    return (kind if name == ANY else name) + bracket + axes
