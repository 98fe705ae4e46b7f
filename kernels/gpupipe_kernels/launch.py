"""Compilation, caching and launch of kernels: the only module that uses Numba's decorators.

``formula``      a scalar function that compiled code on host or device can call; ``array_formula``: with arrays
``fma``          x * y + z with one rounding, for formulas
``host_step``    a loop over some of the rows, called by a host block
``host_block``   a loop over a block of rows on the host, cached on disk; callers run it on threads (`threads`)
``host_walk``    the same, calling formulas that take arrays; ``walk_of``, ``device_walk_of``: the loop of one formula
``DeviceLoop``   a loop over rows on the device: shipped as machine code, or compiled at run time (`device`)

Host code is compiled at its first call. `gpupipe_kernels.code_cache` manages the folder of cached code.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import config
from numba.extending import intrinsic, register_jitable

from gpupipe_kernels.code_cache import cache_folder, can_keep
from gpupipe_kernels.device.language import bind, cuda
from gpupipe_kernels.device.language import is_simulated as is_simulated  # used by the loops too
from gpupipe_kernels.device.parameters import ANY, Entry, entries_of

THREADS_A_BLOCK = 32 if is_simulated() else 256  # in the simulator, few rows should still span several blocks

# Division by 0 gives inf or NaN, as in NumPy and on the device; a check that can raise prevents vectorisation.
HOST = {"error_model": "numpy", "nogil": True}


@contextmanager
def _kept_in_our_folder() -> Iterator[bool]:
    """Make Numba cache the functions decorated in this context in our folder; yield False if it is not usable."""
    before = config.CACHE_DIR  # Numba reads the folder when a function is decorated
    config.CACHE_DIR = str(cache_folder())
    try:
        yield can_keep()
    finally:
        config.CACHE_DIR = before


def formula(function: Callable[..., Any]) -> Any:
    """Compile a scalar function for host and device code; it is inlined into the calling loop.

    LLVM does the inlining, because only loops without calls vectorise. Numba's own inlining works on the source, and a
    loop with many formulas would take minutes to compile.
    """
    return njit(error_model="numpy", forceinline=True)(function)


def array_formula(function: Callable[..., Any]) -> Any:
    """Compile a function that takes arrays, like `formula`; plain Python in the simulator.

    It is always inlined: an array is seven arguments, and a call with a dozen arrays costs more than a query.
    """
    return register_jitable(function) if is_simulated() else njit(error_model="numpy", forceinline=True)(function)


@intrinsic
def fma(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
    """Return ``x * y + z`` of three float32 or three float64, rounded once, in a formula.

    Compilers decide whether ``x * y + z`` is fused; this always is, on host and device. A host without such an
    instruction calls the C library's ``fma``, which gives the same bits.
    """
    if not (isinstance(x, types.Float) and x == y == z):
        return None

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return x(x, x, x), emit


def host_step(function: Callable[..., Any]) -> Any:
    """Compile a loop that host blocks call; it is cached as part of them."""
    return njit(**HOST)(function)


def host_block(function: Callable[..., Any]) -> Any:
    """Compile a loop over a block of rows on the host; it runs on the calling thread without the interpreter lock."""
    with _kept_in_our_folder() as kept:
        return njit(cache=kept, **HOST)(function)


def read_only(array: Any) -> Any:
    """Return a read-only contiguous view, so that compiled code sees one array type."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def host_walk(function: Callable[..., Any]) -> Any:
    """Compile a `host_block` that allocates no arrays, so that Numba skips reference counting.

    Formulas that take arrays need this: with reference counting at each call, a query of 5 ns took 120 ns.
    """
    with _kept_in_our_folder() as kept:
        return njit(cache=kept, _nrt=False, **HOST)(function)


def walk_of(formula: Any, name: str) -> Any:
    """Return the `host_walk` of an array formula: one call for each position of a block.

    Its parameters are those of the formula after the position, then the first position of the block and the end.
    """
    return host_walk(_loop_of(formula, name, "begin, end", ", begin, end"))


def device_walk_of(formula: Any, name: str, rows: str, module: str) -> Callable[..., None]:
    """Return the grid-stride loop of an array formula, for a `DeviceLoop`: one call for each position of `rows`.

    `module` is the one that declares the loop: a change of its sources makes shipped code stale.
    """
    return _loop_of(formula, name, f"cuda.grid(1), {rows}.size, cuda.gridsize(1)", module=module)


def _loop_of(formula: Any, name: str, positions: str, bounds: str = "", module: str = __name__) -> Callable[..., None]:
    """Return a generated function: Numba has no star-arguments. Its file is this one, because Numba caches by file."""
    _, *parameters = inspect.signature(getattr(formula, "py_func", formula)).parameters
    arguments = ", ".join(parameters)
    text = f"def {name}({arguments}{bounds}):\n    for i in range({positions}):\n        formula(i, {arguments})\n"
    names: dict[str, Any] = {"__name__": module, "formula": formula, "cuda": cuda}
    exec(compile(text, __file__, "exec"), names)
    made: Callable[..., None] = names[name]
    return made


