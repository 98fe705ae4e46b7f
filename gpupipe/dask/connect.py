"""Connection to the workers that ``--cluster`` and the ``cluster:`` section ask for.

local
    Workers are processes of this machine, started for the run and ended with it: of the CPU, or one for each GPU.
tcp://host:8786, or a scheduler file
    Workers are those of a scheduler that runs already. They must be of a kind with this process: see
    `gpupipe.dask.versions`.
"""

from __future__ import annotations

import json
import logging
import os
import pkgutil
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.backends import device_report, machine
from gpupipe.backends.base import DEFAULT_OPTIONS, DeviceOptions
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask import versions
from gpupipe.dask.configuration import BEFORE_START, dask_settings
from gpupipe.dask.worker_output import capture_output
from gpupipe.errors import ClusterError, ConfigError, DeviceError
from gpupipe_kernels.numpy_compat import restore_row_stack

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

    from gpupipe.dask.workers import DaskWorkers

ANSWER_SECONDS = 10.0  # for a scheduler to answer at all
SETTLE_SECONDS = 5.0  # for a worker that is being started again
OUR_VERSION = "gpupipe:__version__"
# Keywords that Dask's and dask-cuda's clusters hand on to their workers: one begins with the `dask_setup` of a module.
FOR_EACH_WORKER = {"preload": ["gpupipe.dask.worker_process"]}
SILENT = logging.CRITICAL + 1
START_FAILURES = (RuntimeError, OSError, ValueError, AssertionError)
NO_LOOP = "its event loop did not start within 10 s"  # what Dask asserts without a word


@contextmanager
def connect(
    settings: ClusterSettings, device: str = "auto", options: DeviceOptions = DEFAULT_OPTIONS
) -> Iterator[DaskWorkers]:
    """Yield the workers of a cluster. Workers that were started for it are always ended on exit.

    Parameters
    ----------
    settings : ClusterSettings
        Its ``scheduler`` is given.
    device : {"auto", "cpu", "gpu"}
        auto: the GPU if every worker has one.
    options : DeviceOptions
        How a worker's GPU is used.

    Raises
    ------
    ConfigError
        If Dask is not installed, or the settings ask for what is not there (a file, more workers than GPUs).
    ClusterError
        If no scheduler answers, has no workers, or these have other versions.
    DeviceError
        If "gpu" is demanded and a worker has none.
    """
    _require("distributed", "pip install 'gpupipe[cluster]'")
    if settings.dashboard_address:
        _require("bokeh", "pip install bokeh, or leave cluster.dashboard_address out")
    import dask
    import distributed  # its own defaults and its loggers are there from now on

    with ExitStack() as stack:
        stack.enter_context(_started_safely())
        stack.enter_context(dask.config.set(dask_settings(settings, ANSWER_SECONDS)))
        stack.enter_context(_quiet(distributed.__name__, "tornado", "asyncio"))
        if settings.scheduler == "local":
            outputs = stack.enter_context(capture_output())
            yield stack.enter_context(_started(settings, device, options, outputs))
        else:
            yield stack.enter_context(_found(settings, device, options))


