"""A test double of the GPU backend that computes on the host and refuses what CuPy refuses.

It shows that code written for both backends keeps its arrays on the device: they are never converted to NumPy
implicitly or mixed with NumPy's, and only functions and parameters of the CuPy API snapshot can be called. It shows
nothing about a real GPU, CuPy's results, or cuDF, which it lacks. Kernels run in Numba's simulator, so start the
process with ``NUMBA_ENABLE_CUDASIM=1``.

>>> backend = DeviceDouble()
>>> x = backend.to_device(np.arange(3.0))
>>> backend.to_host(backend.xp.sort(x) + 1)
array([1., 2., 3.])
>>> np.asarray(x)
Traceback (most recent call last):
TypeError: Implicit conversion to a NumPy array is not allowed
"""

from __future__ import annotations

import gzip
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MethodType
from typing import Any, ClassVar

import numpy as np
from numba.cuda.simulator import kernel as simulator
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

from gpupipe.backends import machine
from gpupipe.backends.base import DEFAULT_OPTIONS, DeviceOptions
from gpupipe.backends.gpu.backend import GpuBackend, _Meter
from gpupipe.backends.stage import StageUse
from gpupipe_kernels.interpreters.cuda import interpreter as cuda_interpreter
from gpupipe_kernels.launch import is_simulated
from tests.backends.driver_pool import DriverPool

SNAPSHOT = Path(__file__).parents[2] / "tools" / "gpu_api" / "snapshots" / "rapids-26.10.json.gz"
API = json.loads(gzip.decompress(SNAPSHOT.read_bytes()))
FUNCTIONS: dict[str, str] = API["modules"]["cupy"]
MEMBERS: dict[str, str] = API["classes"]["cupy.ndarray"]

TAKES_NUMPY = {"array", "asarray", "ascontiguousarray"}
PLAIN = {"can_cast", "isscalar", "issubdtype", "iscomplexobj", "ndim", "result_type", "shape", "size"}  # no arrays
TO_HOST = {"get", "item", "tolist", "tobytes"}
CONTIGUOUS = {"interp", "ndarray.sort"}  # of these, the first array
# CuPy sorts by these; what it then makes of a NaN that comes first is not modelled.
SORTED_INSIDE = {"unique", "median", "quantile", "percentile", "partition", "argpartition"}

uncounted: list[str] = []  # locations of implicit copies to the host, without `Backend.to_host`


def _note_transfer(what: str) -> None:
    caller = sys._getframe(2)
    uncounted.append(f"{caller.f_code.co_filename}:{caller.f_lineno} {what}")


@cache
def _signature(text: str) -> inspect.Signature | None:
    """Return the signature in a line of the snapshot; None if it is unknown."""
    if not text.startswith("def ("):
        return None
    parameters = text.removeprefix("def (").rpartition(") -> ")[0] or text.removeprefix("def (").removesuffix(")")
    return inspect.signature(eval(f"lambda {parameters}: None"))


def _unwrapped(value: Any) -> Any:
    if isinstance(value, DeviceArray):
        return value._ary
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}: CuPy does not mix arrays of the host with its own")
    if isinstance(value, list | tuple):
        return type(value)(map(_unwrapped, value))
    if isinstance(value, slice):
        return slice(*map(_unwrapped, (value.start, value.stop, value.step)))
    return value


