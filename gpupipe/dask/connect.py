"""Connection to the workers of ``--cluster`` and the ``cluster:`` section.

local
    Workers are processes on this machine that live as long as the run: on the CPU, or one per GPU.
tcp://host:8786, or a scheduler file
    Workers are those of an existing scheduler. Their versions must be compatible with this process: see
    `gpupipe.dask.versions`.
a client of the caller, from Python
    The same, through this client, which stays open.
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
from gpupipe.backends.probe import INSTALL_RAPIDS, missing_packages, missing_packages_reason
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask import versions
from gpupipe.dask.configuration import BEFORE_START, GRAPH_SETTINGS, dask_settings
from gpupipe.dask.worker_output import capture_output
from gpupipe.errors import ClusterError, ConfigError, DeviceError
from gpupipe_kernels.numpy_compat import restore_row_stack

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

    from gpupipe.dask.workers import DaskWorkers

ANSWER_SECONDS = 10.0  # for the first answer of a scheduler
SETTLE_SECONDS = 5.0  # for a worker to restart
OUR_VERSION = "gpupipe:__version__"
WORKER_PACKAGES = ("dask_cuda", "rmm")  # start the workers of a local cluster on GPUs
# Keywords that Dask's and dask-cuda's clusters pass to their workers, which run the `dask_setup` of a module first.
FOR_EACH_WORKER = {"preload": ["gpupipe.dask.worker_process"]}
SILENT = logging.CRITICAL + 1
START_FAILURES = (RuntimeError, OSError, ValueError, AssertionError)
NO_LOOP = "its event loop did not start within 10 s"  # Dask's assertion has no message


@contextmanager
def connect(
    settings: ClusterSettings, device: str = "auto", options: DeviceOptions = DEFAULT_OPTIONS
) -> Iterator[DaskWorkers]:
    """Yield the workers of a cluster. Workers started here are always stopped on exit.

    `settings` have a ``scheduler``. `device` is auto, cpu or gpu; auto: the GPU if every worker has one. Raise
    ConfigError if Dask is not installed, a scheduler file does not exist, or there are fewer GPUs than workers;
    ClusterError if no scheduler answers, it has no workers, or versions differ; DeviceError if `device` is "gpu" and a
    worker has none.
    """
    _require("distributed", "pip install 'gpupipe[cluster]'")
    if settings.dashboard_address:
        _require("bokeh", "pip install bokeh, or remove cluster.dashboard_address")
    import dask
    import distributed  # loads Dask's defaults and loggers

    if settings.client is not None:
        # Only for the graphs of this run: the client, its loggers and its time-outs are the caller's.
        with dask.config.set(GRAPH_SETTINGS):
            yield _lent(settings, device, options)
        return
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
    """Keep child processes from importing from the current folder; restore the environment on exit.

    Workers and the tracker of their semaphores are started with ``python -c``. Variables that Dask sets in this process
    are restored too.
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
    obstacle = report.gpu_obstacle or missing_packages_reason(missing_packages(WORKER_PACKAGES))
    if device == "gpu" and obstacle:
        fix = f"{INSTALL_RAPIDS}, or run with --device cpu" if report.gpu.usable else ""
        raise DeviceError(f"device: gpu, but the GPU cannot be used: {obstacle}", where="device: gpu", fix=fix)
    on_gpu = device != "cpu" and not obstacle
    reason = report.gpu.reason if on_gpu else "asked for" if device == "cpu" else obstacle
    start = _start_on_gpus if on_gpu else _start_on_cpu
    try:
        cluster = start(settings)
    except START_FAILURES as error:
        raise ClusterError(
            f"the workers did not start: {str(error) or NO_LOOP}",
            where="cluster: local",
            fix="run again; a script that starts workers must guard its code with `if __name__ == '__main__':`",
        ) from error
    with cluster, Client(cluster, set_as_default=False) as client:
        n_threads = sum(known["nthreads"] for known in client.scheduler_info()["workers"].values())
        worker = WorkerSettings("gpu" if on_gpu else "cpu", options, max(1, machine.n_threads() // max(1, n_threads)))
        workers = _led(client, settings, worker, reason, direct=True, outputs=outputs)
        try:
            yield workers
        finally:
            _let_settle(client, workers)


def _let_settle(client: Client, workers: DaskWorkers) -> None:
    """Wait for restarting workers: a worker that is stopped during its start prints a traceback."""
    if workers.n_lost and client.status == "running":
        with suppress(TimeoutError):
            client.wait_for_workers(workers.n_workers_at_first, timeout=SETTLE_SECONDS)


def _start_on_cpu(settings: ClusterSettings) -> LocalCluster:
    from distributed import LocalCluster

    n_workers, n_threads = cluster_shape(settings, machine.n_threads())
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=n_threads,
        processes=True,
        protocol=settings.protocol,
        memory_limit=settings.memory_limit or machine.memory().total // n_workers,
        dashboard_address=settings.dashboard_address,
        scheduler_kwargs=_pages(settings),
        silence_logs=SILENT,
        **FOR_EACH_WORKER,
    )


def _start_on_gpus(settings: ClusterSettings) -> LocalCluster:
    restore_row_stack()
    from dask_cuda import LocalCUDACluster  # with spilling enabled it imports cuDF in this process too

    n_gpus = device_report().gpu.count
    if settings.workers and settings.workers > n_gpus:
        raise ConfigError(
            f"expected a GPU for each of {settings.workers} workers; found {n_gpus}",
            where="cluster.workers",
            fix=f"set it to at most {n_gpus}, or use --device cpu",
        )
    return LocalCUDACluster(
        n_workers=settings.workers,
        threads_per_worker=settings.threads or 1,
        protocol=settings.protocol,
        memory_limit=settings.memory_limit or "auto",
        device_memory_limit=settings.device_memory_limit or "default",
        rmm_pool_size=settings.rmm_pool_size,
        rmm_allocator_external_lib_list=["cupy"],
        enable_cudf_spill=settings.enable_cudf_spill,
        dashboard_address=settings.dashboard_address,
        scheduler_kwargs=_pages(settings),
        silence_logs=SILENT,
        **FOR_EACH_WORKER,
    )


def _pages(settings: ClusterSettings) -> dict[str, Any]:
    """Return the dashboard address; Dask's default listens on every interface, or warns."""
    return {} if settings.dashboard_address else {"dashboard": False, "dashboard_address": "127.0.0.1:0"}


@contextmanager
def _found(settings: ClusterSettings, device: str, options: DeviceOptions) -> Iterator[DaskWorkers]:
    from distributed import Client

    address = _address(settings)
    seconds = min(ANSWER_SECONDS, settings.deadline)
    try:
        with warnings.catch_warnings():
            # differing versions are an error below, with a fix
            warnings.filterwarnings("ignore", message="Mismatched versions found")
            client = Client(address, timeout=seconds, set_as_default=False)
    except START_FAILURES as error:
        _close_failed(error)
        raise ClusterError(
            f"no scheduler answered within {seconds:g} s: {str(error) or NO_LOOP}",
            where=address,
            fix="start it, or correct the address that `dask scheduler` prints; --cluster local needs no scheduler",
        ) from error
    with client:
        yield _checked(client, settings, address, device, options)


def _lent(settings: ClusterSettings, device: str, options: DeviceOptions) -> DaskWorkers:
    """Return the workers of the caller's client."""
    client = settings.client
    if client.status != "running":
        raise ClusterError(
            f"expected a connected client; its status is {client.status!r}",
            where="cluster",
            fix="make a new one: client = distributed.Client(...)",
        )
    return _checked(client, settings, str(settings.scheduler), device, options)


def _checked(
    client: Client, settings: ClusterSettings, address: str, device: str, options: DeviceOptions
) -> DaskWorkers:
    """Return the workers of a running scheduler, once enough have joined and their versions are compared."""
    from gpupipe.dask.worker_process import WorkerSettings

    _wait_for_workers(client, settings, address)
    _compare_versions(client, settings.deadline)
    on_gpu, reason = _where(client, device, settings.deadline)
    return _led(client, settings, WorkerSettings("gpu" if on_gpu else "cpu", options), reason, direct=False)


def current_client() -> Any:
    """Return the client that Dask uses at present in this thread.

    Raise ConfigError if there is none, or Dask's scheduler is not installed.
    """
    _require("distributed", "pip install 'gpupipe[cluster]'")
    from distributed import Client

    try:
        return Client.current()
    except ValueError:
        raise ConfigError(
            "a Dask DataFrame is read by the workers of a client, and there is none",
            where="cluster",
            fix="start one, client = distributed.Client(); or pass collection.compute()",
        ) from None


def _close_failed(error: BaseException) -> None:
    """Close the client that an error came from, to which nothing else refers.

    Its finalizer would do so, but takes a lock that the start of another client holds, and the garbage collector
    may run it in the thread that this start waits for.
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
    """Return the number of workers and of threads per worker; defaults use every core."""
    from distributed.deploy.utils import nprocesses_nthreads

    if settings.workers is not None:
        return settings.workers, settings.threads or max(1, n_cores // settings.workers)
    if settings.threads is not None:
        return max(1, n_cores // settings.threads), settings.threads
    n_workers, n_threads = nprocesses_nthreads(n_cores)
    return n_workers, n_threads


def _address(settings: ClusterSettings) -> str:
    """Return the address of an existing scheduler: the one given, or the one in its file."""
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
        raise ConfigError(f"{path} is not a scheduler file: it has no address", where="--cluster", fix=fix) from None


def _wait_for_workers(client: Client, settings: ClusterSettings, address: str) -> None:
    wanted = settings.workers or 1
    try:
        client.wait_for_workers(wanted, timeout=settings.deadline)
    except TimeoutError:
        n_workers = len(client.scheduler_info()["workers"])
        have = "has no workers" if n_workers == 0 else f"has {n_workers} of {wanted} workers"
        raise ClusterError(
            f"the scheduler {have}; no more joined within {settings.deadline:g} s",
            where=address,
            fix=f"start workers with `dask worker {address}`; if a queue starts them, raise cluster.deadline",
        ) from None


def _compare_versions(client: Client, deadline: float) -> None:
    """Raise a ClusterError if the workers have incompatible versions."""
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
    """Return the device of the workers of a running cluster, and the reason."""
    if device == "cpu":
        return False, "asked for"
    found = _on_each(client, deadline, lambda: device_report().gpu_obstacle)
    obstacles = {where: str(what) for where, what in found.items() if what}
    if not obstacles:
        return True, "every worker has a GPU"
    where, obstacle = next(iter(obstacles.items()))
    if device == "gpu":
        raise DeviceError(
            f"device: gpu, but {len(obstacles)} workers cannot use a GPU: {obstacle}",
            where=where,
            fix="start them with `dask cuda worker` on machines with GPUs, or run with --device auto or cpu",
        )
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
            f"{len(silent)} of {len(asked)} workers did not answer within {deadline:g} s",
            where=", ".join(silent[:5]),
            fix="if they run another job, wait for it or raise cluster.deadline; otherwise restart them",
        ) from None
    return {where: future.exception() or future.result() for where, future in asked.items()}


@contextmanager
def _quiet(*packages: str) -> Iterator[None]:
    """Silence log lines of packages that repeat gpupipe's errors and warnings."""
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
