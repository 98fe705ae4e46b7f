"""Which implementation of the reductions runs on the host.

``numpy``  NumPy alone: nothing to compile or to load, so it is what small inputs run
``numba``  compiled loops, which read memory once
"""

from __future__ import annotations

import os
import sys

from gpupipe_kernels import code_cache
from gpupipe_kernels.reduce.engine import NAME, ReductionEngine

NUMBA = "gpupipe_kernels.reduce.numba.engine"
LOAD_SECONDS = 0.6  # until compiled loops compute in a fresh process: Numba is imported, they are read from disk
SAVED_NS = 1.5  # of processor time that they save of a value: 23 columns of 4 million rows on an EPYC 9004


def choose(n_values: int, n_threads: int = 1, name: str | None = None) -> ReductionEngine:
    """Return the engine for so many values (rows by columns), or the one of a name.

    Compiled loops are taken where they are at hand: used already in this process, or on disk and worth loading. No
    run waits for a compiler.
    """
    if name is None:
        name = "numba" if _is_at_hand(n_values * SAVED_NS * 1e-9 / n_threads) else "numpy"
    if name == "numba":
        from gpupipe_kernels.reduce.numba import engine as numba_engine

        return numba_engine
    from gpupipe_kernels.reduce.numpy import engine as numpy_engine

    return numpy_engine


def _is_at_hand(saved_seconds: float) -> bool:
    """Return whether there is compiled code, and it is loaded or saves more seconds than it takes to load."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return False
    loaded = sys.modules.get(NUMBA)
    if loaded is not None and loaded.is_compiled():
        return True
    return saved_seconds > LOAD_SECONDS and code_cache.is_kept(NAME)
