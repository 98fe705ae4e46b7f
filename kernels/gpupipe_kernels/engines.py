"""The one chooser of what computes on the host. On a device there is nothing to choose: kernels run where the data is.

``numpy``  starts at once
``numba``  compiled loops; in an empty code cache, the first call waits seconds for the compiler

The choice is a function of the work, the threads and the setting, and of nothing else: never of what has been compiled
before, by this process or another one. So a run has the same digits whatever ran before it, and a model predicts the
same for a row however often it was called. The price: code that is on disk already is not used for small work, unless
the setting is ``numba``.

Both engines of reductions and of texts give the same bits. Those of histories round the same sums in another order:
before float32, they differ in the last digits of float64.

There is no choice between the interpreters of a program: NumPy's runs, whatever the number of rows. The compiled one
agrees with it only within the tolerances that `gpupipe_kernels.interpreters.kernels` declares, and a model must score a
single row with the digits of its training matrix. It pays too little to give that up: of 20 million rows it saves 0.3 s
of processor time for 20 ordinary columns, 4 s for 14 logarithms, powers, sines and distances, and takes 7 s to compile.
A process that scores again and again can ask for it (``gpupipe.load_model(path, engine="numba")``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HostEngine = Literal["numpy", "numba"]
EngineSetting = Literal["auto", "numpy", "numba"]
KernelFamily = Literal["reductions", "keyed", "text"]


@dataclass(frozen=True)
class EngineCosts:
    """What the compiled loops of a family cost and save, measured on two cores of an EPYC 9004.

    Attributes
    ----------
    compile_seconds : float
        Processor time to compile them all, with nothing on disk.
    saved_ns : float
        Processor time that they save for a unit of work: a value, an event, a byte.
    numpy_is_threaded : bool
        Whether NumPy's engine runs on all threads too, so that it waits for less than the processor time it takes.
    """

    compile_seconds: float
    saved_ns: float
    numpy_is_threaded: bool


COSTS: dict[KernelFamily, EngineCosts] = {
    "reductions": EngineCosts(3.6, 2.0, True),  # a value
    "keyed": EngineCosts(5.2, 4_000.0, False),  # an event: of a dozen features, 5,000 to 7,000
    "text": EngineCosts(2.9, 25.0, False),  # a byte
}


def choose_engine(
    family: KernelFamily, size: int, n_threads: int = 1, setting: EngineSetting = "auto", can_compile: bool = True
) -> HostEngine:
    """Return the engine for some work on the host.

    Parameters
    ----------
    family : {"reductions", "keyed", "text"}
    size : int
        Units of work: values to reduce (rows by columns), events, or bytes of text.
    n_threads : int
    setting : {"auto", "numpy", "numba"}
        ``auto`` takes compiled loops where they save more than compiling them costs.
    can_compile : bool
        False where Numba's compiler is switched off.
    """
    if not can_compile:
        return "numpy"
    if setting != "auto":
        return setting
    costs = COSTS[family]
    saved = costs.saved_ns * 1e-9 * size / (n_threads if costs.numpy_is_threaded else 1)
    return "numba" if saved > costs.compile_seconds else "numpy"
