"""Choice of the host engine. Kernels for device arrays run on the device.

``numpy``  starts at once
``numba``  compiled loops; with an empty code cache, the first call waits seconds for the compiler

The choice depends only on the amount of work, the number of threads and the setting, never on what has already been
compiled. So the results of a run do not depend on earlier runs, and a model predicts the same for a row however often
it is called. The cost: cached code is not used for small inputs unless the setting is ``numba``.

The two engines give identical bits for reductions and texts. For histories they round the same sums in a different
order, so their float64 values differ in the last digits before rounding to float32.

Programs always run in the NumPy interpreter, so a model scores a single row exactly as in its training matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HostEngine = Literal["numpy", "numba"]
EngineSetting = Literal["auto", "numpy", "numba"]
KernelFamily = Literal["reductions", "keyed", "text"]


@dataclass(frozen=True)
class EngineCosts:
    """Cost and benefit of the compiled loops of a family, measured on two cores of an EPYC 9004.

    Attributes
    ----------
    compile_seconds : float
        Processor time to compile all of them with an empty cache.
    saved_ns : float
        Processor time saved per unit of work: a value, an event or a byte.
    numpy_is_threaded : bool
        Whether the NumPy engine runs on all threads too, so that its wall time is less than its processor time.
    """

    compile_seconds: float
    saved_ns: float
    numpy_is_threaded: bool


COSTS: dict[KernelFamily, EngineCosts] = {
    "reductions": EngineCosts(3.6, 2.0, True),  # per value
    "keyed": EngineCosts(5.2, 4_000.0, False),  # per event; a dozen features save 5,000 to 7,000
    "text": EngineCosts(2.9, 25.0, False),  # per byte
}


def choose_engine(
    family: KernelFamily, size: int, n_threads: int = 1, setting: EngineSetting = "auto", can_compile: bool = True
) -> HostEngine:
    """Return the engine for an amount of work on the host.

    Parameters
    ----------
    family : {"reductions", "keyed", "text"}
    size : int
        Units of work: values to reduce (rows by columns), events, or bytes of text.
    setting : {"auto", "numpy", "numba"}
        ``auto`` selects compiled loops if they save more than compiling them costs.
    can_compile : bool
        False if Numba's compiler is disabled.
    """
    if not can_compile:
        return "numpy"
    if setting != "auto":
        return setting
    costs = COSTS[family]
    saved = costs.saved_ns * 1e-9 * size / (n_threads if costs.numpy_is_threaded else 1)
    return "numba" if saved > costs.compile_seconds else "numpy"
