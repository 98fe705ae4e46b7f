"""Types of arrays. Importing this module loads no library: NumPy types are for the type checker only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy.typing as npt

HostArray: TypeAlias = "npt.NDArray[Any]"
"""A NumPy array."""

Allocate: TypeAlias = "Callable[[Any, str], Array]"
"""A function of (shape, dtype) that returns an uninitialised device array, like ``cupy.empty``."""


class Array(Protocol):
    """An array on the host or on a device: the interface shared by NumPy arrays, CuPy arrays and Numba device arrays.

    ``__array__`` lets the type checker accept it as an argument of NumPy functions. Device arrays raise there; they
    have ``__cuda_array_interface__``, which `gpupipe_kernels.launch.is_on_device` checks.
    """

    @property
    def dtype(self) -> Any:
        """Type of the elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, along each axis."""

    @property
    def ndim(self) -> int:
        """Number of axes."""

    @property
    def size(self) -> int:
        """Number of elements."""

    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""

    @property
    def itemsize(self) -> int:
        """Size of one element in bytes."""

    @property
    def flags(self) -> Any:
        """Memory layout: ``c_contiguous``, ``f_contiguous``."""

    @property
    def T(self) -> Array:
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
    def __pow__(self, other: Any, /) -> Array: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Array: ...
    def __lshift__(self, other: Any, /) -> Array: ...
    def __rshift__(self, other: Any, /) -> Array: ...
    def __and__(self, other: Any, /) -> Array: ...
    def __xor__(self, other: Any, /) -> Array: ...
    def __rxor__(self, other: Any, /) -> Array: ...
    def __or__(self, other: Any, /) -> Array: ...
    def __ror__(self, other: Any, /) -> Array: ...
    def __lt__(self, other: Any, /) -> Array: ...
    def __le__(self, other: Any, /) -> Array: ...
    def __gt__(self, other: Any, /) -> Array: ...
    def __ge__(self, other: Any, /) -> Array: ...
    def __eq__(self, other: object, /) -> Any: ...
    def __ne__(self, other: object, /) -> Any: ...
    def all(self, *args: Any, **kwargs: Any) -> Any:
        """Return whether every element is true."""

    def any(self, *args: Any, **kwargs: Any) -> Any:
        """Return whether an element is true."""

    def sum(self, *args: Any, **kwargs: Any) -> Any:
        """Return the sum."""

    def max(self, *args: Any, **kwargs: Any) -> Any:
        """Return the greatest element."""

    def min(self, *args: Any, **kwargs: Any) -> Any:
        """Return the least element."""

    def astype(self, *args: Any, **kwargs: Any) -> Array:
        """Return the elements in another type."""

    def reshape(self, *args: Any, **kwargs: Any) -> Array:
        """Return the elements in another shape."""

    def view(self, *args: Any, **kwargs: Any) -> Array:
        """Return the same bytes as another type."""

    def copy(self, *args: Any, **kwargs: Any) -> Array:
        """Return a copy."""

    def mean(self, *args: Any, **kwargs: Any) -> Any:
        """Return the mean."""

    def std(self, *args: Any, **kwargs: Any) -> Any:
        """Return the standard deviation."""

    def var(self, *args: Any, **kwargs: Any) -> Any:
        """Return the variance."""

    def argmax(self, *args: Any, **kwargs: Any) -> Any:
        """Return the position of the greatest element."""

    def argmin(self, *args: Any, **kwargs: Any) -> Any:
        """Return the position of the least element."""

    def argsort(self, *args: Any, **kwargs: Any) -> Array:
        """Return the positions that sort the elements."""

    def clip(self, *args: Any, **kwargs: Any) -> Array:
        """Return the elements, limited to a range."""

    def diagonal(self, *args: Any, **kwargs: Any) -> Array:
        """Return the diagonal."""

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Return the sum of the diagonal."""

    def swapaxes(self, *args: Any, **kwargs: Any) -> Array:
        """Return a view with two axes exchanged."""

    def sort(self, *args: Any, **kwargs: Any) -> None:
        """Sort the elements in place."""

    def fill(self, *args: Any, **kwargs: Any) -> Any:
        """Set every element to one value."""

    def tolist(self, *args: Any, **kwargs: Any) -> Any:
        """Return the elements as nested lists of Python numbers."""

    def tobytes(self, *args: Any, **kwargs: Any) -> bytes:
        """Return the elements as bytes."""


class DeviceArray(Array, Protocol):
    """An array in device memory."""

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        """Address, shape, strides and type, as Numba defines them (version 3)."""


class ArrayNamespace(Protocol):
    """NumPy or CuPy as a module: an attribute that is not declared here is a function that returns an array."""

    @property
    def inf(self) -> float:
        """Infinity."""

    @property
    def nan(self) -> float:
        """Not a number."""

    @property
    def linalg(self) -> ArrayNamespace:
        """Linear algebra."""

    @property
    def ndarray(self) -> type[Any]:
        """The class of the arrays."""

    @property
    def dtype(self) -> Callable[..., Any]:
        """Return the dtype with a name."""

    def __getattr__(self, name: str, /) -> Callable[..., Array]: ...
