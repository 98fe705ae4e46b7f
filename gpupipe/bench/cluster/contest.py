"""One contestant in a process of its own: its seconds, and what tells its features from those of another one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from gpupipe.bench.clock import StageClock

SHARED, ALONE, DASK = "gpupipe, workers", "gpupipe, one process", "dask.dataframe"
CONTESTANTS = {SHARED: ("ours", "shared"), ALONE: ("ours", "alone"), DASK: ("with_dask", "features")}
START = "start"  # of the workers: not counted, for a cluster outlives a job


def run_contest(file: Path, name: str, n_workers: int, memory: str | None) -> dict[str, Any]:
    """Make the features of a file once.

    Returns
    -------
    dict
        ``seconds`` of each stage and their ``total`` without the start of the workers; ``rows``, ``means`` and
        ``marks`` of the training matrix; of our workers, what each held.
    """
    module, function = CONTESTANTS[name]
    clock = StageClock()
    found = getattr(import_module(f"gpupipe.bench.cluster.{module}"), function)(file, clock, n_workers, memory)
    total = sum(seconds for stage, seconds in clock.wall.items() if stage != START)
    return {"seconds": {**clock.wall, "total": total}, **found}
