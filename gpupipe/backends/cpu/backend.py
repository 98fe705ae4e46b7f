"""The host backend: NumPy, scikit-learn and XGBoost, with all threads of the machine.

Libraries are imported on first use, so that creating the backend is cheap.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from gpupipe.backends import machine
from gpupipe.backends.base import DEFAULT_OPTIONS, Backend, DeviceOptions, Item, Result
from gpupipe.backends.stage import StageUse
from gpupipe.typing import Array, ArrayNamespace, HostArray
from gpupipe_kernels.engines import choose_engine

if TYPE_CHECKING:
    from gpupipe_kernels.engines import HostEngine, KernelFamily
    from gpupipe_kernels.program.program import Program

# engine → the module of its reductions
REDUCTIONS = {"numpy": "gpupipe_kernels.reduce.numpy.engine", "numba": "gpupipe_kernels.reduce.numba.engine"}
TASKS_PER_THREAD = 32  # of one `map`: enough to balance the threads; each takes about 50 us


class _Thread(threading.local):
    is_worker = False


class CpuBackend(Backend):
    """Host backend."""

    name: Literal["cpu", "gpu"] = "cpu"

    def __init__(self, reason: str = "asked for", options: DeviceOptions = DEFAULT_OPTIONS) -> None:
        self.reason, self.options = reason, options
        # Idle OpenMP threads spin briefly, then sleep. Histogram gradient boosting, 200 rounds on two cores: on an idle
        # machine 0.3 s if they spin without end, 4.2 s if they sleep at once, 0.5 s with this count; next to one other
        # busy process 20 s, 0.5 s and 1.5 s. GNU's OpenMP follows the count, others the policy; both are read when the
        # library is loaded, so they are set before.
        if "OMP_WAIT_POLICY" not in os.environ:
            os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        self.n_threads = machine.n_threads()
        self._thread = _Thread()
        self._stage_engines: list[dict[str, str]] = []  # one for each open stage

    @property
    def xp(self) -> ArrayNamespace:
        import numpy

        return numpy

    @property
    def host(self) -> Backend:
        return self

    def estimator(self, name: str, params: Mapping[str, Any]) -> Any:
        from gpupipe.backends.cpu.estimators import create

        return create(name, params)

    def estimator_module(self, name: str) -> str | None:
        from gpupipe.backends.cpu.estimators import ESTIMATORS

        return ESTIMATORS.get(name)

    def empty_matrix(self, n_rows: int, n_columns: int) -> Array:
        """Return an uninitialised float32 matrix, column-major, aligned so that every library accepts it."""
        from gpupipe.backends.cpu.memory import empty

        return empty((n_rows, n_columns), "float32", "F")

    def take(self, values: Array, rows: Array, out: Array) -> None:
        """Write ``values[rows]`` to `out` with Arrow: NumPy would convert all row numbers to int64 first."""
        import pyarrow.compute as pc

        from gpupipe.arrow_numpy import number_array, to_numpy

        out[:] = to_numpy(pc.take(number_array(values), number_array(rows), boundscheck=False))

    def choose_engine(self, family: KernelFamily, size: int) -> HostEngine:
        can_compile = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
        chosen = choose_engine(family, size, self.n_threads, self.options.engine, can_compile)
        for engines in self._stage_engines:
            engines[family] = chosen
        return chosen

    def run_program(self, program: Program, blocks: Mapping[str, Array], out: Array, fold: Array | None = None) -> None:
        from gpupipe_kernels.interpreters.numpy import interpreter

        interpreter.run(program, blocks, out, fold, 1 if self._thread.is_worker else self.n_threads)
        self.last_interpreter = "numpy"

    def reductions(self, n_values: int, engine: str | None = None) -> Any:
        return import_module(REDUCTIONS[engine or self.choose_engine("reductions", n_values)])

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results in the order of `items`, computed on `n_threads` threads.

        Libraries that release the interpreter lock (NumPy, pyarrow) run in parallel. A nested call runs in the calling
        thread: its tasks would wait for threads that wait for it. The first exception, by order of `items`, is raised.
        """
        work = list(items)
        if self.n_threads == 1 or len(work) < 2 or self._thread.is_worker:
            return [function(item) for item in work]
        n_items = -(-len(work) // (self.n_threads * TASKS_PER_THREAD))
        tasks = [work[start : start + n_items] for start in range(0, len(work), n_items)]
        found = self._threads.map(lambda task: [function(item) for item in task], tasks)
        return list(chain.from_iterable(found))

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_threads, thread_name_prefix="gpupipe", initializer=self._mark_worker)

    def _mark_worker(self) -> None:
        self._thread.is_worker = True

    def to_host(self, array: Array) -> HostArray:
        """Return `array` as a NumPy array, without a copy if it is one."""
        import numpy as np

        return np.asarray(array)

    def to_device(self, array: Array) -> Array:
        return array

    def fall_back(self, what: str, where: str, fix: str) -> None:
        """Do nothing: the host is the requested device."""

    def open_stage(self) -> None:
        """Start recording the engines."""
        self._stage_engines.append({})

    def close_stage(self) -> StageUse:
        """Return the use of the CPU; no device is involved."""
        return StageUse(engines=self._stage_engines.pop())

    def synchronize(self) -> None:
        """Do nothing: host calls are synchronous."""

    def free_bytes(self) -> int:
        return self.memory().available