def _wrapped(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return DeviceArray(np.asarray(value))  # also 0-d arrays: CuPy has no scalars
    return tuple(map(_wrapped, value)) if isinstance(value, tuple) else value


def _called(name: str, text: str, function: Callable[..., Any], takes_numpy: bool = False) -> Callable[..., Any]:
    """Return a function of NumPy as CuPy has it: its parameters, its arrays."""

    def call(*arguments: Any, **named: Any) -> Any:
        if signature := _signature(text):
            try:
                signature.bind(*arguments, **named)
            except TypeError as error:
                raise TypeError(f"cupy.{name}: {error}") from None
        named.pop("blocking", None)
        if takes_numpy:
            given = [a._ary if isinstance(a, FakeCUDAArray) else a for a in arguments]  # Numba's own, too
        else:
            given, named = _unwrapped(arguments), {k: _unwrapped(v) for k, v in named.items()}
        if name.removeprefix("ndarray.") in SORTED_INSIDE:
            _refuse_signed_nulls(name, [getattr(function, "__self__", None), *given])
        if name in CONTIGUOUS:
            first: Any = getattr(function, "__self__", *given[:1])  # a method's own array
            if not first.flags.c_contiguous:
                raise NotImplementedError(f"cupy.{name}: non-C-contiguous arrays are not supported")
        with np.errstate(all="ignore"):  # a device has no floating-point warnings
            found = function(*given, **named)
        if named.get("out") is not None:
            return named["out"] if isinstance(named["out"], DeviceArray) else _wrapped(named["out"])
        return found if name in PLAIN else _wrapped(np.asarray(found) if isinstance(found, bool | int) else found)

    return call


def radix_order(x: Any) -> Any:
    """Return the rows of `x` in the order of CUB's radix sort, which CuPy sorts arrays of one axis with.

    Floats are sorted by their bits, so NaNs with the sign bit set come first. Zeros of both signs are equal. Checked:
    CuPy 14.2 (``cupy_thrust.cu``), CUB's documentation of ``DeviceRadixSort``.
    """
    if x.dtype.kind != "f" or x.ndim != 1:
        return np.argsort(x, kind="stable")
    bits = (x + 0.0).view(f"u{x.itemsize}")  # -0.0 + 0.0 is 0.0
    sign = bits.dtype.type(1 << (8 * x.itemsize - 1))
    return np.argsort(np.where(bits & sign, ~bits, bits | sign), kind="stable")


def _sort(x: Any, axis: int = -1, kind: Any = None) -> Any:
    return x[radix_order(x)] if x.ndim == 1 else np.sort(x, axis)


def _argsort(x: Any, axis: int = -1, kind: Any = None) -> Any:
    return radix_order(x) if x.ndim == 1 else np.argsort(x, axis, kind="stable")


def _sort_in_place(x: Any, axis: int = -1, kind: Any = None) -> None:
    x[...] = _sort(x, axis)


def _refuse_signed_nulls(name: str, given: Any) -> None:
    for x in (array for array in given if isinstance(array, np.ndarray) and array.dtype.kind == "f"):
        if (np.isnan(x) & np.signbit(x)).any():
            raise NotImplementedError(f"cupy.{name}: a NaN with the sign bit set is sorted to the front")


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin, FakeCUDAArray):
    """An array that stands for one of CuPy's; within a kernel it is the simulator's.

    Stricter than CuPy's where that would move data unseen: an index cannot be an array of the host. What becomes a
    number (``float(x)``, ``if x``) is allowed, and noted in `uncounted`.
    """

    __hash__ = None  # type: ignore[assignment]
    pool: ClassVar[DriverPool | None] = None  # counts the bytes of arrays, if a test sets it

    def __init__(self, ary: Any, stream: Any = 0) -> None:
        super().__init__(ary, stream)
        if DeviceArray.pool is not None and ary.base is None:
            self._memory = DeviceArray.pool.allocate(ary.nbytes)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        if method != "__call__" or ufunc.__name__ not in FUNCTIONS:
            raise TypeError(f"CuPy has no {ufunc.__name__}.{method}")
        (out,) = named.pop("out", (None,))
        result = getattr(xp, ufunc.__name__)(*inputs, **named, **({} if out is None else {"out": out}))
        return result if out is None else out

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        return getattr(xp, function.__name__)(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"cupy.ndarray has no attribute {name!r}")

    def __getitem__(self, index: Any) -> Any:
        if simulator._get_kernel_context() is not None:
            return FakeCUDAArray.__getitem__(self, index)
        if any(getattr(each, "dtype", "") == "bool" and each.ndim < self.ndim for each in _parts(index)):
            raise NotImplementedError("a mask of rows, which CuPy expands to all cells: see Backend.take_rows")
        return DeviceArray(np.asarray(self._ary[_unwrapped(index)]))

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, list):
            raise TypeError("Unsupported type <class 'list'>")
        self._ary[_unwrapped(index)] = _unwrapped(value)

    def __iter__(self) -> Iterator[DeviceArray]:
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        _note_transfer("float(array)")
        return float(self._ary)

    def __int__(self) -> int:
        _note_transfer("int(array)")
        return int(self._ary)

    def __bool__(self) -> bool:
        _note_transfer("bool(array)")
        return bool(self._ary)