@contextmanager
def _started_safely() -> Iterator[None]:
    """Have Python that is started here import nothing from the current folder first; restore the environment on exit.

    Workers and the tracker of their semaphores are started with ``python -c``. What Dask sets for them in this process
    is restored too.
    """
    before = {name: os.environ.get(name) for name in BEFORE_START}
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _started(settings: ClusterSettings, device: str, options: DeviceOptions, outputs: Path) -> Iterator[DaskWorkers]:
    from distributed import Client

    from gpupipe.dask.worker_process import WorkerSettings

    report = device_report()
    if device == "gpu" and report.gpu_obstacle:
        raise DeviceError(f"the GPU was asked for and cannot be used: {report.gpu_obstacle}", where="device: gpu")
    on_gpu = device != "cpu" and not report.gpu_obstacle
    reason = report.gpu.reason if on_gpu else "asked for" if device == "cpu" else report.gpu_obstacle
    start = _start_on_gpus if on_gpu else _start_on_cpu
    try:
        cluster = start(settings)
    except START_FAILURES as error:
        raise ClusterError(
            f"the workers do not start: {str(error) or NO_LOOP}", where="cluster: local",
            fix="run again; a script that starts them needs `if __name__ == '__main__':` around what it runs",
        ) from error  # fmt: skip
    with cluster, Client(cluster, set_as_default=False) as client:
        n_threads = sum(known["nthreads"] for known in client.scheduler_info()["workers"].values())
        worker = WorkerSettings("gpu" if on_gpu else "cpu", options, max(1, machine.n_threads() // max(1, n_threads)))
        workers = _led(client, settings, worker, reason, direct=True, outputs=outputs)
        try:
            yield workers
        finally:
            _let_settle(client, workers)


def _let_settle(client: Client, workers: DaskWorkers) -> None:
    """Wait for workers that are being started again: one that is ended before it is up says so with a traceback."""
    if workers.n_lost and client.status == "running":
        with suppress(TimeoutError):
            client.wait_for_workers(workers.n_workers_at_first, timeout=SETTLE_SECONDS)


def _start_on_cpu(settings: ClusterSettings) -> LocalCluster:
    from distributed import LocalCluster

    n_workers, n_threads = cluster_shape(settings, machine.n_threads())
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=n_threads, processes=True, protocol=settings.protocol,
        memory_limit=settings.memory_limit or machine.memory().total // n_workers,
        dashboard_address=settings.dashboard_address, scheduler_kwargs=_pages(settings),
        silence_logs=SILENT, **FOR_EACH_WORKER,
    )  # fmt: skip


def _start_on_gpus(settings: ClusterSettings) -> LocalCluster:
    _require("dask_cuda", "pip install 'gpupipe[cuda13]' (or cuda12), or run with --device cpu")
    restore_row_stack()
    from dask_cuda import LocalCUDACluster  # with cuDF's spilling it imports cuDF, here too

    n_gpus = device_report().gpu.count
    if settings.workers and settings.workers > n_gpus:
        raise ConfigError(
            f"{settings.workers} workers are asked for, each with a GPU of its own, and there are {n_gpus}",
            where="cluster.workers", fix=f"at most {n_gpus}, or --device cpu",
        )  # fmt: skip
    return LocalCUDACluster(
        n_workers=settings.workers, threads_per_worker=settings.threads or 1, protocol=settings.protocol,
        memory_limit=settings.memory_limit or "auto",
        device_memory_limit=settings.device_memory_limit or "default",
        rmm_pool_size=settings.rmm_pool_size, rmm_allocator_external_lib_list=["cupy"],
        enable_cudf_spill=settings.enable_cudf_spill,
        dashboard_address=settings.dashboard_address, scheduler_kwargs=_pages(settings),
        silence_logs=SILENT, **FOR_EACH_WORKER,
    )  # fmt: skip


def _pages(settings: ClusterSettings) -> dict[str, Any]:
    """Return where the scheduler has its pages; by itself it would open Dask's port to every machine, or warn."""
    return {} if settings.dashboard_address else {"dashboard": False, "dashboard_address": "127.0.0.1:0"}


@contextmanager
def _found(settings: ClusterSettings, device: str, options: DeviceOptions) -> Iterator[DaskWorkers]:
    from distributed import Client

    from gpupipe.dask.worker_process import WorkerSettings

    address = _address(settings)
    seconds = min(ANSWER_SECONDS, settings.deadline)
    try:
        with warnings.catch_warnings():
            # other versions are an error below, which says what to do
            warnings.filterwarnings("ignore", message="Mismatched versions found")
            client = Client(address, timeout=seconds, set_as_default=False)
    except START_FAILURES as error:
        _close_failed(error)
        raise ClusterError(
            f"no scheduler answers within {seconds:g} s: {str(error) or NO_LOOP}", where=address,
            fix="is it running, and is this its address? `dask scheduler` prints it; --cluster local needs none",
        ) from error  # fmt: skip
    with client:
        _wait_for_workers(client, settings, address)
        _compare_versions(client, settings.deadline)
        on_gpu, reason = _where(client, device, settings.deadline)
        yield _led(client, settings, WorkerSettings("gpu" if on_gpu else "cpu", options), reason, direct=False)


def _close_failed(error: BaseException) -> None:
    """Close the client that an error came from, which nobody else holds.

    Its finalizer would do it, but it takes the lock that the start of another client holds, and the garbage collector
    might run it in the thread that this start waits for.
    """
    from distributed import Client

    for frame, _ in traceback.walk_tb(error.__traceback__):
        failed = frame.f_locals.get("self")
        if isinstance(failed, Client):
            with suppress(OSError, RuntimeError):
                failed.close(timeout=1)


def _led(
    client: Client,
    settings: ClusterSettings,
    worker: Any,
    reason: str,
    *,
    direct: bool,
    outputs: Path | None = None,
) -> DaskWorkers:
    from gpupipe.dask import training  # noqa: F401 - registers what the workers train together
    from gpupipe.dask.workers import DaskWorkers

    dashboard = client.dashboard_link if settings.dashboard_address else ""
    return DaskWorkers(
        client, worker, settings.deadline, direct=direct, reason=reason, dashboard=dashboard, outputs=outputs
    )


def cluster_shape(settings: ClusterSettings, n_cores: int) -> tuple[int, int]:
    """Return the number of workers, and of threads of each; what the settings leave open gives every core work."""
    from distributed.deploy.utils import nprocesses_nthreads

    if settings.workers is not None:
        return settings.workers, settings.threads or max(1, n_cores // settings.workers)
    if settings.threads is not None:
        return max(1, n_cores // settings.threads), settings.threads
    n_workers, n_threads = nprocesses_nthreads(n_cores)
    return n_workers, n_threads


def _address(settings: ClusterSettings) -> str:
    """Return the address of a scheduler that runs: the one given, or that in its file."""
    path = settings.scheduler_file
    if path is None:
        return str(settings.scheduler)
    fix = "local, tcp://host:8786, or the file that `dask scheduler --scheduler-file FILE` wrote"
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except OSError as error:
        raise ConfigError(
            f"cannot read the scheduler file {path}: {error.strerror}", where="--cluster", fix=fix
        ) from None
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path} is no scheduler file: it names no address", where="--cluster", fix=fix) from None


def _wait_for_workers(client: Client, settings: ClusterSettings, address: str) -> None:
    wanted = settings.workers or 1
    try:
        client.wait_for_workers(wanted, timeout=settings.deadline)
    except TimeoutError:
        n_workers = len(client.scheduler_info()["workers"])
        have = "has no workers" if n_workers == 0 else f"has {n_workers} of {wanted} workers"
        raise ClusterError(
            f"the scheduler {have}, and no more have joined within {settings.deadline:g} s", where=address,
            fix=f"start some: `dask worker {address}`; if a queue starts them, raise cluster.deadline",
        ) from None  # fmt: skip


def _compare_versions(client: Client, deadline: float) -> None:
    """Raise a ClusterError unless the workers have the versions of this process, as far as they matter."""
    ours = _on_each(client, deadline, pkgutil.resolve_name, OUR_VERSION)  # a worker may not have gpupipe
    found = client.get_versions()
    theirs = {
        where: versions.process_versions(
            record, None if isinstance(ours.get(where), BaseException) else ours.get(where)
        )
        for where, record in found["workers"].items()
    }
    here = versions.process_versions(found["client"], pkgutil.resolve_name(OUR_VERSION))
    versions.compare(here, {"the scheduler": versions.scheduler_versions(found["scheduler"]), **theirs})


def _where(client: Client, device: str, deadline: float) -> tuple[bool, str]:
    """Return whether the workers of a running cluster compute on GPUs, and why."""
    if device == "cpu":
        return False, "asked for"
    found = _on_each(client, deadline, lambda: device_report().gpu_obstacle)
    obstacles = {where: str(what) for where, what in found.items() if what}
    if not obstacles:
        return True, "every worker has a GPU"
    where, obstacle = next(iter(obstacles.items()))
    if device == "gpu":
        raise DeviceError(
            f"the GPU was asked for, and {len(obstacles)} workers cannot use one: {obstacle}", where=where,
            fix="start them with `dask cuda worker` on machines with GPUs, or run with --device auto or cpu",
        )  # fmt: skip
    return False, f"{len(obstacles)} workers cannot use a GPU ({where}: {obstacle})"


def _on_each(client: Client, deadline: float, function: Any, *arguments: Any) -> dict[str, Any]:
    """Return the result of a function on each worker, or the exception that it raised there."""
    from distributed import wait

    asked = {
        where: client.submit(function, *arguments, workers=[where], pure=False)
        for where in client.scheduler_info()["workers"]
    }
    try:
        with client.as_current():
            wait(list(asked.values()), timeout=deadline)
    except TimeoutError:
        silent = [where for where, future in asked.items() if not future.done()]
        raise ClusterError(
            f"{len(silent)} of {len(asked)} workers do not answer within {deadline:g} s", where=", ".join(silent[:5]),
            fix="they may be busy with another job: wait for it, or raise cluster.deadline; else start them again",
        ) from None  # fmt: skip
    return {where: future.exception() or future.result() for where, future in asked.items()}


@contextmanager
def _quiet(*packages: str) -> Iterator[None]:
    """Keep packages from logging what our own errors and remarks say."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in packages]
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(SILENT)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _require(package: str, fix: str) -> None:
    if find_spec(package) is None:
        raise ConfigError(f"a cluster needs {package}, which is not installed", where="--cluster", fix=fix)