class DeviceLoop:
    """A CUDA kernel: a function of arrays and scalars with a grid-stride loop.

    Parameters
    ----------
    function : callable
        The kernel in Python; it gets its position in the grid from `gpupipe_kernels.device.language.cuda`.
    arguments : tuple of str
        Numba types of its arguments, such as ``"float32[::1]"`` or ``"int32"``; ``"T"`` stands for each of `types`.
    types : tuple of str
        The types of ``"T"``. A launch uses the entry of the first such argument's dtype.
    key : str, optional
        ``""`` for a loop of this package, whose machine code is shipped. For a loop compiled at run time: a name that
        identifies its code, under which it is cached on disk; None: it is not cached.
    """

    def __init__(
        self, function: Callable[..., Any], *arguments: str, types: tuple[str, ...] = (), key: str | None = ""
    ) -> None:
        self.function, self.key = function, key
        self.entries = entries_of(self.name, arguments, types)
        self._typed_at = next((i for i, text in enumerate(arguments) if text.startswith(f"{ANY}[")), None)
        self._loaded: dict[tuple[int, str], Any] = {}

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__.strip("_")

    def launch(
        self,
        n: int | tuple[int, int],
        *arguments: Any,
        stream: Any = None,
        threads: int = THREADS_A_BLOCK,
        shared: int = 0,
    ) -> None:
        """Launch over `n` rows, or (rows, independent parts); a launch over no rows is skipped.

        Parameters
        ----------
        n : int or (int, int)
            Number of rows, and optionally the height of the grid.
        *arguments : device arrays and scalars
            Of the declared types: arrays contiguous, scalars converted.
        stream : cupy.cuda.Stream, optional
            The default stream by default, whatever CuPy's current stream is.
        threads : int
            Threads per block.
        shared : int
            Dynamic shared memory in bytes.

        Raises
        ------
        TypeError
            If an array has another dtype than declared.
        ValueError
            If an array is not contiguous.
        DeviceCodeError
            If the loop has to be compiled and no compiler is installed, or the shipped code is damaged.
        """
        rows, parts = n if isinstance(n, tuple) else (n, 1)
        if rows == 0 or parts == 0:
            return
        entry, grid = self._entry(arguments), (blocks(rows, threads), parts)
        if is_simulated():
            entry.check(arguments)
            self._simulated[grid, (threads, 1), 0, shared](*arguments)
            return
        from gpupipe_kernels.device import functions

        loaded = (functions.current_device(), entry.name)
        if loaded not in self._loaded:
            self._loaded[loaded] = functions.load(self.function, entry, self.key, array_formula)
        launched = self._loaded[loaded]
        launched(grid, (threads, 1), entry.pack(arguments), shared, stream or functions.default_stream())

    def _entry(self, arguments: tuple[Any, ...]) -> Entry:
        if self._typed_at is None:
            return self.entries[""]
        dtype = str(getattr(arguments[self._typed_at], "dtype", ""))
        if dtype not in self.entries:
            raise TypeError(f"{self.name}: expected an array of {', '.join(self.entries)}; got {dtype or 'none'}")
        return self.entries[dtype]

    @cached_property
    def _simulated(self) -> Any:
        _allocate_shared_arrays_once()
        return bind(self.function).jit(self.function)


def blocks(n_rows: int, threads: int = THREADS_A_BLOCK) -> int:
    """Return the number of blocks that cover `n_rows`, limited because kernels use grid-stride loops."""
    return max(1, min(-(-n_rows // threads), 65_535))


@cache
def _allocate_shared_arrays_once() -> None:
    """Fix a race in the simulator: threads that request a shared array concurrently may each get their own."""
    from numba.cuda.simulator.kernelapi import FakeCUDAShared
    from numba.np.numpy_support import as_dtype

    dynamic, lock = FakeCUDAShared.array, threading.Lock()

    def array(self: Any, shape: Any, dtype: Any) -> Any:
        if shape == 0:
            return dynamic(self, shape, dtype)
        caller = sys._getframe(1)
        place = caller.f_code.co_filename, caller.f_lineno
        with lock:
            if place not in self._allocations:
                kind = as_dtype(dtype) if isinstance(dtype, types.Type) else dtype
                self._allocations[place] = np.empty(shape, kind)
            return self._allocations[place]

    FakeCUDAShared.array = array


def is_on_device(array: Any) -> bool:
    """Return whether an array is in device memory."""
    return hasattr(array, "__cuda_array_interface__") or type(array).__module__.startswith("numba.cuda")
