"""Changes to Dask's own configuration while a cluster is connected."""

from __future__ import annotations

from typing import Any

from gpupipe.config.cluster import ClusterSettings
from gpupipe.units import MIB

# Dask sets these in this process too before it starts a worker.
BEFORE_START = {
    # Thresholds of glibc in bytes, which a process adapts to by itself. Dask makes glibc return memory as soon as it is
    # freed: every new array then faults in new pages, which costs more than most of the work on it.
    "MALLOC_TRIM_THRESHOLD_": 64 * MIB,
    "MALLOC_MMAP_THRESHOLD_": 32 * MIB,
    # Workers start with ``python -c``, which imports from the current folder first.
    "PYTHONSAFEPATH": 1,
}

LOST_WORKER_SECONDS = 300.0


def dask_settings(settings: ClusterSettings, answer_seconds: float) -> dict[str, Any]:
    """Return what of Dask's own configuration differs; a scheduler has `answer_seconds` to answer at all."""
    return {
        "distributed.admin.large-graph-warning-threshold": "1PB",  # what is put is part of a task, and meant to be
        "distributed.comm.timeouts.connect": f"{min(answer_seconds, settings.deadline)}s",
        "distributed.scheduler.allowed-failures": settings.retries,
        # A task that was given to a worker, and others if that is lost, is not given to one that joins after all are.
        "distributed.scheduler.no-workers-timeout": f"{settings.deadline}s",
        # Only the dashboard shows where workers spend their time: they need not look a hundred times a second.
        "distributed.worker.profile.enabled": bool(settings.dashboard_address),
        # Of a worker that lives and does not answer. It is looked for as often: others take over before the deadline.
        "distributed.scheduler.worker-ttl": f"{settings.deadline / 3}s",
        # A local cluster closes the nanny of a worker that is not back by then; on a busy machine a start takes longer.
        "distributed.deploy.lost-worker-timeout": f"{max(settings.deadline, LOST_WORKER_SECONDS)}s",
        "distributed.nanny.pre-spawn-environ": BEFORE_START,
        # Dask sets threads before it starts a worker: in this process, that is. Here it is to be in the worker alone.
        "distributed.nanny.environ": {
            "OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, "OMP_WAIT_POLICY": "PASSIVE",
        },
    }  # fmt: skip
