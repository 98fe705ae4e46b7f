"""Computation of the CPU's metrics for the model comparisons in advance, in a file to take to the GPU machine.

``python -m benchmarks.device.cpu_metrics --out FILE``, run from the checkout, trains on the CPU every model that a step
compares with its GPU version. If the environment variable ``GPUPIPE_CPU_METRICS`` names that file, the steps read the
CPU's metrics from it, and the time on the GPU machine is spent on GPU work only. Existing entries of FILE are kept, so
an interrupted call can be repeated.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.device import comparisons, end_to_end, networks
from benchmarks.device.parity import compute_metrics
from benchmarks.device.recorded_metrics import key_of, load, sources
from benchmarks.device.results import replace
from gpupipe.config import Config
from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.files.jsonfile import dumps
from gpupipe.files.libraries import libraries


def record(path: Path, configurations: Iterator[tuple[str, Config]]) -> int:
    """Compute the CPU metrics missing in `path`, and write the file after each of them.

    Returns
    -------
    int
        Number of entries in the file for `configurations`.
    """
    found: dict[str, Any] = {}
    if path.exists():
        earlier = load(path)
        if (earlier["libraries"], earlier["sources"]) == (libraries(), sources()):
            found = dict(earlier["metrics"])
    keys = []
    for title, config in configurations:
        keys.append(key := key_of(config))
        if key in found:
            continue
        start = time.perf_counter()
        metrics = compute_metrics(config, "cpu")
        seconds = round(time.perf_counter() - start, 1)
        found[key] = {"title": title, "seconds": seconds, "metrics": metrics}
        print(f"{title}: {seconds:.1f} s", flush=True)
        replace(path, dumps({"libraries": libraries(), "sources": sources(), "metrics": found}, indent=1) + "\n")
    return len({*keys} & {*found})


# What each step compares on both devices.
CONFIGURATIONS: dict[str, Callable[[], Iterator[tuple[str, Config]]]] = {
    "churn": end_to_end.compared_configurations,
    "networks": networks.compared_configurations,
    "models": comparisons.model_configurations,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file of CPU metrics, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.device.cpu_metrics", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True)
    parser.add_argument(
        "--steps", nargs="+", choices=list(CONFIGURATIONS), default=list(CONFIGURATIONS), help="(default: all)"
    )
    options = parser.parse_args(arguments)
    try:
        if "models" in options.steps and not os.environ.get("GPUPIPE_DATA"):
            raise ConfigError("GPUPIPE_DATA is not set", fix="set it to the folder of the public tables, for models")
        n = record(options.out, (one for step in options.steps for one in CONFIGURATIONS[step]()))
    except GpupipeError as error:
        print(f"{error.title}: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{options.out}: CPU metrics of {n} configurations")
    return 0


if __name__ == "__main__":
    sys.exit(main())
