"""Peak rates of one core of this machine, measured in about half a second."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from gpupipe.backends.threads import limit_threads
from gpupipe.plan.gpu_choice.roofline import Peaks
from gpupipe.units import MIB

COPIED = 64 * MIB  # larger than the caches of a core
SIDE = 768  # of the matrices that are multiplied
REPEATS = 5  # the fastest counts: others may use the machine


def measure_core() -> Peaks:
    """Return the bytes copied per second by one thread, and the operations per second of its matrix products.

    CPU time is measured, not time: other processes may use the machine.
    """
    source = np.ones(COPIED // 8)
    target = np.empty_like(source)
    with limit_threads(blas=1):
        copied = _seconds(lambda: np.copyto(target, source))
        single = _seconds(_product("float32"))
        double = _seconds(_product("float64"))
    n_flops = 2.0 * SIDE**3
    return Peaks(2 * COPIED / copied, n_flops / single, n_flops / double, n_flops / single)


def _product(dtype: str) -> Callable[[], None]:
    factor = np.full((SIDE, SIDE), 0.5, dtype)
    out = np.empty_like(factor)

    def multiply() -> None:
        np.matmul(factor, factor, out=out)

    return multiply


def _seconds(run: Callable[[], None]) -> float:
    run()
    found = []
    for _ in range(REPEATS):
        began = time.thread_time()
        run()
        found.append(time.thread_time() - began)
    return max(min(found), 1e-9)
