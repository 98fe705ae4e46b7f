"""Loaded functions, ready to launch: from the shipped machine code, or compiled at run time.

Code is compiled at run time for loops with user kernels and, in a checkout, for loops whose sources are newer than the
shipped code. The driver turns PTX into machine code, and caches that itself.

`Module` and `Function` are CuPy's, in ``cupy.cuda``: `cupy.RawModule` reads files only, and passes no stream. Checked:
CuPy 14.2; their signatures are those of CuPy 1.0.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from gpupipe_kernels import code_cache
from gpupipe_kernels.device import binaries
from gpupipe_kernels.device.compiler import compile_entry, compiler_obstacle, join
from gpupipe_kernels.device.parameters import Entry

COMPILER = "pip install 'numba-cuda[cu13]' (or cu12)"


def load(function: Callable[..., Any], entry: Entry, key: str | None, inlined: Callable[[Any], Any]) -> Any:
    """Return an entry as a CuPy function on the current device.

    Raise DeviceCodeError if it has to be compiled and no compiler is installed, or the shipped code is damaged, and
    ValueError if it does not compile.

    Parameters
    ----------
    function : callable
        The device loop.
    key : str or None
        ``""`` for a loop of this package. For another, the name under which its PTX is cached on disk; None: nowhere.
    inlined : callable
        See `compile_entry`.
    """
    is_shipped = key == "" and entry.name in binaries.manifest()["entries"]
    if is_shipped and binaries.is_current():
        return _shipped_module(current_device()).get_function(entry.name)
    if problem := compiler_obstacle():
        why = "its source is newer than the shipped machine code" if is_shipped else "it is compiled at run time"
        fix = f"{COMPILER}, or {binaries.BUILD}" if is_shipped else COMPILER
        raise binaries.DeviceCodeError(f"{entry.name} cannot run on the GPU: {why}, and {problem}", fix)
    name = entry.name if is_shipped else key or None
    return _module(_cached_ptx(function, entry, name, inlined)).get_function(entry.name)


def current_device() -> int:
    """Return the number of CuPy's current device."""
    import cupy

    number: int = cupy.cuda.runtime.getDevice()
    return number


def default_stream() -> Any:
    """Return the default stream, on which kernels run unless another is given."""
    import cupy

    return cupy.cuda.Stream.null


def capability(device: int) -> tuple[int, int]:
    """Return the compute capability of a device."""
    import cupy

    digits = cupy.cuda.Device(device).compute_capability  # such as "90", or "120"
    return int(digits[:-1]), int(digits[-1])


@cache
def _shipped_module(device: int) -> Any:
    return _module(binaries.read(binaries.file_for(capability(device))))


def _module(code: bytes) -> Any:
    import cupy

    module = cupy.cuda.Module()
    module.load(code)
    return module


def _cached_ptx(function: Callable[..., Any], entry: Entry, name: str | None, inlined: Callable[[Any], Any]) -> bytes:
    """Return the PTX of an entry, from the folder of compiled code if it is there, else compiled and saved there."""
    path = code_cache.cache_folder() / f"{name}.ptx"
    is_kept = name is not None and code_cache.can_keep()
    if is_kept and path.is_file():
        return path.read_bytes()
    ptx = join([compile_entry(function, entry, inlined)]).encode()
    if is_kept:
        hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with suppress(OSError):  # a full disk
            hidden.write_bytes(ptx)
            hidden.replace(path)
            code_cache.mark_kept(path.stem)
    return ptx
