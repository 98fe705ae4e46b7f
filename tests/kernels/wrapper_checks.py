"""Checks of wrappers and packed arguments in Numba's simulator, run by `test_device_code`.

Kernels are launched as on a GPU. The stand-in for CuPy's function reduces each argument to the bytes that a driver
gets, reads pointers, lengths and scalars from them by the manifest's words, and runs the entry's wrapper on arrays at
those addresses.
"""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

import tests.simulator
from gpupipe_kernels import launch
from gpupipe_kernels.catalog import kernels
from gpupipe_kernels.device import binaries, functions
from gpupipe_kernels.device.language import bind
from gpupipe_kernels.device.parameters import Entry
from gpupipe_kernels.proof.fuzz import compare, on_device

CHECKED = (
    "lookup",
    "program",
    "text_hash",
    "text_counts",
    "reduce_count",
    "reduce_bin",
    "reduce_total",
    "draw_words",
    "keyed_lag",
)
N_ROWS = 70  # more than a tile of the interpreters
launched: set[str] = set()


def in_memory(value: Any) -> bytes:
    """Return an argument as a driver gets it."""
    address = np.uint64(value._ary.ctypes.data) if isinstance(value, FakeCUDAArray) else value
    return address.tobytes()


def carray(pointer: tuple[int, Any], shape: tuple[int, ...]) -> FakeCUDAArray:
    """Return the array at an address."""
    address, dtype = pointer
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    if n_bytes == 0:
        return FakeCUDAArray(np.empty(shape, dtype))
    return FakeCUDAArray(np.frombuffer((ctypes.c_byte * n_bytes).from_address(address), dtype).reshape(shape))


def load(function: Any, entry: Entry, key: str | None, inlined: Any) -> Any:
    """Return the stand-in for a function of the machine code."""
    cuda = bind(function)
    own: dict[str, Any] = {}
    words = binaries.manifest()["entries"][entry.name].split()

    def run(grid: Any, block: Any, arguments: Any, shared: int, stream: Any) -> None:
        launched.add(entry.name)
        assert len(arguments) == len(words)
        read: list[Any] = []
        for word, value in zip(words, map(in_memory, arguments), strict=True):
            dtype = np.dtype(np.uint64 if word.endswith("*") else word)
            assert len(value) == dtype.itemsize, (entry.name, word, value)
            (number,) = np.frombuffer(value, dtype)
            read.append((int(number), np.dtype(word[:-1])) if word.endswith("*") else number)
        views: list[Any] = []  # the wrapper's own calls, so that the loop runs with its module's `cuda`
        exec(entry.wrapper, {"loop": lambda *given: views.extend(given), "carray": carray}, own)
        own["entry"](*read)
        cuda.jit(function)[grid, block, 0, shared](*views)

    return run


def main() -> int:
    """Compare kernels with their references; print the entries that were launched."""
    tests.simulator.install()
    launch._allocate_shared_arrays_once()
    kernels()  # in the simulator, array formulas are decorated as plain functions
    vars(launch)["is_simulated"] = lambda: False
    vars(functions).update(load=load, current_device=lambda: 0, default_stream=lambda: SimpleNamespace(ptr=0))
    failed = False
    for name in CHECKED:
        found = compare(kernels()[name], on_device(kernels()[name]), 0, N_ROWS)
        failed |= bool(found.failure)
        print(name, found.failure or "ok")
    print(*sorted(launched))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
