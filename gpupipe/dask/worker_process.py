"""Execution of tasks in a worker process, with the backend of that process."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from distributed import get_worker

from gpupipe.backends import choose, machine
from gpupipe.backends.base import DEFAULT_OPTIONS, Backend, DeviceOptions
from gpupipe.dask.worker_output import redirect_output
from gpupipe.errors import ClusterError
from gpupipe_kernels.numpy_compat import restore_row_stack

METRIC = "gpupipe"
NO_ARGUMENT = ...  # pads lists of arguments to the same length

_lock = threading.Lock()
_tally = {"tasks": 0, "seconds": 0.0}


@dataclass(frozen=True)
class WorkerSettings:
    """Device ("cpu" or "gpu") and threads of every worker.

    `n_threads` are those of one task; None: ``GPUPIPE_THREADS`` of the worker, else 1, since a worker runs one task per
    thread.
    """

    device: str
    options: DeviceOptions = DEFAULT_OPTIONS
    n_threads: int | None = None


def run_task(settings: WorkerSettings, pickled: bytes, *arguments: Any) -> Any:
    """Return ``function(backend, *arguments)`` of a pickled function, without the arguments that are `NO_ARGUMENT`."""
    start = time.perf_counter()
    try:
        function = pickle.loads(pickled)
        return function(backend_of(settings), *(given for given in arguments if given is not NO_ARGUMENT))
    finally:
        with _lock:
            _tally["tasks"] += 1
            _tally["seconds"] += time.perf_counter() - start


def backend_of(settings: WorkerSettings) -> Backend:
    """Return the backend of this process, made on first use."""
    with _lock:
        return _cached_backend(settings)


@cache
def _cached_backend(settings: WorkerSettings) -> Backend:
    if settings.n_threads is None:
        os.environ.setdefault("GPUPIPE_THREADS", "1")
    else:
        os.environ["GPUPIPE_THREADS"] = str(settings.n_threads)
    get_worker().metrics[METRIC] = measure_usage
    return choose(settings.device, settings.options)


def dask_setup(worker: Any) -> None:
    """Prepare the process of a worker, before its plugins start.

    Interrupts and printed lines are left to the driver, which stops the workers on an interrupt.
    """
    restore_row_stack()  # dask-cuda's plugins import cuDF in each worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    redirect_output(worker.address)


def identity(value: Any) -> Any:
    """Return `value`: the task that holds a value sent to the workers."""
    return value


def require_not_cancelled(where: str) -> None:
    """Raise a ClusterError if the task of this thread was cancelled: its client is lost, or has released it."""
    worker = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    if task is None or task.state == "cancelled":
        raise ClusterError("the task was cancelled", where=where)


def measure_usage(dask_worker: Any) -> tuple[int, float, int, int]:
    """Return the number and seconds of tasks, the peak memory, and the bytes of results held by this process.

    Dask sends the figures with each heartbeat of the worker.
    """
    return int(_tally["tasks"]), _tally["seconds"], machine.memory().peak, int(dask_worker.state.nbytes)
