"""Tasks for the workers in tests: functions that their processes can import."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from distributed import WorkerPlugin

from gpupipe.backends.base import Backend
from gpupipe.dask.configuration import BEFORE_START
from gpupipe.dask.worker_process import require_not_cancelled
from gpupipe.errors import DataError


def numbers(backend: Backend, start: int, stop: int) -> np.ndarray:
    return np.arange(start, stop, dtype="float64")


def total(backend: Backend, *parts: Any) -> float:
    return float(sum(np.asarray(part).sum() for part in parts))


def scaled(backend: Backend, values: np.ndarray, factor: np.ndarray) -> np.ndarray:
    return values * factor


def process(backend: Backend) -> int:
    return os.getpid()


def surroundings(backend: Backend) -> dict[str, Any]:
    wanted = ("OMP_WAIT_POLICY", "OMP_NUM_THREADS", "GPUPIPE_THREADS", *BEFORE_START)
    return {
        "backend": backend.name,
        "n_threads": backend.n_threads,
        "interrupts": signal.getsignal(signal.SIGINT) != signal.SIG_IGN,
        **{name: os.environ.get(name) for name in wanted},
    }


def backend_number(backend: Backend) -> tuple[int, int]:
    return os.getpid(), id(backend)


def unreadable(backend: Backend, row: int, seconds: float = 0.0) -> None:
    """Raise an error after `seconds` of work."""
    busy_for(backend, seconds)
    raise DataError("a field is missing", where=f"a.csv, row {row}", fix="fix it")


def broken(backend: Backend) -> None:
    raise ZeroDivisionError("a bug")


def out_of_memory(backend: Backend) -> None:
    raise MemoryError("8.00 GiB are not to be had")


def greedy(backend: Backend) -> None:
    """Allocate memory until this process is killed."""
    taken = []
    while True:
        taken.append(np.ones(1 << 20))


def crying_out(backend: Backend) -> None:
    """Print from Python and from C, and die."""
    print("a line on stdout", flush=True)
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    killed(backend)


def killed(backend: Backend) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_once(backend: Backend, witness: str, result: Any) -> Any:
    """Die on the first run, which creates the file `witness`; return `result` on the second."""
    if not Path(witness).exists():
        Path(witness).touch()
        killed(backend)
    return result


def stuck(backend: Backend) -> None:
    threading.Event().wait()


def wanted(backend: Backend) -> None:
    """Run until the task is cancelled."""
    while not threading.Event().wait(0.01):
        require_not_cancelled("a training")


def at_work(dask_worker: Any) -> int:
    """Return the number of tasks that hold a thread of a worker, including cancelled ones."""
    return dask_worker.state.executing_count


_hoard: list[np.ndarray] = []


def hoarded(backend: Backend, limit_bytes: int) -> None:
    """Leak memory: enough to pause a worker, too little for the nanny to kill it."""
    own = psutil.Process()
    while own.memory_info().rss < 0.88 * limit_bytes:
        _hoard.append(np.ones(1 << 18))


def busy_for(backend: Backend, seconds: float) -> float:
    """Use `seconds` of CPU time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        np.sqrt(np.ones(1 << 16)).sum()
    return seconds


class CudfImport(WorkerPlugin):
    """A plugin that looks up `numpy.row_stack` as ``import cudf`` does, in a process whose NumPy lacks it."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(np).pop("row_stack", None)

    def __getstate__(self) -> dict[str, Any]:
        return {"any": "state, so that __setstate__ is called"}

    def setup(self, worker: Any) -> None:
        worker.row_stack_found = hasattr(np, "row_stack")

    @staticmethod
    def succeeded(dask_worker: Any) -> bool:
        return bool(dask_worker.row_stack_found)


def status(dask_worker: Any) -> str:
    """Return the status of the nanny or the worker that it is run on."""
    return str(dask_worker.status.name)


def task_keys(dask_scheduler: Any) -> list[str]:
    """Return the keys of the tasks that the scheduler knows."""
    return [str(key) for key in dask_scheduler.tasks]
