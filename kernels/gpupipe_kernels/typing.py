"""Types of arrays. Importing this loads no library: NumPy's types are names for the type checker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy.typing as npt

HostArray: TypeAlias = "npt.NDArray[Any]"
"""A NumPy array."""


class Array(Protocol):
    """An array on the host or on a device: what NumPy arrays, CuPy arrays and arguments of compiled loops share.

    ``__array__`` makes it an argument of NumPy's functions for the type checker. Arrays on a device raise there, and
    state ``__cuda_array_interface__``: `gpupipe_kernels.launch.is_on_device` tells the two apart.
    """

    @property
    def dtype(self) -> Any:
        """Type of the elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, of each axis."""

    @property
    def ndim(self) -> int:
        """Number of axes."""

    @property
    def size(self) -> int:
        """Number of elements."""

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take."""

    @property
    def T(self) -> Any:
        """The transposed array, a view."""

    def __array__(self) -> HostArray: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __invert__(self) -> Array: ...
    def __abs__(self) -> Array: ...
    def __rpow__(self, other: Any, /) -> Array: ...
    def __neg__(self) -> Array: ...
    def __add__(self, other: Any, /) -> Array: ...
    def __radd__(self, other: Any, /) -> Array: ...
    def __sub__(self, other: Any, /) -> Array: ...
    def __rsub__(self, other: Any, /) -> Array: ...
    def __mul__(self, other: Any, /) -> Array: ...
    def __rmul__(self, other: Any, /) -> Array: ...
    def __truediv__(self, other: Any, /) -> Array: ...
    def __floordiv__(self, other: Any, /) -> Array: ...
    def __mod__(self, other: Any, /) -> Array: ...
    def __and__(self, other: Any, /) -> Array: ...
    def __or__(self, other: Any, /) -> Array: ...
    def __lt__(self, other: Any, /) -> Array: ...
    def __le__(self, other: Any, /) -> Array: ...
    def __gt__(self, other: Any, /) -> Array: ...
    def __ge__(self, other: Any, /) -> Array: ...
    def __eq__(self, other: object, /) -> Any: ...
    def __ne__(self, other: object, /) -> Any: ...
    @property
    def all(self) -> Callable[..., Any]:
        """Return whether every element is true."""

    @property
    def any(self) -> Callable[..., Any]:
        """Return whether an element is true."""

    @property
    def sum(self) -> Callable[..., Any]:
        """Return the sum."""

    @property
    def max(self) -> Callable[..., Any]:
        """Return the greatest element."""

    @property
    def min(self) -> Callable[..., Any]:
        """Return the least element."""

    @property
    def astype(self) -> Callable[..., Array]:
        """Return the elements in another type."""

    @property
    def reshape(self) -> Callable[..., Array]:
        """Return the elements in another shape."""

    @property
    def view(self) -> Callable[..., Array]:
        """Return the same bytes as another type."""

    @property
    def copy(self) -> Callable[..., Array]:
        """Return a copy."""


class DeviceArray(Array, Protocol):
    """An array in device memory."""

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        """Address, shape, strides and type, as Numba defines them (version 3)."""
