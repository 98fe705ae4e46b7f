"""Threads of Arrow at the end of the process.

Arrow's threads release the Python objects of a reader (streams, buffers, handlers) after the call that needed them has
returned. Before version 3.14, Python ends a thread that asks for the interpreter while it shuts down; in a C++
destructor, that aborts the process: ``terminate called without an active exception``.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress

MOST_SECONDS = 5.0  # a thread that waits for a network share must not keep the process
LOOK_SECONDS = 0.001

# Names of C++ functions, as GCC and Clang write them: pyarrow 19 to 26 has no public name for them.
POOLS = ("_ZN5arrow8internal16GetCpuThreadPoolEv", "_ZN5arrow2io8internal15GetIOThreadPoolEv")
N_TASKS = "_ZN5arrow8internal10ThreadPool11GetNumTasksEv"


def await_arrow_threads() -> None:
    """Wait until Arrow's threads have no work, and so have released its objects, at most `MOST_SECONDS`."""
    with suppress(AttributeError, ImportError, MemoryError, OSError):  # then a late thread may still abort the process
        until = time.monotonic() + MOST_SECONDS
        while count_arrow_tasks() and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)


def count_arrow_tasks() -> int:
    """Return the number of tasks that Arrow's thread pools run or queue; 0 if pyarrow is not imported.

    Raise AttributeError or OSError if pyarrow does not have these functions.
    """
    if "pyarrow.lib" not in sys.modules:
        return 0
    import ctypes  # few processes have not imported it by now

    library = ctypes.CDLL(sys.modules["pyarrow.lib"].__file__)  # finds what it was linked with, too
    n_tasks = library[N_TASKS]
    n_tasks.argtypes = (ctypes.c_void_p,)
    pools = [library[name] for name in POOLS]
    for pool in pools:
        pool.restype = ctypes.c_void_p
    return sum(n_tasks(pool()) for pool in pools)
