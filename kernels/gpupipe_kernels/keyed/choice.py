"""Which engine computes: one of three implementations of the same operations.

``numpy``  NumPy alone: nothing to compile or to load, so it is what small inputs run
``numba``  compiled loops on all cores of the host
``cuda``   CUDA kernels, for arrays that lie on the device
"""

from __future__ import annotations

import os
import sys

from gpupipe_kernels.code_cache import is_kept
from gpupipe_kernels.keyed.engine import Allocate, KeyedEngine
from gpupipe_kernels.typing import Array

# Rows from which on the compiled loops are the faster way for a dozen features, measured on two cores: NumPy takes 1 to
# 1.5 us a row for these, the loops 0.1; Numba takes 0.5 s to load and to read them from disk, and 6 s to compile them.
ROWS_WORTH_RUNNING = 4_000
ROWS_WORTH_LOADING = 500_000
ROWS_WORTH_COMPILING = 4_000_000
KEPT = "keyed_take"  # a loop that every history runs stands for all


def choose(array: Array, name: str | None = None, n_threads: int = 1, allocate: Allocate | None = None) -> KeyedEngine:
    """Return the engine for an array: by where it lies, by `name` if that is given, or else by its length.

    `allocate` is for the engine of the device.

    Raises
    ------
    ValueError
        If there is no such engine for this array.
    """
    if type(array).__module__.partition(".")[0] != "numpy":
        if name is not None:
            raise ValueError(f"engine {name!r} is for arrays on the host")
        from gpupipe_kernels.keyed.cuda.engine import CudaEngine

        return CudaEngine(allocate)
    if name is None:
        name = "numba" if len(array) >= _rows_worth_numba() else "numpy"
    if name == "numpy":
        from gpupipe_kernels.keyed.numpy.engine import NumpyEngine

        return NumpyEngine()
    if name == "numba":
        from gpupipe_kernels.keyed.numba.engine import NumbaEngine

        return NumbaEngine(n_threads)
    raise ValueError(f"no engine {name!r} for arrays on the host: numpy or numba")


def _rows_worth_numba() -> int:
    """Return from how many rows on compiled loops pay in this process; asking does not load Numba."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return sys.maxsize
    loops = sys.modules.get("gpupipe_kernels.keyed.numba.loops")
    if loops is not None and loops.take.signatures:
        return ROWS_WORTH_RUNNING
    return ROWS_WORTH_LOADING if is_kept(KEPT) else ROWS_WORTH_COMPILING
