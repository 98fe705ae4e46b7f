"""Changes to Dask's own configuration while a cluster is connected."""

from __future__ import annotations

from typing import Any

from gpupipe.config.cluster import ClusterSettings
from gpupipe.units import MIB

# Dask sets these in this process too before it starts a worker.
BEFORE_START = {
    # glibc's thresholds in bytes, which a process adapts by default. Dask makes glibc return memory as soon as it is
    # freed: every new array then faults in new pages, which costs more than most of the work on it.
    "MALLOC_TRIM_THRESHOLD_": 64 * MIB,
    "MALLOC_MMAP_THRESHOLD_": 32 * MIB,
    # Workers start with ``python -c``, which imports from the current folder first.
    "PYTHONSAFEPATH": 1,
}

LOST_WORKER_SECONDS = 300.0

# Values are embedded in tasks on purpose.
GRAPH_SETTINGS: dict[str, Any] = {"distributed.admin.large-graph-warning-threshold": "1PB"}


def dask_settings(settings: ClusterSettings, answer_seconds: float) -> dict[str, Any]:
    """Return the changes to Dask's configuration; `answer_seconds` is the time-out of a connection to the scheduler."""
    return {
        **GRAPH_SETTINGS,
        "distributed.comm.timeouts.connect": f"{min(answer_seconds, settings.deadline)}s",
        "distributed.scheduler.allowed-failures": settings.retries,
        # A task that lost all workers it may run on never moves to a worker that joins later: end its wait.
        "distributed.scheduler.no-workers-timeout": f"{settings.deadline}s",
        # Profiles, sampled 100 times a second, are shown on the dashboard only.
        "distributed.worker.profile.enabled": bool(settings.dashboard_address),
        # The time-to-live of a silent worker, short enough for others to take over its tasks before the deadline.
        "distributed.scheduler.worker-ttl": f"{settings.deadline / 3}s",
        # A local cluster closes the nanny of a worker that has not restarted by then; a busy machine needs longer.
        "distributed.deploy.lost-worker-timeout": f"{max(settings.deadline, LOST_WORKER_SECONDS)}s",
        "distributed.nanny.pre-spawn-environ": BEFORE_START,
        # Dask sets thread limits in this process before it starts a worker. Only the worker should have them.
        "distributed.nanny.environ": {
            "OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, "OMP_WAIT_POLICY": "PASSIVE",
        },
    }  # fmt: skip