def _parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _member(name: str, text: str) -> Any:
    if text.startswith("property"):
        return property(lambda self: _wrapped(getattr(self._ary, name)) if name in ("T", "real") else _raw(self, name))
    if name in TO_HOST:
        numpy_name = "copy" if name == "get" else name

        def taken(self: DeviceArray) -> Any:
            _note_transfer(f".{name}()")
            return getattr(self._ary, numpy_name)()

        return taken
    sorts = {"sort": _sort_in_place, "argsort": _argsort}

    def call(self: DeviceArray, *given: Any, **named: Any) -> Any:
        function = MethodType(sorts[name], self._ary) if name in sorts else getattr(self._ary, name)
        return _called(f"ndarray.{name}", text, function)(*given, **named)

    return call


def _raw(array: DeviceArray, name: str) -> Any:
    return getattr(array._ary, name)


def _absent(name: str) -> property:
    return property(lambda self: DeviceArray.__getattr__(self, name))


for _name, _text in MEMBERS.items():
    if not _name.startswith("_") and _name != "()" and (hasattr(np.ndarray, _name) or _name in TO_HOST):
        setattr(DeviceArray, _name, _member(_name, _text))
for _name in ("copy_to_host", "copy_to_device", "split", "bind"):  # the simulator's own
    setattr(DeviceArray, _name, _absent(_name))
# The package knows a device's array by this, or by an interface that the simulator does not take.
DeviceArray.__module__ = "numba.cuda.simulator"


class _Namespace:
    """NumPy's functions under CuPy's names; what CuPy does not have is not there."""

    ndarray = DeviceArray

    def __getattr__(self, name: str) -> Any:
        if name not in FUNCTIONS:
            raise AttributeError(f"cupy has no {name!r}")
        if name == "asnumpy":
            return lambda array, order="C": np.array(getattr(array, "_ary", array), order=order)
        if not hasattr(np, name):
            raise NotImplementedError(f"the double has no cupy.{name}: NumPy has none")
        found = {"sort": _sort, "argsort": _argsort}.get(name, getattr(np, name))
        if not callable(found) or isinstance(found, type):
            return found  # a number, a dtype
        return _called(name, FUNCTIONS[name], found, name in TAKES_NUMPY)


xp = _Namespace()


class DeviceDouble(GpuBackend):
    """`GpuBackend` with arrays that behave as CuPy's; without memory of a device, cuDF and estimators."""

    missing: frozenset[str] = frozenset()

    def __init__(self, options: DeviceOptions = DEFAULT_OPTIONS) -> None:
        if not is_simulated():
            raise RuntimeError("the double of a device is for NUMBA_ENABLE_CUDASIM=1")
        self.reason, self.options = "a double, for tests", options
        self.n_threads = machine.n_threads()
        self._meter = _Meter()

    @property
    def xp(self) -> Any:
        """The array namespace."""
        return xp

    @property
    def frame(self) -> Any:
        """The dataframe namespace, of which there is none."""
        raise NotImplementedError("there is no double of cuDF")

    def lacks(self, library: str) -> bool:
        """Return whether `library` is one of those that the test takes away."""
        return library in self.missing

    def estimator(self, name: str, params: Mapping[str, Any]) -> Any:
        """Refuse: there are no estimators here."""
        raise NotImplementedError("there is no double of cuML")

    def run_program(self, program: Any, blocks: Mapping[str, Any], out: Any, fold: Any = None) -> None:
        """Run `program` in the simulator, with few threads."""
        cuda_interpreter.run(program, blocks, out, fold)
        self.last_interpreter = "cuda"

    def free_bytes(self) -> int:
        """Return the bytes of the host that are free."""
        return self.memory().available

    def open_stage(self) -> None:
        """Begin to count."""
        self._meter.open()

    def close_stage(self) -> StageUse:
        """Return what has been counted."""
        return self._meter.close(None)

    def synchronize(self) -> None:
        """Wait for nothing."""
