"""Child process that computes the features once: ``python -m benchmarks.cluster.child FILE NAME --json OUT``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from gpupipe.bench.child import write_document
from gpupipe.bench.clock import StageClock

SHARED = "gpupipe, workers"
ALONE = "gpupipe, one process"
DASK = "dask.dataframe"
# name → module and function: a child imports only the libraries of its implementation
IMPLEMENTATIONS = {
    SHARED: ("benchmarks.cluster.gpupipe_features", "shared"),
    ALONE: ("benchmarks.cluster.gpupipe_features", "alone"),
    DASK: ("benchmarks.peers.features_dask", "features"),
}
START = "start"  # start of the workers; not counted, since a cluster outlives a job


def make_features(file: Path, name: str, n_workers: int, memory: str | None) -> dict[str, Any]:
    """Compute the features of a file once, and return the measurements.

    Returns
    -------
    dict
        ``seconds`` of each stage and their ``total`` without the start of the workers; ``rows``, ``means`` and
        ``marks`` of the training matrix; for gpupipe's workers, the peak memory of each.
    """
    module, function = IMPLEMENTATIONS[name]
    clock = StageClock()
    measured = getattr(import_module(module), function)(file, clock, n_workers, memory)
    total = sum(seconds for stage, seconds in clock.wall.items() if stage != START)
    return {"seconds": {**clock.wall, "total": total}, **measured}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the measurements of one implementation; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.child", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("name", choices=list(IMPLEMENTATIONS))
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--memory", metavar="SIZE", help="memory limit of each worker")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    return write_document(
        lambda: make_features(options.file, options.name, options.workers, options.memory), options.json
    )


if __name__ == "__main__":
    sys.exit(main())
