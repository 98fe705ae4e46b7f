"""What runs in the process of a worker: a function of ours, with the backend of that process."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Concatenate, TypeVar

from distributed import get_worker

from gpupipe.backends import choose, device_report, machine
from gpupipe.backends.base import DEFAULT_OPTIONS, Backend, DeviceOptions
from gpupipe.dask.worker_output import divert
from gpupipe.errors import ClusterError
from gpupipe_kernels.numpy_compat import restore_row_stack

Result = TypeVar("Result")

METRIC = "gpupipe"
NOTHING = ...  # fills up lists of arguments, so that all have the same length

_lock = threading.Lock()
_tally = {"tasks": 0, "seconds": 0.0}


@dataclass(frozen=True)
class Place:
    """How every worker computes.

    Attributes
    ----------
    device : {"cpu", "gpu"}
    options : DeviceOptions
    n_threads : int, optional
        Of one task; None: what ``GPUPIPE_THREADS`` says there, else one, since a worker has a task for each thread.
    """

    device: str
    options: DeviceOptions = DEFAULT_OPTIONS
    n_threads: int | None = None


def work(place: Place, function: Callable[Concatenate[Backend, ...], Result], *arguments: Any) -> Result:
    """Return ``function(backend, *arguments)``, but those that are `NOTHING`."""
    start = time.perf_counter()
    try:
        return function(backend_of(place), *(given for given in arguments if given is not NOTHING))
    finally:
        with _lock:
            _tally["tasks"] += 1
            _tally["seconds"] += time.perf_counter() - start


def backend_of(place: Place) -> Backend:
    """Return the backend of this process, made when it is first asked for."""
    with _lock:
        return _made(place)


@cache
def _made(place: Place) -> Backend:
    if place.n_threads is None:
        os.environ.setdefault("GPUPIPE_THREADS", "1")
    else:
        os.environ["GPUPIPE_THREADS"] = str(place.n_threads)
    get_worker().metrics[METRIC] = own_use
    return choose(place.device, place.options)


def dask_setup(worker: Any) -> None:
    """Prepare the process of a worker, before its plugins start.

    Interrupts and printed lines are left to the driver, which ends the workers on an interrupt.
    """
    restore_row_stack()  # dask-cuda's plugins import cuDF in each worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    divert(worker.address)


def give(value: Any) -> Any:
    """Return `value`: a task that does nothing holds what is sent to the workers."""
    return value


def require_wanted(where: str) -> None:
    """Raise a ClusterError if nobody waits for the task of this thread: its client is gone, or has given it up."""
    worker = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    if task is None or task.state == "cancelled":
        raise ClusterError("nobody waits for this task any more", where=where)


def gpu_obstacle() -> str:
    """Return why this process cannot use a GPU; ``""`` if it can."""
    return device_report().gpu_obstacle


def own_use(dask_worker: Any) -> tuple[int, float, int, int]:
    """Return the tasks that this process has worked on, their seconds, and the most bytes held, and those of results.

    Dask sends it along with each of the worker's signs of life.
    """
    return int(_tally["tasks"]), _tally["seconds"], machine.memory().peak, int(dask_worker.state.nbytes)
