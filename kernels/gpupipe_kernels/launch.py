"""How kernels are compiled, kept and launched: the one place that knows of Numba's decorators and of the device.

``formula``     a scalar function that compiled code on either processor may call
``host_loop``   a loop over rows for the host: threads, compiled when first called, kept on disk
``DeviceLoop``  a loop over rows for the device: compiled when first launched, kept on disk

Compiled code is kept in a folder named by a hash of this package's sources: Numba itself looks only at the file that
holds a function, and would go on using a loop whose formula, in another file, has changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numba
from numba import njit
from numba.core import config

THREADS_A_BLOCK = 256


@cache
def fingerprint() -> str:
    """Return a hash of the sources of this package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Return the folder of compiled code: below ``NUMBA_CACHE_DIR``, or else the user's cache folder."""
    root = os.environ.get("NUMBA_CACHE_DIR")
    base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpupipe"
    return base / "kernels" / fingerprint()


@contextmanager
def _kept_in_our_folder() -> Iterator[None]:
    # Numba takes the folder when a function is decorated.
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())
    try:
        yield
    finally:
        config.CACHE_DIR = before


def formula(function: Callable[..., Any]) -> Any:
    """Let compiled code of either processor call a scalar function; it becomes part of the loop that calls it."""
    return njit(inline="always")(function)


def host_loop(function: Callable[..., Any]) -> Any:
    """Compile a loop for the host when it is first called: ``prange`` runs on all threads, without the lock."""
    with _kept_in_our_folder():
        return njit(parallel=True, nogil=True, cache=True)(function)


class DeviceLoop:
    """A CUDA kernel: a function of arrays and scalars whose threads stride over the grid.

    Parameters
    ----------
    function : callable
        Python source of the kernel; uses ``numba.cuda`` for its place in the grid.
    arguments : tuple of str
        Numba types of its arguments, such as ``"float32[::1]"`` or ``"int32"``: what it is compiled for, here and where
        the machine code is inspected.
    """

    def __init__(self, function: Callable[..., Any], *arguments: str) -> None:
        self.function, self.arguments = function, arguments

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__.strip("_")

    @cached_property
    def _compiled(self) -> Any:
        from numba import cuda

        with _kept_in_our_folder():
            return cuda.jit(self.function) if is_simulated() else cuda.jit(cache=True)(self.function)

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
        grid = (blocks(rows, threads), parts)
        self._compiled[grid, (threads, 1), stream, shared](*arguments)


def blocks(n_rows: int, threads: int = THREADS_A_BLOCK) -> int:
    """Return how many blocks cover `n_rows`; kernels stride, so more than the device can hold are not needed."""
    return max(1, min(-(-n_rows // threads), 65_535))


def is_simulated() -> bool:
    """Return whether Numba's CUDA simulator stands in for a device."""
    return bool(config.ENABLE_CUDASIM)


def is_on_device(array: Any) -> bool:
    """Return whether an array lies in device memory."""
    return hasattr(array, "__cuda_array_interface__") or type(array).__module__.startswith("numba.cuda")


def set_threads(n_threads: int) -> None:
    """Use so many threads in host loops from now on, or as many as there are if that is less."""
    numba.set_num_threads(min(n_threads, int(config.NUMBA_NUM_THREADS)))
