"""How kernels are compiled, kept and launched: the one place that knows of Numba's decorators and of the device.

``formula``      a scalar function that compiled code on either processor may call; ``array_formula``: one of arrays too
``host_step``    a loop over part of the rows, called by a host block
``host_block``   a loop over a block of rows for the host, kept on disk; the threads are the caller's (`threads`)
``host_walk``    the same, of formulas that take arrays
``DeviceLoop``   a loop over rows for the device: compiled when first launched, kept on disk

All are compiled when they are first called, not before. `gpupipe_kernels.code_cache` says where the code is kept.
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
from numba.extending import register_jitable

from gpupipe_kernels.code_cache import cache_folder, can_keep
from gpupipe_kernels.numpy_compat import restore_row_stack

THREADS_A_BLOCK = 32 if config.ENABLE_CUDASIM else 256  # in the simulator few rows are to be several blocks

# Division by 0 gives inf or NaN, as in NumPy and on the device; a check that could raise would not be vectorised.
HOST = {"error_model": "numpy", "nogil": True}


@contextmanager
def _kept_in_our_folder() -> Iterator[bool]:
    """Let Numba keep what is decorated here in our folder; yields False where it cannot, or must not, be used."""
    before = config.CACHE_DIR  # Numba takes the folder when a function is decorated
    config.CACHE_DIR = str(cache_folder())
    try:
        yield can_keep()
    finally:
        config.CACHE_DIR = before


def formula(function: Callable[..., Any]) -> Any:
    """Let compiled code of either processor call a scalar function; it becomes part of the loop that calls it.

    That is asked of LLVM, since only a loop without calls is vectorised. Numba's own inlining works on the source: a
    loop of many formulas then takes minutes to compile.
    """
    return njit(error_model="numpy", forceinline=True)(function)


def array_formula(function: Callable[..., Any]) -> Any:
    """The same for a function that takes arrays: in the simulator, whose arrays mean nothing to a compiler, plain.

    It is inlined in any case: an array is seven arguments, and a call with a dozen of them costs more than a query.
    """
    return register_jitable(function) if is_simulated() else njit(error_model="numpy", forceinline=True)(function)


def host_step(function: Callable[..., Any]) -> Any:
    """Compile a loop that host blocks call; it is kept as part of them."""
    return njit(**HOST)(function)


def host_block(function: Callable[..., Any]) -> Any:
    """Compile a loop over a block of rows for the host: without the interpreter lock, on the thread that calls it."""
    with _kept_in_our_folder() as kept:
        return njit(cache=kept, **HOST)(function)


def read_only(array: Any) -> Any:
    """Return a contiguous view that cannot be written: compiled code has a type of its own for those."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def host_walk(function: Callable[..., Any]) -> Any:
    """Compile a `host_block` that makes no arrays, so that Numba need not count who holds those that it is given.

    Formulas that take arrays want this: counted at each call of one, a query of 5 ns took 120.
    """
    with _kept_in_our_folder() as kept:
        return njit(cache=kept, _nrt=False, **HOST)(function)


class DeviceLoop:
    """A CUDA kernel: a function of arrays and scalars whose threads stride over the grid.

    Parameters
    ----------
    function : callable
        Python source of the kernel; uses ``numba.cuda`` for its place in the grid.
    arguments : tuple of str
        Numba types of its arguments, such as ``"float32[::1]"`` or ``"int32"``: what it is compiled for, here and where
        the machine code is inspected.
    kept : bool
        Whether compiled code is kept on disk. Numba finds it by the name and the place of the function, so one that was
        made of another's code must not be.
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
        """Launch over `n` rows, or (rows, independent parts); a launch over none is left out.

        Parameters
        ----------
        n : int or (int, int)
            Rows, and the height of the grid.
        *arguments : device arrays and scalars
            As declared.
        stream : cuda stream, optional
        threads : int
            Threads a block.
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
    """Keep Numba from warning of a grid that does not fill the device: a small table is nobody's mistake."""
    before = config.CUDA_LOW_OCCUPANCY_WARNINGS
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    try:
        yield
    finally:
        config.CUDA_LOW_OCCUPANCY_WARNINGS = before


def blocks(n_rows: int, threads: int = THREADS_A_BLOCK) -> int:
    """Return how many blocks cover `n_rows`; kernels stride, so more than the device can hold are not needed."""
    return max(1, min(-(-n_rows // threads), 65_535))


@cache
def _allocate_shared_arrays_once() -> None:
    """Repair the simulator: threads that ask for a shared array at the same moment may get one each, with garbage."""
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
    """Return whether Numba's CUDA simulator stands in for a device."""
    return bool(config.ENABLE_CUDASIM)


def as_numba(array: Any) -> Any:
    """Return an array of the device as Numba takes it, without waiting for the stream that it is used on.

    Raises
    ------
    ValueError
        If its elements are not contiguous.
    """
    if array.ndim == 1 and array.size > 1 and tuple(array.strides) != (array.dtype.itemsize,):
        raise ValueError("the elements of an array on the device must be contiguous")
    if not hasattr(array, "__cuda_array_interface__"):  # the simulator's
        return array
    from numba import cuda

    return cuda.as_cuda_array(array, sync=False)


def is_on_device(array: Any) -> bool:
    """Return whether an array lies in device memory."""
    return hasattr(array, "__cuda_array_interface__") or type(array).__module__.startswith("numba.cuda")
