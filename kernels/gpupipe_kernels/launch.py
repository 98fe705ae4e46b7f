"""Compilation, caching and launch of kernels: the only module that uses Numba's decorators and the device.

``formula``      a scalar function that compiled code on host or device can call; ``array_formula``: with arrays
``fma``          x * y + z with one rounding, for formulas
``host_step``    a loop over some of the rows, called by a host block
``host_block``   a loop over a block of rows on the host, cached on disk; callers run it on threads (`threads`)
``host_walk``    the same, calling formulas that take arrays
``DeviceLoop``   a loop over rows on the device, cached on disk

Everything is compiled at its first call. `gpupipe_kernels.code_cache` manages the folder of cached code.
"""

from __future__ import annotations

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
from gpupipe_kernels.numpy_compat import restore_row_stack

THREADS_A_BLOCK = 32 if config.ENABLE_CUDASIM else 256  # in the simulator, few rows should still span several blocks

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


class DeviceLoop:
    """A CUDA kernel: a function of arrays and scalars with a grid-stride loop.

    Parameters
    ----------
    function : callable
        The kernel in Python; it gets its position in the grid from ``numba.cuda``.
    arguments : tuple of str
        Numba types of its arguments, such as ``"float32[::1]"`` or ``"int32"``, used for compilation and for the
        inspection of machine code.
    kept : bool
        Whether compiled code is cached on disk. Numba looks it up by the name and location of the function, so a
        function that was created from another function's code must not be cached.
    """

    def __init__(self, function: Callable[..., Any], *arguments: str, kept: bool = True) -> None:
        self.function, self.arguments, self.kept = function, arguments, kept

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__.strip("_")

    @cached_property
    def _compiled(self) -> Any:
        from numba import cuda

        if is_simulated():
            _allocate_shared_arrays_once()
            return cuda.jit(self.function)
        restore_row_stack()
        with _kept_in_our_folder() as can_be_kept:
            return cuda.jit(cache=self.kept and can_be_kept)(self.function)

    def launch(
        self,
        n: int | tuple[int, int],
        *arguments: Any,
        stream: Any = 0,
        threads: int = THREADS_A_BLOCK,
        shared: int = 0,
    ) -> None:
        """Launch over `n` rows, or (rows, independent parts); a launch over no rows is skipped.

        Parameters
        ----------
        n : int or (int, int)
            Number of rows, and optionally the height of the grid.
        *arguments : device arrays and scalars
            Of the declared types.
        stream : cuda stream, optional
        threads : int
            Threads per block.
        shared : int
            Dynamic shared memory in bytes.
        """
        rows, parts = n if isinstance(n, tuple) else (n, 1)
        if rows == 0 or parts == 0:
            return
        with _small_grids():
            launcher = self._compiled[(blocks(rows, threads), parts), (threads, 1), stream, shared]
        launcher(*arguments)


@contextmanager
def _small_grids() -> Iterator[None]:
    """Suppress Numba's low-occupancy warning: small inputs legitimately under-fill the grid."""
    before = config.CUDA_LOW_OCCUPANCY_WARNINGS
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    try:
        yield
    finally:
        config.CUDA_LOW_OCCUPANCY_WARNINGS = before


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


def is_simulated() -> bool:
    """Return whether Numba's CUDA simulator replaces the device."""
    return bool(config.ENABLE_CUDASIM)


def as_numba(array: Any) -> Any:
    """Return a device array as a Numba argument, without waiting for the stream that uses it.

    Raises
    ------
    ValueError
        If it is not contiguous.
    """
    if array.ndim == 1 and array.size > 1 and tuple(array.strides) != (array.dtype.itemsize,):
        raise ValueError("expected a contiguous device array")
    if not hasattr(array, "__cuda_array_interface__"):  # the simulator's
        return array
    from numba import cuda

    return cuda.as_cuda_array(array, sync=False)


def is_on_device(array: Any) -> bool:
    """Return whether an array is in device memory."""
    return hasattr(array, "__cuda_array_interface__") or type(array).__module__.startswith("numba.cuda")
