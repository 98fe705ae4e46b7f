"""Computation of the CPU's metrics for the model comparisons in advance, in a file to take to the GPU machine.

``python -m benchmarks.device.cpu_metrics --out FILE``, run from the checkout with ``GPUPIPE_DATA`` set, trains on the
CPU every model that a step or a test compares with its GPU version. If the environment variable ``GPUPIPE_CPU_METRICS``
names that file, `benchmarks.device.parity.metrics_of` reads the CPU's metrics from it, and the time on the GPU machine
is spent on GPU work only. Existing entries of FILE are kept, so an interrupted call can be repeated.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.device.comparisons import model_configurations
from benchmarks.device.parity import compute_metrics
from benchmarks.device.recorded_metrics import key_of, load, sources
from benchmarks.device.results import replace
from gpupipe.config import Config
from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.pipeline.jsonfile import dumps
from gpupipe.pipeline.libraries import libraries

LEARNERS = "tests.gpu.learners"  # configurations of the tests


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


def configurations() -> Iterator[tuple[str, Config]]:
    """Yield title and configuration of each model that a step or a test compares on both devices."""
    yield from model_configurations()
    yield from import_module(LEARNERS).compared(Path(os.environ["GPUPIPE_DATA"]).resolve())


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file of CPU metrics, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.device.cpu_metrics", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True)
    options = parser.parse_args(arguments)
    try:
        if not os.environ.get("GPUPIPE_DATA"):
            raise ConfigError("GPUPIPE_DATA is not set", fix="set it to the folder of the public tables")
        n = record(options.out, configurations())
    except GpupipeError as error:
        print(f"{error.title}: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{options.out}: CPU metrics of {n} configurations")
    return 0


if __name__ == "__main__":
    sys.exit(main())
